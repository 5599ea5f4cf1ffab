"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x10xf32>, %17: tensor<4xi64>):
%1 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%2 = "stablehlo.reduce"(%0, %1) ({
^bb0(%3: tensor<f32>, %4: tensor<f32>):
%5 = "stablehlo.maximum"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%5) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 1>} : (tensor<4x10xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
%6 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x10xf32> loc(#loc1)
%7 = "stablehlo.subtract"(%0, %6) : (tensor<4x10xf32>, tensor<4x10xf32>) -> tensor<4x10xf32> loc(#loc1)
%8 = "stablehlo.exponential"(%7) : (tensor<4x10xf32>) -> tensor<4x10xf32> loc(#loc1)
%9 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%10 = "stablehlo.reduce"(%8, %9) ({
^bb0(%11: tensor<f32>, %12: tensor<f32>):
%13 = "stablehlo.add"(%11, %12) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%13) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 1>} : (tensor<4x10xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
%14 = "stablehlo.log"(%10) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%15 = "stablehlo.broadcast_in_dim"(%14) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x10xf32> loc(#loc1)
%16 = "stablehlo.subtract"(%7, %15) : (tensor<4x10xf32>, tensor<4x10xf32>) -> tensor<4x10xf32> loc(#loc1)
%18 = "stablehlo.constant"() {value = dense<-100> : tensor<i64>} : () -> tensor<i64> loc(#loc2)
%19 = "stablehlo.broadcast_in_dim"(%18) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<4xi64> loc(#loc2)
%20 = "stablehlo.compare"(%17, %19) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1> loc(#loc2)
%21 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64> loc(#loc2)
%22 = "stablehlo.broadcast_in_dim"(%21) {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<4xi64> loc(#loc2)
%23 = "stablehlo.select"(%20, %17, %22) : (tensor<4xi1>, tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64> loc(#loc2)
%24 = "stablehlo.constant"() {value = dense<10> : tensor<i64>} : () -> tensor<i64> loc(#loc2)
%25 = "stablehlo.convert"(%23) : (tensor<4xi64>) -> tensor<4xi32> loc(#loc2)
%26 = "stablehlo.convert"(%20) : (tensor<4xi1>) -> tensor<4xf32> loc(#loc2)
%27 = "stablehlo.reshape"(%25) : (tensor<4xi32>) -> tensor<4x1xi32> loc(#loc2)
%28 = "stablehlo.gather"(%16, %27) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>} : (tensor<4x10xf32>, tensor<4x1xi32>) -> tensor<4x1xf32> loc(#loc2)
%29 = "stablehlo.reshape"(%28) : (tensor<4x1xf32>) -> tensor<4xf32> loc(#loc2)
%30 = "stablehlo.multiply"(%29, %26) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
%31 = "stablehlo.negate"(%30) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
%32 = "stablehlo.broadcast_in_dim"(%9) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc2)
%33 = "stablehlo.select"(%20, %31, %32) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
%34 = "stablehlo.reduce"(%26, %9) ({
^bb0(%35: tensor<f32>, %36: tensor<f32>):
%37 = "stablehlo.add"(%35, %36) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc2)
"stablehlo.return"(%37) : (tensor<f32>) -> () loc(#loc2)
}) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc(#loc2)
%38 = "stablehlo.reduce"(%33, %9) ({
^bb0(%39: tensor<f32>, %40: tensor<f32>):
%41 = "stablehlo.add"(%39, %40) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc2)
"stablehlo.return"(%41) : (tensor<f32>) -> () loc(#loc2)
}) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc(#loc2)
%42 = "stablehlo.divide"(%38, %34) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc2)
"func.return"(%42, %34) : (tensor<f32>, tensor<f32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("_log_softmax")
#loc2 = loc("nll_loss_forward")
