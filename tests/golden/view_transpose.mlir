"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xf32>) -> (tensor<4x8xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>):
%1 = "stablehlo.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32> loc(#loc1)
%2 = "stablehlo.exponential"(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32> loc(#loc1)
%3 = "stablehlo.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32> loc(#loc1)
"func.return"(%3) : (tensor<4x8xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("exp")
