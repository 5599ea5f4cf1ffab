"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>):
%1 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%2 = "stablehlo.reduce_window"(%0, %1) ({
^bb0(%3: tensor<f32>, %4: tensor<f32>):
%5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%5) : (tensor<f32>) -> () loc(#loc1)
}) {window_dimensions = array<i64: 1, 8>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [7, 0]]> : tensor<2x2xi64>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc(#loc1)
%6 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32> loc(#loc2)
%7 = "stablehlo.reduce_window"(%2, %6) ({
^bb0(%8: tensor<f32>, %9: tensor<f32>):
%10 = "stablehlo.maximum"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc2)
"stablehlo.return"(%10) : (tensor<f32>) -> () loc(#loc2)
}) {window_dimensions = array<i64: 4, 1>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc(#loc2)
%11 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<4x8xi32> loc(#loc2)
%12 = "stablehlo.compare"(%2, %2) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1> loc(#loc2)
%13 = "stablehlo.compare"(%2, %7) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1> loc(#loc2)
%14 = "stablehlo.or"(%13, %12) : (tensor<4x8xi1>, tensor<4x8xi1>) -> tensor<4x8xi1> loc(#loc2)
%15 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32> loc(#loc2)
%16 = "stablehlo.broadcast_in_dim"(%15) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4x8xi32> loc(#loc2)
%17 = "stablehlo.select"(%14, %11, %16) : (tensor<4x8xi1>, tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi32> loc(#loc2)
%18 = "stablehlo.constant"() {value = dense<-2147483648> : tensor<i32>} : () -> tensor<i32> loc(#loc2)
%19 = "stablehlo.reduce_window"(%17, %18) ({
^bb0(%20: tensor<i32>, %21: tensor<i32>):
%22 = "stablehlo.maximum"(%20, %21) : (tensor<i32>, tensor<i32>) -> tensor<i32> loc(#loc2)
"stablehlo.return"(%22) : (tensor<i32>) -> () loc(#loc2)
}) {window_dimensions = array<i64: 4, 1>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>} : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32> loc(#loc2)
%23 = "stablehlo.convert"(%19) : (tensor<4x8xi32>) -> tensor<4x8xi64> loc(#loc2)
"func.return"(%7, %23) : (tensor<4x8xf32>, tensor<4x8xi64>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("cumsum")
#loc2 = loc("cummax")
