"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<2x8x8x4xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> (tensor<2x4x4x6xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<2x8x8x4xf32>, %2: tensor<6x2x3x3xf32>, %4: tensor<6xf32>):
%1 = "stablehlo.transpose"(%0) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x8x8x4xf32>) -> tensor<2x4x8x8xf32> loc(#loc1)
%3 = "stablehlo.convolution"(%1, %2) {dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, batch_group_count = 1 : i64, feature_group_count = 2 : i64, window_strides = array<i64: 2, 2>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, padding = dense<[[1, 0], [1, 0]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x4x4xf32> loc(#loc1)
%5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64: 1>} : (tensor<6xf32>) -> tensor<2x6x4x4xf32> loc(#loc1)
%6 = "stablehlo.add"(%3, %5) : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x4xf32> loc(#loc1)
%7 = "stablehlo.transpose"(%6) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x6x4x4xf32>) -> tensor<2x4x4x6xf32> loc(#loc1)
"func.return"(%7) : (tensor<2x4x4x6xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("convolution")
