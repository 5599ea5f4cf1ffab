"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}, {}], function_type = (tensor<4x3xf32>, tensor<5x3xf32>, tensor<5xi64>) -> (tensor<4x3xf32>, tensor<1xi64>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x3xf32>, %1: tensor<5x3xf32>, %2: tensor<5xi64>):
%3 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%5 = "stablehlo.constant"() {value = dense<-4> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%6 = "stablehlo.broadcast_in_dim"(%5) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%7 = "stablehlo.subtract"(%2, %6) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%8 = "stablehlo.bitcast_convert"(%7) : (tensor<5xi64>) -> tensor<5xui64> loc(#loc1)
%9 = "stablehlo.constant"() {value = dense<0> : tensor<ui64>} : () -> tensor<ui64> loc(#loc1)
%10 = "stablehlo.reduce"(%8, %9) ({
^bb0(%11: tensor<ui64>, %12: tensor<ui64>):
%13 = "stablehlo.maximum"(%11, %12) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64> loc(#loc1)
"stablehlo.return"(%13) : (tensor<ui64>) -> () loc(#loc1)
}) {dimensions = array<i64: 0>} : (tensor<5xui64>, tensor<ui64>) -> tensor<ui64> loc(#loc1)
%14 = "stablehlo.bitcast_convert"(%10) : (tensor<ui64>) -> tensor<i64> loc(#loc1)
%15 = "stablehlo.add"(%14, %5) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc(#loc1)
%16 = "stablehlo.reshape"(%15) : (tensor<i64>) -> tensor<1xi64> loc(#loc1)
%17 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%18 = "stablehlo.add"(%2, %17) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%19 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%20 = "stablehlo.compare"(%2, %19) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1> loc(#loc1)
%21 = "stablehlo.select"(%20, %18, %2) : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%22 = "stablehlo.convert"(%21) : (tensor<5xi64>) -> tensor<5xi32> loc(#loc1)
%23 = "stablehlo.reshape"(%22) : (tensor<5xi32>) -> tensor<5x1xi32> loc(#loc1)
%24 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%25 = "stablehlo.broadcast_in_dim"(%24) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<5x3xf32> loc(#loc1)
%26 = "stablehlo.scatter"(%0, %23, %1) ({
^bb0(%27: tensor<f32>, %28: tensor<f32>):
%29 = "stablehlo.add"(%27, %28) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%29) : (tensor<f32>) -> () loc(#loc1)
}) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<4x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<4x3xf32> loc(#loc1)
"func.return"(%26, %16) : (tensor<4x3xf32>, tensor<1xi64>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("index_put")
