"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {tf.aliasing_output = 1 : i32}, {}], function_type = (tensor<4xf32>, tensor<2x2xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<2x2xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4xf32>, %1: tensor<2x2xf32>, %2: tensor<f32>):
%3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%6 = "stablehlo.multiply"(%3, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%7 = "stablehlo.add"(%0, %6) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%8 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x2xf32> loc(#loc1)
%9 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x2xf32> loc(#loc1)
%10 = "stablehlo.multiply"(%8, %9) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> loc(#loc1)
%11 = "stablehlo.add"(%1, %10) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> loc(#loc1)
"func.return"(%7, %11) : (tensor<4xf32>, tensor<2x2xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("_foreach_add.Scalar")
