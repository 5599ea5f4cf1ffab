"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}], function_type = (tensor<4x4xf32>) -> (tensor<4x4xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%2: tensor<4x4xf32>):
%0 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%3 = "stablehlo.reshape"(%2) : (tensor<4x4xf32>) -> tensor<16xf32> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32> loc(#loc1)
%5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4xi32> loc(#loc1)
%6 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<4xi32> loc(#loc1)
%7 = "stablehlo.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32> loc(#loc1)
%8 = "stablehlo.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4xi32> loc(#loc1)
%9 = "stablehlo.multiply"(%6, %8) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc(#loc1)
%10 = "stablehlo.add"(%5, %9) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc(#loc1)
%11 = "stablehlo.reshape"(%10) : (tensor<4xi32>) -> tensor<4x1xi32> loc(#loc1)
%12 = "stablehlo.scatter"(%3, %11, %1) ({
^bb0(%13: tensor<f32>, %14: tensor<f32>):
"stablehlo.return"(%14) : (tensor<f32>) -> () loc(#loc1)
}) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<16xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<16xf32> loc(#loc1)
%15 = "stablehlo.reshape"(%12) : (tensor<16xf32>) -> tensor<4x4xf32> loc(#loc1)
"func.return"(%15) : (tensor<4x4xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("zero")
