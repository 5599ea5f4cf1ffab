/* What is registered by hand beside the ops: dispatch keys that this device passes through or refuses, and the few
 * questions that PyTorch asks a device through ops. */
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <torch/library.h>

#include "generator.h"
#include "glue.h"

namespace {

using torch::CppFunction;

/* ---- lazy conjugate and negative bits, zero tensors ---- */
/* Copies read these marks themselves. Left to PyTorch's fallback for the keys, a copy would first materialise its source
 * with clone, which copies, without end. */
void pass_copies_through(torch::Library &library) {
    library.impl("_copy_from", CppFunction::makeFallthrough());
    library.impl("_copy_from_and_resize", CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Conjugate, library) { pass_copies_through(library); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { pass_copies_through(library); }
TORCH_LIBRARY_IMPL(aten, ZeroTensor, library) { pass_copies_through(library); }

/* ---- kinds of tensors that the device does not have ---- */
enum class Kind { quantized, nested };

template <Kind kind> void refuse(const c10::OperatorHandle &op, torch::jit::Stack *) {
    constexpr const char *what = kind == Kind::quantized
                                     ? "quantized tensors. Use dequantize(), or keep this one on the CPU"
                                     : "nested tensors of strided layout. Use layout=torch.jagged";
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), ": the tpu device has no ", what);
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, library) {
    library.fallback(CppFunction::makeFromBoxedFunction<&refuse<Kind::quantized>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, library) {
    library.fallback(CppFunction::makeFromBoxedFunction<&refuse<Kind::nested>>());
}

/* ---- questions to the device ---- */
bool is_dense(c10::DispatchKeySet keys) {
    return keys.has(c10::DispatchKey::Dense) &&
           keys.has_any(c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::PrivateUse1}));
}

/* Whether `self.data = from` may be done in place. Without a yes, Module.to makes new parameters: it unties tied weights,
 * and an optimizer that was made before goes on training the old ones. */
bool has_compatible_shallow_copy_type(const at::Tensor &self, const at::Tensor &from) {
    return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()) ||
           (is_dense(self.key_set()) && is_dense(from.key_set()) &&
            self.key_set().has(c10::DispatchKey::Python) == from.key_set().has(c10::DispatchKey::Python));
}

/* Work is in one order per device and holds its operands, see guard.cpp. */
void record_stream(at::Tensor &, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
    library.impl("record_stream", TORCH_FN(record_stream));
}

/* ---- the default generator, for torch.tpu: PyTorch's C++ makes the Python object, so the extension need not link it ---- */
at::Generator default_generator(int64_t index) {
    return tpj_glue_default_generator(static_cast<c10::DeviceIndex>(index));
}
TORCH_LIBRARY_FRAGMENT(torch_pjrt, library) {
    library.def("_default_generator(int device) -> Generator?", TORCH_FN(default_generator));
}

} // namespace
