"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4xbf16>, tensor<f32>, tensor<f32>) -> (tensor<4xbf16>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4xbf16>, %2: tensor<f32>, %4: tensor<f32>):
%1 = "stablehlo.convert"(%0) : (tensor<4xbf16>) -> tensor<4xf32> loc(#loc1)
%3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%6 = "stablehlo.multiply"(%3, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%7 = "stablehlo.add"(%1, %6) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%8 = "stablehlo.convert"(%7) : (tensor<4xf32>) -> tensor<4xbf16> loc(#loc1)
%9 = "stablehlo.convert"(%8) : (tensor<4xbf16>) -> tensor<4xf32> loc(#loc2)
%10 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc2)
%11 = "stablehlo.maximum"(%9, %10) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
%12 = "stablehlo.convert"(%11) : (tensor<4xf32>) -> tensor<4xbf16> loc(#loc2)
"func.return"(%12) : (tensor<4xbf16>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("add.Tensor")
#loc2 = loc("clamp")
