"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x6xf32>) -> (tensor<3x2xf32>, tensor<4x6xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x6xf32>):
%1 = "stablehlo.reshape"(%0) : (tensor<4x6xf32>) -> tensor<2x2x6xf32> loc(#loc1)
%2 = "stablehlo.transpose"(%1) {permutation = array<i64: 2, 0, 1>} : (tensor<2x2x6xf32>) -> tensor<6x2x2xf32> loc(#loc2)
%3 = "stablehlo.slice"(%2) {start_indices = array<i64: 1, 0, 0>, limit_indices = array<i64: 6, 2, 2>, strides = array<i64: 2, 1, 1>} : (tensor<6x2x2xf32>) -> tensor<3x2x2xf32> loc(#loc3)
%4 = "stablehlo.slice"(%3) {start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 3, 2, 2>, strides = array<i64: 1, 1, 1>} : (tensor<3x2x2xf32>) -> tensor<3x1x2xf32> loc(#loc4)
%5 = "stablehlo.reshape"(%4) : (tensor<3x1x2xf32>) -> tensor<3x2xf32> loc(#loc4)
"func.return"(%5, %0) : (tensor<3x2xf32>, tensor<4x6xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("view")
#loc2 = loc("permute")
#loc3 = loc("slice.Tensor")
#loc4 = loc("select.int")
#loc5 = loc("slice_scatter")
