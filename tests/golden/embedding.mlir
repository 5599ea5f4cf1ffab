"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<10x4xf32>, tensor<2x3xi64>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<10x4xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<10x4xf32>, %1: tensor<2x3xi64>, %6: tensor<2x3x4xf32>):
%2 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%3 = "stablehlo.constant"() {value = dense<10> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%4 = "stablehlo.convert"(%1) : (tensor<2x3xi64>) -> tensor<2x3xi32> loc(#loc1)
%5 = "stablehlo.gather"(%0, %4) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>} : (tensor<10x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32> loc(#loc1)
%7 = "stablehlo.reshape"(%6) : (tensor<2x3x4xf32>) -> tensor<6x4xf32> loc(#loc2)
%8 = "stablehlo.reshape"(%1) : (tensor<2x3xi64>) -> tensor<6xi64> loc(#loc2)
%9 = "stablehlo.convert"(%8) : (tensor<6xi64>) -> tensor<6xi32> loc(#loc2)
%10 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32> loc(#loc2)
%11 = "stablehlo.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32> loc(#loc2)
%12 = "stablehlo.broadcast_in_dim"(%10) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<6xi32> loc(#loc2)
%13 = "stablehlo.compare"(%9, %12) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1> loc(#loc2)
%14 = "stablehlo.broadcast_in_dim"(%11) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<6xi32> loc(#loc2)
%15 = "stablehlo.select"(%13, %14, %9) : (tensor<6xi1>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32> loc(#loc2)
%16 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc2)
%17 = "stablehlo.broadcast_in_dim"(%16) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<10x4xf32> loc(#loc2)
%18 = "stablehlo.scatter"(%17, %15, %7) ({
^bb0(%19: tensor<f32>, %20: tensor<f32>):
%21 = "stablehlo.add"(%19, %20) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc2)
"stablehlo.return"(%21) : (tensor<f32>) -> () loc(#loc2)
}) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<10x4xf32>, tensor<6xi32>, tensor<6x4xf32>) -> tensor<10x4xf32> loc(#loc2)
"func.return"(%5, %18) : (tensor<2x3x4xf32>, tensor<10x4xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("embedding")
#loc2 = loc("embedding_dense_backward")
