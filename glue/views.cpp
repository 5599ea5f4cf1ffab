/* Views and storage changes: metadata only, PyTorch's own native functions. Everything else that is a view composes of
 * these. */
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <algorithm>

#include "glue.h"

namespace {

at::Tensor view(const at::Tensor &self, c10::SymIntArrayRef sizes) {
    return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor as_strided(const at::Tensor &self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
    return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                             offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor reshape_alias(const at::Tensor &self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
    return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

/* PyTorch's native functions grow a storage by copying host memory: it has to be large enough before they look. */
void reserve(const c10::Storage &storage, size_t n_bytes) {
    if (n_bytes > storage.nbytes())
        at::native::resize_bytes_nocuda(storage, c10::SymInt(static_cast<int64_t>(n_bytes)));
}
bool are_sizes(c10::IntArrayRef sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
}

const at::Tensor &resize_(const at::Tensor &self, c10::SymIntArrayRef sizes, std::optional<at::MemoryFormat> format) {
    if (const c10::IntArrayRef wanted = C10_AS_INTARRAYREF_SLOW(sizes); are_sizes(wanted))
        reserve(self.storage(), at::detail::computeStorageNbytesContiguous(wanted, self.itemsize(),
                                                                           static_cast<size_t>(self.storage_offset())));
    return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(sizes), format);
}

at::Tensor &set_to_tensor(at::Tensor &self, const at::Tensor &source) { return at::native::set_tensor_(self, source); }
at::Tensor &set_to_storage(at::Tensor &self, at::Storage source) { return at::native::set_(self, source); }
at::Tensor &set_to_part(at::Tensor &self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef sizes,
                        c10::SymIntArrayRef strides) {
    const c10::IntArrayRef wanted = C10_AS_INTARRAYREF_SLOW(sizes), steps = C10_AS_INTARRAYREF_SLOW(strides);
    const int64_t start = offset.expect_int();
    if (are_sizes(wanted) && are_sizes(steps) && wanted.size() == steps.size() && start >= 0)
        reserve(source, at::detail::computeStorageNbytes(wanted, steps, self.itemsize(), static_cast<size_t>(start)));
    return at::native::set_storage_cpu_(self, source, start, wanted, steps);
}
at::Tensor &set_to_nothing(at::Tensor &self) {
    const at::Tensor nothing = at::empty({0}, self.options());
    return at::native::set_tensor_(self, nothing);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("view", TORCH_FN(view));
    library.impl("as_strided", TORCH_FN(as_strided));
    library.impl("_reshape_alias", TORCH_FN(reshape_alias));
    library.impl("unfold", TORCH_FN(at::native::unfold));
    library.impl("alias", TORCH_FN(at::native::alias));
    library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
    library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
    library.impl("resize_", TORCH_FN(resize_));
    library.impl("is_set_to", TORCH_FN(at::native::is_set_to));
    library.impl("set_.source_Tensor", TORCH_FN(set_to_tensor));
    library.impl("set_.source_Storage", TORCH_FN(set_to_storage));
    library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_to_part));
    library.impl("set_", TORCH_FN(set_to_nothing));
}
