"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}, {}], function_type = (tensor<4x3xf32>, tensor<5x3xf32>, tensor<5xi64>) -> (tensor<4x3xf32>, tensor<i64>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x3xf32>, %1: tensor<5x3xf32>, %2: tensor<5xi64>):
%3 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%6 = "stablehlo.add"(%2, %5) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%7 = "stablehlo.bitcast_convert"(%6) : (tensor<5xi64>) -> tensor<5xui64> loc(#loc1)
%8 = "stablehlo.constant"() {value = dense<0> : tensor<ui64>} : () -> tensor<ui64> loc(#loc1)
%9 = "stablehlo.reduce"(%7, %8) ({
^bb0(%10: tensor<ui64>, %11: tensor<ui64>):
%12 = "stablehlo.maximum"(%10, %11) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64> loc(#loc1)
"stablehlo.return"(%12) : (tensor<ui64>) -> () loc(#loc1)
}) {dimensions = array<i64: 0>} : (tensor<5xui64>, tensor<ui64>) -> tensor<ui64> loc(#loc1)
%13 = "stablehlo.bitcast_convert"(%9) : (tensor<ui64>) -> tensor<i64> loc(#loc1)
%14 = "stablehlo.constant"() {value = dense<8> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%15 = "stablehlo.subtract"(%13, %14) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc(#loc1)
%16 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%17 = "stablehlo.add"(%2, %16) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%18 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%19 = "stablehlo.compare"(%2, %18) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1> loc(#loc1)
%20 = "stablehlo.select"(%19, %17, %2) : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%21 = "stablehlo.convert"(%20) : (tensor<5xi64>) -> tensor<5xi32> loc(#loc1)
%22 = "stablehlo.reshape"(%21) : (tensor<5xi32>) -> tensor<5x1xi32> loc(#loc1)
%23 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%24 = "stablehlo.broadcast_in_dim"(%23) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<5x3xf32> loc(#loc1)
%25 = "stablehlo.scatter"(%0, %22, %1) ({
^bb0(%26: tensor<f32>, %27: tensor<f32>):
%28 = "stablehlo.add"(%26, %27) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%28) : (tensor<f32>) -> () loc(#loc1)
}) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<4x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<4x3xf32> loc(#loc1)
"func.return"(%25, %15) : (tensor<4x3xf32>, tensor<i64>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("index_put")
