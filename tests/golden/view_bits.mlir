"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<2x3xi32>, tensor<4xcomplex<f32>>) -> (tensor<2x3xf32>, tensor<2xcomplex<f32>>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<2x3xi32>, %5: tensor<4xcomplex<f32>>):
%1 = "stablehlo.reshape"(%0) : (tensor<2x3xi32>) -> tensor<6xi32> loc(#loc1)
%2 = "stablehlo.bitcast_convert"(%1) : (tensor<6xi32>) -> tensor<6xf32> loc(#loc1)
%3 = "stablehlo.reshape"(%2) : (tensor<6xf32>) -> tensor<2x3xf32> loc(#loc1)
%4 = "stablehlo.abs"(%3) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc1)
%6 = "stablehlo.slice"(%5) {start_indices = array<i64: 1>, limit_indices = array<i64: 4>, strides = array<i64: 1>} : (tensor<4xcomplex<f32>>) -> tensor<3xcomplex<f32>> loc(#loc2)
%7 = "stablehlo.slice"(%6) {start_indices = array<i64: 0>, limit_indices = array<i64: 3>, strides = array<i64: 2>} : (tensor<3xcomplex<f32>>) -> tensor<2xcomplex<f32>> loc(#loc2)
%8 = "stablehlo.imag"(%7) : (tensor<2xcomplex<f32>>) -> tensor<2xf32> loc(#loc2)
%9 = "stablehlo.negate"(%8) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)
%10 = "stablehlo.real"(%7) : (tensor<2xcomplex<f32>>) -> tensor<2xf32> loc(#loc2)
%11 = "stablehlo.complex"(%10, %9) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>> loc(#loc2)
%12 = "stablehlo.multiply"(%11, %11) : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> loc(#loc2)
"func.return"(%4, %12) : (tensor<2x3xf32>, tensor<2xcomplex<f32>>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("abs")
#loc2 = loc("mul.Tensor")
