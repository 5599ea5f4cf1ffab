"builtin.module"() <{sym_name = "main"}> ({
"func.func"() <{function_type = (tensor<4x8xf32>, tensor<8x2xf32>) -> (tensor<4x2xf32>), sym_name = "main", sym_visibility = "public"}> ({
^bb0(%0: tensor<4x8xf32>, %1: tensor<8x2xf32>):
%2 = "stablehlo.dot_general"(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc(#loc1)
"func.return"(%2) : (tensor<4x2xf32>) -> ()
}) : () -> ()
}) : () -> ()
#loc1 = loc("mm")
