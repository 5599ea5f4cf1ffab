"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}, {}], function_type = (tensor<4x3xf32>, tensor<5x3xf32>, tensor<5xi64>) -> (tensor<4x3xf32>, tensor<i64>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x3xf32>, %1: tensor<5x3xf32>, %2: tensor<5xi64>):
%3 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%4 = "stablehlo.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%5 = "stablehlo.constant"() {value = dense<-4> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%6 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%7 = "stablehlo.compare"(%2, %6) {comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1> loc(#loc1)
%8 = "stablehlo.broadcast_in_dim"(%5) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%9 = "stablehlo.compare"(%2, %8) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1> loc(#loc1)
%10 = "stablehlo.or"(%9, %7) : (tensor<5xi1>, tensor<5xi1>) -> tensor<5xi1> loc(#loc1)
%11 = "stablehlo.constant"() {value = dense<-9223372036854775808> : tensor<i64>} : () -> tensor<i64> loc(#loc1)
%12 = "stablehlo.broadcast_in_dim"(%11) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%13 = "stablehlo.select"(%10, %2, %12) : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%14 = "stablehlo.reduce"(%13, %11) ({
^bb0(%15: tensor<i64>, %16: tensor<i64>):
%17 = "stablehlo.maximum"(%15, %16) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc(#loc1)
"stablehlo.return"(%17) : (tensor<i64>) -> () loc(#loc1)
}) {dimensions = array<i64: 0>} : (tensor<5xi64>, tensor<i64>) -> tensor<i64> loc(#loc1)
%18 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%19 = "stablehlo.add"(%2, %18) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%20 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<5xi64> loc(#loc1)
%21 = "stablehlo.compare"(%2, %20) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1> loc(#loc1)
%22 = "stablehlo.select"(%21, %19, %2) : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64> loc(#loc1)
%23 = "stablehlo.convert"(%22) : (tensor<5xi64>) -> tensor<5xi32> loc(#loc1)
%24 = "stablehlo.reshape"(%23) : (tensor<5xi32>) -> tensor<5x1xi32> loc(#loc1)
%25 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%26 = "stablehlo.broadcast_in_dim"(%25) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<5x3xf32> loc(#loc1)
%27 = "stablehlo.scatter"(%0, %24, %1) ({
^bb0(%28: tensor<f32>, %29: tensor<f32>):
%30 = "stablehlo.add"(%28, %29) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%30) : (tensor<f32>) -> () loc(#loc1)
}) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<4x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<4x3xf32> loc(#loc1)
"func.return"(%27, %14) : (tensor<4x3xf32>, tensor<i64>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("index_put")
