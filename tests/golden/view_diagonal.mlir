"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x4xf32>) -> (tensor<f32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x4xf32>):
%1 = "stablehlo.reshape"(%0) : (tensor<4x4xf32>) -> tensor<16xf32> loc(#loc1)
%2 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32> loc(#loc1)
%3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4xi32> loc(#loc1)
%4 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<4xi32> loc(#loc1)
%5 = "stablehlo.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32> loc(#loc1)
%6 = "stablehlo.broadcast_in_dim"(%5) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4xi32> loc(#loc1)
%7 = "stablehlo.multiply"(%4, %6) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc(#loc1)
%8 = "stablehlo.add"(%3, %7) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc(#loc1)
%9 = "stablehlo.gather"(%1, %8) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>} : (tensor<16xf32>, tensor<4xi32>) -> tensor<4xf32> loc(#loc1)
%10 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%11 = "stablehlo.reduce"(%9, %10) ({
^bb0(%12: tensor<f32>, %13: tensor<f32>):
%14 = "stablehlo.add"(%12, %13) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%14) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"func.return"(%11) : (tensor<f32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("sum")
