/* Copies between host and device, between devices, and reads of single elements. */
#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "dispatch.h"
#include "memory_order.h"

namespace {

/* Ops that copies need in a form that PyTorch's dispatcher does not offer, run without it: conj and neg bits are read as part
 * of the view, where the dispatcher would resolve them by a copy first. */
tpj_glue_op make_op(const char *name, const char *row_name, tpj_glue_form form) {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    const tpj_op_def *row = tpj_op_find(row_name, std::char_traits<char>::length(row_name));
    TORCH_INTERNAL_ASSERT(row != nullptr, "no row ", row_name);
    return {handle, row, form};
}

/* A row-major copy on the device, bits applied. */
at::Tensor contiguous_copy(const at::Tensor &self) {
    static const tpj_glue_op clone = make_op("aten::clone", "clone", tpj_glue_form::functional);
    torch::jit::Stack stack;
    stack.emplace_back(self);
    stack.emplace_back(static_cast<int64_t>(at::MemoryFormat::Contiguous));
    tpj_glue_run(clone, stack);
    return stack[0].toTensor();
}

void copy_on_device(const at::Tensor &to, const at::Tensor &from) {
    static const tpj_glue_op copy = make_op("aten::copy_", "copy", tpj_glue_form::inplace);
    torch::jit::Stack stack;
    stack.emplace_back(to);
    stack.emplace_back(from);
    stack.emplace_back(false);
    tpj_glue_run(copy, stack);
}

bool has_bits(const at::Tensor &tensor) { return tensor.is_conj() || tensor.is_neg(); }

/* Whether the tensor is all of its storage, each element once. */
bool fills_storage(const at::Tensor &tensor) {
    return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() && !has_bits(tensor) &&
           tensor.storage().nbytes() == static_cast<size_t>(tensor.numel()) * tensor.element_size();
}

/* int4 and its like are a byte each, which the CPU has no kernel to copy: as bytes they copy. */
at::Tensor as_bytes(const at::Tensor &tensor) {
    return tpj_dtype_is_opaque(dtype_of(tensor)) && tensor.element_size() == 1 ? tensor.view(at::kByte) : tensor;
}

void from_host(const at::Tensor &to, const at::Tensor &from) {
    if (to.numel() == 0) return;
    if (!fills_storage(to)) {
        const at::Tensor staged = at::empty(to.sizes(), to.options().memory_format(at::MemoryFormat::Contiguous));
        from_host(staged, from);
        copy_on_device(to, staged);
        return;
    }
    const auto order = tpj_glue_memory_order(to);
    const at::Tensor source = from.scalar_type() == to.scalar_type() ? as_bytes(from) : from.to(to.scalar_type());
    const at::Tensor values = source.expand(to.sizes()).resolve_conj().resolve_neg().permute(order).contiguous();
    tpj_glue_check(tpj_storage_from_host(storage_of(to), dtype_of(to), static_cast<int>(values.dim()),
                                         values.sizes().data(), values.const_data_ptr()));
}

/* The values on the host, in the tensor's own dtype. */
at::Tensor to_host(const at::Tensor &from) {
    if (has_bits(from) || !from.is_non_overlapping_and_dense()) return to_host(contiguous_copy(from));
    const at::Tensor values = at::empty_strided(from.sizes(), from.strides(), from.options().device(at::kCPU));
    const size_t offset = static_cast<size_t>(from.storage_offset()) * from.element_size();
    tpj_glue_check(tpj_storage_to_host(storage_of(from), offset, values.mutable_data_ptr(), values.nbytes()));
    return values;
}

void across(const at::Tensor &to, const at::Tensor &from) {
    const at::Tensor dense = fills_storage(from) ? from : contiguous_copy(from);
    const at::Tensor arrived = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(to.device()));
    tpj_glue_check(tpj_storage_copy_across(storage_of(arrived), storage_of(dense)));
    copy_on_device(to, arrived);
}

/* Both name the same elements in the same way: `w[i] += 1` ends in such a copy. */
bool is_same_view(const at::Tensor &a, const at::Tensor &b) {
    return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() &&
           a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_conj() == b.is_conj() &&
           a.is_neg() == b.is_neg();
}

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &dst, bool) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    if (self._is_zerotensor()) {
        dst.zero_();
    } else if (dst.is_cpu()) {
        const at::Tensor values = to_host(self);
        const bool same = values.scalar_type() == dst.scalar_type();
        (same ? as_bytes(dst) : dst).copy_(same ? as_bytes(values) : values);
    } else if (self.is_cpu()) {
        at::assert_no_internal_overlap(dst);
        from_host(dst, self);
    } else {
        TORCH_CHECK(self.is_privateuseone() && dst.is_privateuseone(), "copy from ", self.device(), " to ",
                    dst.device(), " is not supported");
        if (is_same_view(self, dst)) return dst;
        if (self.device() == dst.device())
            copy_on_device(dst, self);
        else
            across(dst, self);
    }
    return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor &self, const at::Tensor &dst) {
    at::native::resize_output(dst, self.sizes());
    return copy_from(self, dst, false);
}

at::Scalar local_scalar(const at::Tensor &self) {
    TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
    if (has_bits(self)) return local_scalar(contiguous_copy(self));
    alignas(16) unsigned char bytes[16];
    const size_t n_bytes = self.element_size();
    tpj_glue_check(
        tpj_storage_to_host(storage_of(self), static_cast<size_t>(self.storage_offset()) * n_bytes, bytes, n_bytes));
    at::Scalar value;
    AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense",
                   AT_WRAP([&] { value = at::Scalar(*reinterpret_cast<const scalar_t *>(bytes)); }),
                   AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kBool, at::kHalf,
                   at::kBFloat16, AT_EXPAND(AT_FLOAT8_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
    return value;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_copy_from", TORCH_FN(copy_from));
    library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
    library.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}
