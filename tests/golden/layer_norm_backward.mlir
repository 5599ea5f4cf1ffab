"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>, %1: tensor<4x8xf32>, %2: tensor<4x1xf32>, %5: tensor<4x1xf32>, %10: tensor<8xf32>):
%3 = "stablehlo.reshape"(%2) : (tensor<4x1xf32>) -> tensor<4xf32> loc(#loc1)
%4 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32> loc(#loc1)
%6 = "stablehlo.reshape"(%5) : (tensor<4x1xf32>) -> tensor<4xf32> loc(#loc1)
%7 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32> loc(#loc1)
%8 = "stablehlo.subtract"(%0, %7) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%9 = "stablehlo.multiply"(%8, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%11 = "stablehlo.broadcast_in_dim"(%10) {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32> loc(#loc1)
%12 = "stablehlo.multiply"(%1, %11) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%13 = "stablehlo.multiply"(%12, %9) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%14 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%15 = "stablehlo.reduce"(%13, %14) ({
^bb0(%16: tensor<f32>, %17: tensor<f32>):
%18 = "stablehlo.add"(%16, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%18) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 1>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
%19 = "stablehlo.constant"() {value = dense<8.0e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc1)
%20 = "stablehlo.broadcast_in_dim"(%19) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%21 = "stablehlo.divide"(%15, %20) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%22 = "stablehlo.broadcast_in_dim"(%21) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32> loc(#loc1)
%23 = "stablehlo.multiply"(%9, %22) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%24 = "stablehlo.subtract"(%12, %23) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%25 = "stablehlo.reduce"(%12, %14) ({
^bb0(%26: tensor<f32>, %27: tensor<f32>):
%28 = "stablehlo.add"(%26, %27) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%28) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 1>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
%29 = "stablehlo.broadcast_in_dim"(%19) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32> loc(#loc1)
%30 = "stablehlo.divide"(%25, %29) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc1)
%31 = "stablehlo.broadcast_in_dim"(%30) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32> loc(#loc1)
%32 = "stablehlo.subtract"(%24, %31) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%33 = "stablehlo.multiply"(%32, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%34 = "stablehlo.multiply"(%1, %9) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
%35 = "stablehlo.reduce"(%34, %14) ({
^bb0(%36: tensor<f32>, %37: tensor<f32>):
%38 = "stablehlo.add"(%36, %37) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc1)
"stablehlo.return"(%38) : (tensor<f32>) -> () loc(#loc1)
}) {dimensions = array<i64: 0>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32> loc(#loc1)
"func.return"(%33, %35) : (tensor<4x8xf32>, tensor<8xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("native_layer_norm_backward")
