"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>, tensor<4x3xi1>, tensor<f32>) -> (tensor<4x3xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x3xf32>, %1: tensor<2x3xi64>, %2: tensor<2x3xf32>, %13: tensor<4x3xi1>, %14: tensor<f32>):
%3 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%5 = "stablehlo.convert"(%1) : (tensor<2x3xi64>) -> tensor<2x3xi32> loc(#loc1)
%6 = "stablehlo.reshape"(%5) : (tensor<2x3xi32>) -> tensor<2x3x1xi32> loc(#loc1)
%7 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x3x1xi32> loc(#loc1)
%8 = "stablehlo.concatenate"(%6, %7) {dimension = 2 : i64} : (tensor<2x3x1xi32>, tensor<2x3x1xi32>) -> tensor<2x3x2xi32> loc(#loc1)
%9 = "stablehlo.scatter"(%0, %8, %2) ({
^bb0(%10: tensor<f32>, %11: tensor<f32>):
%12 = "stablehlo.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%12) : (tensor<f32>) -> () loc(#loc1)
}) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false} : (tensor<4x3xf32>, tensor<2x3x2xi32>, tensor<2x3xf32>) -> tensor<4x3xf32> loc(#loc1)
%15 = "stablehlo.broadcast_in_dim"(%14) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x3xf32> loc(#loc2)
%16 = "stablehlo.select"(%13, %15, %9) : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc(#loc2)
"func.return"(%16) : (tensor<4x3xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("scatter_add")
#loc2 = loc("masked_fill.Scalar")
