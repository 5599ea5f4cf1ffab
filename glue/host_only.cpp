/* Ops that PyTorch composes of reads from the operand's memory, as if that were the host's: they get the operand there. */
#include <ATen/ops/choose_qparams_optimized.h>

#include "glue.h"

namespace {

std::tuple<at::Tensor, at::Tensor> choose_qparams_optimized(const at::Tensor &input, int64_t numel, int64_t n_bins,
                                                            double ratio, int64_t bit_width) {
    auto [high, low] = at::choose_qparams_optimized(input.cpu(), numel, n_bins, ratio, bit_width);
    return {high.to(input.device()), low.to(input.device())};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("choose_qparams_optimized", TORCH_FN(choose_qparams_optimized));
}

} // namespace
