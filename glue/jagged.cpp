/* Jagged nested tensors are PyTorch's own, in Python, over dense ops. Left to say is the size of a result that a call leaves
 * open. */
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

} // namespace
