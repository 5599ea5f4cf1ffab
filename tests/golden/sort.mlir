"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xi64>, tensor<3x3xf32>, tensor<3x3xi64>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<3x8xf32>):
%1 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<3x8xi32> loc(#loc1)
%2:2 = "stablehlo.sort"(%0, %1) ({
^bb0(%3: tensor<f32>, %4: tensor<f32>, %5: tensor<i32>, %6: tensor<i32>):
%7 = "stablehlo.compare"(%3, %4) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc1)
%8 = "stablehlo.compare"(%4, %4) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc1)
%9 = "stablehlo.not"(%8) : (tensor<i1>) -> tensor<i1> loc(#loc1)
%10 = "stablehlo.compare"(%3, %3) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc1)
%11 = "stablehlo.and"(%10, %9) : (tensor<i1>, tensor<i1>) -> tensor<i1> loc(#loc1)
%12 = "stablehlo.or"(%7, %11) : (tensor<i1>, tensor<i1>) -> tensor<i1> loc(#loc1)
"stablehlo.return"(%12) : (tensor<i1>) -> () loc(#loc1)
}) {dimension = 1 : i64, is_stable = true} : (tensor<3x8xf32>, tensor<3x8xi32>) -> (tensor<3x8xf32>, tensor<3x8xi32>) loc(#loc1)
%13 = "stablehlo.convert"(%2#1) : (tensor<3x8xi32>) -> tensor<3x8xi64> loc(#loc1)
%14 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<3x8xi32> loc(#loc2)
%15:2 = "stablehlo.sort"(%0, %14) ({
^bb0(%16: tensor<f32>, %17: tensor<f32>, %18: tensor<i32>, %19: tensor<i32>):
%20 = "stablehlo.compare"(%16, %17) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc2)
%21 = "stablehlo.compare"(%16, %16) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc2)
%22 = "stablehlo.not"(%21) : (tensor<i1>) -> tensor<i1> loc(#loc2)
%23 = "stablehlo.compare"(%17, %17) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc2)
%24 = "stablehlo.and"(%23, %22) : (tensor<i1>, tensor<i1>) -> tensor<i1> loc(#loc2)
%25 = "stablehlo.or"(%20, %24) : (tensor<i1>, tensor<i1>) -> tensor<i1> loc(#loc2)
"stablehlo.return"(%25) : (tensor<i1>) -> () loc(#loc2)
}) {dimension = 1 : i64, is_stable = true} : (tensor<3x8xf32>, tensor<3x8xi32>) -> (tensor<3x8xf32>, tensor<3x8xi32>) loc(#loc2)
%26 = "stablehlo.slice"(%15#0) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 3>, strides = array<i64: 1, 1>} : (tensor<3x8xf32>) -> tensor<3x3xf32> loc(#loc2)
%27 = "stablehlo.slice"(%15#1) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 3>, strides = array<i64: 1, 1>} : (tensor<3x8xi32>) -> tensor<3x3xi32> loc(#loc2)
%28 = "stablehlo.convert"(%27) : (tensor<3x3xi32>) -> tensor<3x3xi64> loc(#loc2)
"func.return"(%2#0, %13, %26, %28) : (tensor<3x8xf32>, tensor<3x8xi64>, tensor<3x3xf32>, tensor<3x3xi64>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("sort.stable")
#loc2 = loc("topk")
