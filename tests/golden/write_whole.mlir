"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>, %1: tensor<f32>):
%2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32> loc(#loc1)
%3 = "stablehlo.multiply"(%0, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
"func.return"(%3) : (tensor<4x8xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("mul.Tensor")
