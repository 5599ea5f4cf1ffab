"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xbf16>, tensor<4x8xi32>) -> (tensor<4x1xbf16>, tensor<i64>, tensor<8xbf16>, tensor<4xi1>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xbf16>, %12: tensor<4x8xi32>):
%1 = "stablehlo.convert"(%0) : (tensor<4x8xbf16>) -> tensor<4x8xf32> loc(#loc1)
%2 = "stablehlo.constant"() {value = dense<8.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%3 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%4 = "stablehlo.reduce"(%1, %3) ({
^bb0(%5: tensor<f32>, %6: tensor<f32>):
%7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%7) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 1>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
%8 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%9 = "stablehlo.divide"(%4, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%10 = "stablehlo.reshape"(%9) : (tensor<4xf32>) -> tensor<4x1xf32> loc(#loc1)
%11 = "stablehlo.convert"(%10) : (tensor<4x1xf32>) -> tensor<4x1xbf16> loc(#loc1)
%13 = "stablehlo.convert"(%12) : (tensor<4x8xi32>) -> tensor<4x8xi64> loc(#loc2)
%14 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc2)
%15 = "stablehlo.reduce"(%13, %14) ({
^bb0(%16: tensor<i64>, %17: tensor<i64>):
%18 = "stablehlo.add"(%16, %17) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc(#loc2)
"stablehlo.return"(%18) : (tensor<i64>) -> () loc(#loc2)
}) {dimensions = array<i64: 0, 1>} : (tensor<4x8xi64>, tensor<i64>) -> tensor<i64> loc(#loc2)
%19 = "stablehlo.convert"(%0) : (tensor<4x8xbf16>) -> tensor<4x8xf32> loc(#loc3)
%20 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32> loc(#loc3)
%21 = "stablehlo.reduce"(%19, %20) ({
^bb0(%22: tensor<f32>, %23: tensor<f32>):
%24 = "stablehlo.maximum"(%22, %23) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc3)
"stablehlo.return"(%24) : (tensor<f32>) -> () loc(#loc3)
}) {dimensions = array<i64: 0>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32> loc(#loc3)
%25 = "stablehlo.convert"(%21) : (tensor<8xf32>) -> tensor<8xbf16> loc(#loc3)
%26 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32> loc(#loc4)
%27 = "stablehlo.broadcast_in_dim"(%26) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4x8xi32> loc(#loc4)
%28 = "stablehlo.compare"(%12, %27) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1> loc(#loc4)
%29 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1> loc(#loc4)
%30 = "stablehlo.reduce"(%28, %29) ({
^bb0(%31: tensor<i1>, %32: tensor<i1>):
%33 = "stablehlo.or"(%31, %32) : (tensor<i1>, tensor<i1>) -> tensor<i1> loc(#loc4)
"stablehlo.return"(%33) : (tensor<i1>) -> () loc(#loc4)
}) {dimensions = array<i64: 1>} : (tensor<4x8xi1>, tensor<i1>) -> tensor<4xi1> loc(#loc4)
"func.return"(%11, %15, %25, %30) : (tensor<4x1xbf16>, tensor<i64>, tensor<8xbf16>, tensor<4xi1>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("mean.dim")
#loc2 = loc("sum.dim_IntList")
#loc3 = loc("amax")
#loc4 = loc("any.dim")
