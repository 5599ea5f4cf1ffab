/* Tensors from nothing: empty storages with their base shape declared, so that a first partial write needs no guess. */
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "glue.h"
#include "memory_order.h"

namespace {

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
    TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == at::kStrided,
                                "the tpu device has strided tensors only, not ", c10::layout_or_default(layout));
    TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
}

/* The storage's array takes the tensor's dimensions in the order of memory. */
void declare_base(const at::Tensor &tensor) {
    c10::SmallVector<int64_t, 8> dims;
    for (const int64_t dim : tpj_glue_memory_order(tensor)) dims.push_back(tensor.size(dim));
    tpj_storage_set_base(storage_of(tensor), dtype_of(tensor), static_cast<int>(dims.size()), dims.data());
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
    check_options(layout, pin_memory);
    const c10::DeviceGuard guard(tpj_glue_device(tpj_glue_device_index(c10::device_or_default(device).index())));
    dtype_of(c10::dtype_or_default(type)); /* TypeError for what the device does not have */
    at::Tensor tensor =
        at::detail::empty_generic(sizes, tpj_glue_allocator(), tpj_glue_keys, c10::dtype_or_default(type), format);
    declare_base(tensor);
    return tensor;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
    check_options(layout, pin_memory);
    const c10::DeviceGuard guard(tpj_glue_device(tpj_glue_device_index(c10::device_or_default(device).index())));
    dtype_of(c10::dtype_or_default(type));
    at::Tensor tensor = at::detail::empty_strided_generic(sizes, strides, tpj_glue_allocator(), tpj_glue_keys,
                                                          c10::dtype_or_default(type));
    declare_base(tensor);
    return tensor;
}

/* A tensor of zeros without memory: autograd's stand-in for absent tangents. */
at::Tensor efficient_zeros(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin_memory) {
    check_options(layout, pin_memory);
    at::native::ZeroTensorAllocator allocator(
        tpj_glue_device(tpj_glue_device_index(c10::device_or_default(device).index())));
    const auto keys = tpj_glue_keys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
    return at::detail::empty_generic(sizes, &allocator, keys, c10::dtype_or_default(type), std::nullopt);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("empty.memory_format", TORCH_FN(empty));
    library.impl("empty_strided", TORCH_FN(empty_strided));
    library.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
}
