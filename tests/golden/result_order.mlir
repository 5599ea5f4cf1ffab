"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<2x3x4xf32>):
%1 = "stablehlo.sine"(%0) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32> loc(#loc1)
%2 = "stablehlo.transpose"(%1) {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32> loc(#loc1)
"func.return"(%2) : (tensor<4x2x3xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("sin")
