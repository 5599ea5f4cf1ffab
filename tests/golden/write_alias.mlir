"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}], function_type = (tensor<8xf32>) -> (tensor<8xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<8xf32>):
%1 = "stablehlo.slice"(%0) {start_indices = array<i64: 1>, limit_indices = array<i64: 8>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<7xf32> loc(#loc1)
%2 = "stablehlo.slice"(%0) {start_indices = array<i64: 0>, limit_indices = array<i64: 7>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<7xf32> loc(#loc1)
%3 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%4 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<7xf32> loc(#loc1)
%5 = "stablehlo.multiply"(%2, %4) : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32> loc(#loc1)
%6 = "stablehlo.add"(%1, %5) : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32> loc(#loc1)
%7 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32> loc(#loc1)
%8 = "stablehlo.dynamic_update_slice"(%0, %6, %7) : (tensor<8xf32>, tensor<7xf32>, tensor<i32>) -> tensor<8xf32> loc(#loc1)
"func.return"(%8) : (tensor<8xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("add.Tensor")
