"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<6x8xf32>) -> (tensor<2x3xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<6x8xf32>):
%1 = "stablehlo.slice"(%0) {start_indices = array<i64: 1, 1>, limit_indices = array<i64: 4, 6>, strides = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<3x5xf32> loc(#loc1)
%2 = "stablehlo.slice"(%1) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 5>, strides = array<i64: 2, 2>} : (tensor<3x5xf32>) -> tensor<2x3xf32> loc(#loc1)
%3 = "stablehlo.negate"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc1)
"func.return"(%3) : (tensor<2x3xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("neg")
