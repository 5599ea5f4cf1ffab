"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xf32>) -> (tensor<4x5xcomplex<f32>>, tensor<4x8xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>):
%1 = "stablehlo.fft"(%0) {fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>} : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>> loc(#loc1)
%2 = "stablehlo.constant"() {value = dense<(0.0e+00, 0.0e+00)> : tensor<complex<f32>>} : () -> tensor<complex<f32>> loc(#loc2)
%3 = "stablehlo.fft"(%1) {fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 8>} : (tensor<4x5xcomplex<f32>>) -> tensor<4x8xf32> loc(#loc2)
"func.return"(%1, %3) : (tensor<4x5xcomplex<f32>>, tensor<4x8xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("_fft_r2c")
#loc2 = loc("_fft_c2r")
