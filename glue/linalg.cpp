/* torch.cholesky, the deprecated form, which raises where torch.linalg.cholesky_ex reports: PyTorch has it as kernels of its
 * own devices only. */
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <torch/library.h>

#include "glue.h"

namespace {

at::Tensor checked_cholesky(const at::Tensor &self, bool upper) {
    auto [factor, info] = at::linalg_cholesky_ex(self, upper);
    at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
    return factor;
}

at::Tensor &cholesky_out(const at::Tensor &self, bool upper, at::Tensor &out) {
    TORCH_CHECK(out.device() == self.device(), "Expected all tensors to be on the same device, but got out on ",
                out.device(), " and the input on ", self.device());
    TORCH_CHECK(c10::canCast(self.scalar_type(), out.scalar_type()), "result type ", self.scalar_type(),
                " can't be cast to the desired output type ", out.scalar_type());
    const at::Tensor factor = checked_cholesky(self, upper);
    at::native::resize_output(out, factor.sizes());
    return out.copy_(factor);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("cholesky", TORCH_FN(checked_cholesky));
    library.impl("cholesky.out", TORCH_FN(cholesky_out));
}

} // namespace
