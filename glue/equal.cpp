/* torch.equal: the one ATen op that answers with a bool of the host. */
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <torch/library.h>

#include "glue.h"

namespace {

bool equal(const at::Tensor &self, const at::Tensor &other) {
    TORCH_CHECK(self.device() == other.device(),
                "Cannot compare two tensors on different devices. Got: ", self.device(), " and ", other.device());
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
                " but got data type ", other.scalar_type(), " for argument 'other' in call to equal");
    if (self.sizes() != other.sizes()) return false;
    return self.numel() == 0 || at::all(at::eq(self, other)).item<bool>();
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { library.impl("equal", TORCH_FN(equal)); }
