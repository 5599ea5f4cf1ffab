"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xbf16>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>, %1: tensor<4x8xf32>):
%2 = "stablehlo.multiply"(%0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%3 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%4 = "stablehlo.reduce"(%2, %3) ({
^bb0(%5: tensor<f32>, %6: tensor<f32>):
%7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%7) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 1>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
%8 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32> loc(#loc1)
%9 = "stablehlo.subtract"(%0, %8) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%10 = "stablehlo.multiply"(%1, %9) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%11 = "stablehlo.convert"(%10) : (tensor<4x8xf32>) -> tensor<4x8xbf16> loc(#loc1)
"func.return"(%11) : (tensor<4x8xbf16>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("_softmax_backward_data")
