/* Jagged nested tensors are PyTorch's own, in Python, over dense ops. Left to say are the size of a result that a call leaves
 * open, and the steps of attention. */
#include <torch/library.h>

#include "dispatch.h"

namespace {

at::Tensor padded_to_jagged(const at::Tensor &dense, at::TensorList offsets, std::optional<c10::SymInt> total) {
    static const tpj_glue_op op(
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::_padded_dense_to_jagged_forward", ""),
        tpj_op_find("_padded_dense_to_jagged_forward", sizeof "_padded_dense_to_jagged_forward" - 1),
        tpj_glue_form::functional);
    int64_t size = 0;
    if (total) {
        size = total->expect_int();
    } else {
        TORCH_CHECK(offsets.size() == 1 && offsets[0].dim() == 1 && offsets[0].size(0) > 0,
                    "_padded_dense_to_jagged_forward: expected one tensor of offsets, of one dimension");
        size = offsets[0].select(0, -1).item<int64_t>(); /* one read */
    }
    torch::jit::Stack stack;
    torch::jit::push(stack, dense, offsets, size);
    tpj_glue_run(op, stack);
    return stack[0].toTensor();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_padded_dense_to_jagged_forward", TORCH_FN(padded_to_jagged));
}

/* Attention over jagged tensors ends in strided nested ones, of which the device has these ops alone (keys.cpp refuses the
 * others): PyTorch's kernels for the CPU, which loop over the parts with dense ops. Their sizes lie on the host. */
void loop_over_parts(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::NestedTensorCPU), stack);
}

void view_of_buffer(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_nested_view_from_buffer", torch::CppFunction::makeFromBoxedFunction<&view_of_buffer>());
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, library) {
    for (const char *name : {"_nested_tensor_size",
                             "_nested_tensor_storage_offsets",
                             "_nested_tensor_strides",
                             "_safe_softmax",
                             "_softmax",
                             "_softmax_backward_data",
                             "add.Tensor",
                             "alias",
                             "chunk",
                             "clone",
                             "copy_",
                             "detach",
                             "empty_like",
                             "is_same_size",
                             "matmul",
                             "matmul.out",
                             "matmul_backward",
                             "mul.Scalar",
                             "mul.Tensor",
                             "mul_.Scalar",
                             "native_dropout",
                             "native_dropout_backward",
                             "select.int",
                             "_nested_select_backward",
                             "to_padded_tensor",
                             "all.dim",
                             "isneginf",
                             "where.self",
                             "where.self_out",
                             "isinf",
                             "isnan",
                             "isposinf",
                             "neg",
                             "sub.Tensor",
                             "div.Tensor",
                             "div.Scalar",
                             "mul_.Tensor",
                             "add_.Tensor",
                             "bmm",
                             "_to_copy",
                             "ones_like",
                             "masked_fill.Scalar",
                             "eq.Scalar",
                             "logical_not",
                             "fill_.Scalar",
                             "_nested_from_padded_and_nested_example",
                             "transpose.int",
                             "unbind.int",
                             "values",
                             "view",
                             "zero_"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&loop_over_parts>());
}

} // namespace
