/* Which attention torch.nn.functional.scaled_dot_product_attention runs: the fused row where its sizes fit, else PyTorch's
 * composition of single ops. PyTorch asks through a stub of its own and, for captured graphs, through the dispatcher. */
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

namespace {

/* The row wants [batch, heads, length, width], one dtype, and key heads that divide the query's. */
bool fits(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value, bool enable_gqa) {
    for (const at::Tensor *tensor : {&query, &key, &value})
        if (tensor->is_nested() || tensor->dim() != 4 || !tensor->is_floating_point() ||
            tensor->scalar_type() != query.scalar_type() || tensor->size(0) != query.size(0))
            return false;
    const int64_t heads = query.size(1), kv_heads = key.size(1);
    const bool heads_fit = heads == kv_heads || (enable_gqa && kv_heads > 0 && heads % kv_heads == 0);
    return heads_fit && value.size(1) == kv_heads && value.size(2) == key.size(2) && key.size(3) == query.size(3) &&
           query.numel() > 0 && value.numel() > 0;
}

/* The fused op has no batching rule and no derivative along a direction. What torch.func.grad wraps may be a batch inside,
 * which PyTorch's public headers do not let one see. */
bool is_transformed(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value) {
    constexpr c10::DispatchKeySet functions{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper};
    for (const at::Tensor *tensor : {&query, &key, &value})
        if (tensor->key_set().has_any(functions) || tensor->_fw_grad(0).defined()) return true;
    return false;
}

int64_t fused_sdp_choice(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                         const std::optional<at::Tensor> &, double, bool, std::optional<double>, bool enable_gqa) {
    const bool fused = at::globalContext().userEnabledOverrideableSDP() && fits(query, key, value, enable_gqa) &&
                       !is_transformed(query, key, value);
    return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { library.impl("_fused_sdp_choice", TORCH_FN(fused_sdp_choice)); }

} // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &fused_sdp_choice)
}
