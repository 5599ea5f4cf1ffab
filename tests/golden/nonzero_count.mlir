"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<3x4xf32>) -> (tensor<i64>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<3x4xf32>):
%1 = "stablehlo.reshape"(%0) : (tensor<3x4xf32>) -> tensor<12xf32> loc(#loc1)
%2 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<12xf32> loc(#loc1)
%4 = "stablehlo.compare"(%1, %3) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xi1> loc(#loc1)
%5 = "stablehlo.convert"(%4) : (tensor<12xi1>) -> tensor<12xi32> loc(#loc1)
%6 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32> loc(#loc1)
%7 = "stablehlo.reduce"(%5, %6) ({
^bb0(%8: tensor<i32>, %9: tensor<i32>):
%10 = "stablehlo.add"(%8, %9) : (tensor<i32>, tensor<i32>) -> tensor<i32> loc(#loc1)
"stablehlo.return"(%10) : (tensor<i32>) -> () loc(#loc1)
}) {dimensions = array<i64: 0>} : (tensor<12xi32>, tensor<i32>) -> tensor<i32> loc(#loc1)
%11 = "stablehlo.convert"(%7) : (tensor<i32>) -> tensor<i64> loc(#loc1)
"func.return"(%11) : (tensor<i64>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("nonzero")
