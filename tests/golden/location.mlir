"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<2xf32>) -> (tensor<2xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<2xf32>):
%1 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2xf32> loc(#loc1)
%3 = "stablehlo.maximum"(%0, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc(#loc1)
"func.return"(%3) : (tensor<2xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("relu"("train \"a\".py":17:0))
