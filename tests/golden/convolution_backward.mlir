"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<2x6x4xf32>, tensor<2x4x8xf32>, tensor<6x4x3xf32>) -> (tensor<2x4x8xf32>, tensor<6xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<2x6x4xf32>, %1: tensor<2x4x8xf32>, %2: tensor<6x4x3xf32>):
%3 = "stablehlo.reverse"(%2) {dimensions = array<i64: 2>} : (tensor<6x4x3xf32>) -> tensor<6x4x3xf32> loc(#loc1)
%4 = "stablehlo.reshape"(%3) : (tensor<6x4x3xf32>) -> tensor<1x6x4x3xf32> loc(#loc1)
%5 = "stablehlo.transpose"(%4) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x3xf32>) -> tensor<1x4x6x3xf32> loc(#loc1)
%6 = "stablehlo.reshape"(%5) : (tensor<1x4x6x3xf32>) -> tensor<4x6x3xf32> loc(#loc1)
%7 = "stablehlo.convolution"(%0, %6) {dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64, window_strides = array<i64: 1>, lhs_dilation = array<i64: 2>, rhs_dilation = array<i64: 1>, padding = dense<[[1, 2]]> : tensor<1x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x6x4xf32>, tensor<4x6x3xf32>) -> tensor<2x4x8xf32> loc(#loc1)
%8 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%9 = "stablehlo.reduce"(%0, %8) ({
^bb0(%10: tensor<f32>, %11: tensor<f32>):
%12 = "stablehlo.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%12) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 0, 2>} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<6xf32> loc(#loc1)
"func.return"(%7, %9) : (tensor<2x4x8xf32>, tensor<6xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("convolution_backward")
