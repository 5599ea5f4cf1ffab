/* Which attention torch.nn.functional.scaled_dot_product_attention runs: the fused row where its sizes fit, else PyTorch's
 * composition of single ops. PyTorch asks through a stub of its own and, for captured graphs, through the dispatcher. */
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

namespace {

/* Whether two sizes, which may be symbols of a captured graph, are known to be equal. */
bool equal(const c10::SymInt &a, const c10::SymInt &b) { return TORCH_GUARD_OR_FALSE(a.sym_eq(b)); }
bool is_empty(const at::Tensor &tensor) { return !TORCH_GUARD_OR_FALSE(tensor.sym_numel().sym_gt(0)); }

/* Whether each key head serves as many query heads. */
bool heads_fit(const c10::SymInt &heads, const c10::SymInt &kv_heads, bool enable_gqa) {
    if (equal(heads, kv_heads)) return true;
    if (!enable_gqa || heads.is_symbolic() || kv_heads.is_symbolic()) return false;
    return kv_heads.expect_int() > 0 && heads.expect_int() % kv_heads.expect_int() == 0;
}

/* The row wants [batch, heads, length, width], one dtype, and key heads that divide the query's. */
bool fits(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value, bool enable_gqa) {
    for (const at::Tensor *tensor : {&query, &key, &value})
        if (tensor->is_nested() || tensor->dim() != 4 || !tensor->is_floating_point() ||
            tensor->scalar_type() != query.scalar_type() || !equal(tensor->sym_size(0), query.sym_size(0)))
            return false;
    return heads_fit(query.sym_size(1), key.sym_size(1), enable_gqa) && equal(value.sym_size(1), key.sym_size(1)) &&
           equal(value.sym_size(2), key.sym_size(2)) && equal(key.sym_size(3), query.sym_size(3)) && !is_empty(query) &&
           !is_empty(value);
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

/* Whether calls are recorded and not run: captured graphs ask the stub too. */
bool is_recorded(const at::Tensor &query) {
    constexpr c10::DispatchKeySet recording{c10::DispatchKey::Python, c10::DispatchKey::Functionalize};
    return query.key_set().has_any(recording) || c10::impl::TorchDispatchModeTLS::any_modes_set();
}

/* The stub's answer: where nothing is to be differentiated, dropped or masked, eager mode runs PyTorch's name for attention
 * that need not keep the logarithm of the softmax's denominator. In graphs that result is left out when it is unused. */
int64_t eager_sdp_choice(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                         const std::optional<at::Tensor> &mask, double dropout, bool causal,
                         std::optional<double> scale, bool enable_gqa) {
    const int64_t choice = fused_sdp_choice(query, key, value, mask, dropout, causal, scale, enable_gqa);
    const bool differentiated =
        at::GradMode::is_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad());
    if (choice != static_cast<int64_t>(at::SDPBackend::overrideable) || differentiated || mask || dropout > 0 ||
        is_recorded(query))
        return choice;
    return static_cast<int64_t>(at::SDPBackend::efficient_attention);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { library.impl("_fused_sdp_choice", TORCH_FN(fused_sdp_choice)); }

} // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &eager_sdp_choice)
}
