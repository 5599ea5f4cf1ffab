"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<4x8xbf16>, tensor<8x4xf32>) -> (tensor<4x8xbf16>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xbf16>, %3: tensor<8x4xf32>):
%1 = "stablehlo.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<4x8xbf16>) -> tensor<8x4xbf16> loc(#loc1)
%2 = "stablehlo.convert"(%1) : (tensor<8x4xbf16>) -> tensor<8x4xf32> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x4xf32> loc(#loc1)
%6 = "stablehlo.multiply"(%3, %5) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc(#loc1)
%7 = "stablehlo.add"(%2, %6) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc(#loc1)
%8 = "stablehlo.convert"(%7) : (tensor<8x4xf32>) -> tensor<8x4xbf16> loc(#loc1)
%9 = "stablehlo.transpose"(%8) {permutation = array<i64: 1, 0>} : (tensor<8x4xbf16>) -> tensor<4x8xbf16> loc(#loc1)
"func.return"(%9) : (tensor<4x8xbf16>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("add.Tensor")
