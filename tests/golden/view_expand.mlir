"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<3xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<3xf32>, %2: tensor<2x3x4xf32>):
%1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3x4xf32> loc(#loc1)
%3 = "stablehlo.multiply"(%1, %2) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32> loc(#loc1)
"func.return"(%3) : (tensor<2x3x4xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("mul.Tensor")
