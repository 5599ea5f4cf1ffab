/* Automatic mixed precision: which ops run in the lower precision, which in float32, which in the widest dtype of their
 * inputs. The lists are PyTorch's own, taken from its header, so they follow the version that is compiled against. Each op
 * gets one boxed kernel that casts its arguments and calls the op again below autocast. */
#include <ATen/autocast_mode.h>

#include <memory>

#include "glue.h"

namespace {

using at::autocast::CastPolicy;
using torch::jit::Stack;

at::ScalarType lower_precision() { return at::autocast::get_autocast_dtype(tpj_glue_device_type); }

bool is_eligible(const at::Tensor &tensor) { return at::autocast::is_eligible(tensor, tpj_glue_device_type); }

at::Tensor cast(at::ScalarType type, const at::Tensor &tensor) {
    return tensor.defined() ? at::autocast::cached_cast(type, tensor, tpj_glue_device_type) : tensor;
}

/* Calls `visit(tensor)` for each tensor among the last `n` values and stores what it returns. */
template <typename Visit> void replace_tensors(Stack *stack, size_t n, const Visit &visit) {
    for (size_t i = stack->size() - n; i < stack->size(); i++) {
        c10::IValue &value = (*stack)[i];
        if (value.isTensor()) {
            value = visit(value.toTensor());
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> list;
            for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(visit(tensor));
            value = std::move(list);
        } else if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> list;
            for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorList())
                list.push_back(tensor.has_value() ? std::optional<at::Tensor>(visit(*tensor)) : std::nullopt);
            value = std::move(list);
        }
    }
}

/* The widest of the floating-point inputs on the device and the lower precision; float64 does not take part. */
at::ScalarType promoted_type(Stack *stack, size_t n) {
    at::ScalarType type = lower_precision();
    replace_tensors(stack, n, [&](const at::Tensor &tensor) {
        if (tensor.defined()) type = at::autocast::prioritize(type, tensor, tpj_glue_device_type);
        return tensor;
    });
    return type;
}

bool first_is_eligible(const Stack &stack, size_t n) {
    const c10::IValue &first = stack[stack.size() - n];
    return first.isTensor() && is_eligible(first.toTensor());
}

class AutocastKernel final : public c10::OperatorKernel {
public:
    explicit AutocastKernel(CastPolicy policy) : policy_(policy) {}

    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, Stack *stack) const {
        const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);
        const size_t n = op.schema().arguments().size();
        switch (policy_) {
            case CastPolicy::lower_precision_fp: cast_all(stack, n, lower_precision()); break;
            case CastPolicy::fp32: cast_all(stack, n, at::kFloat); break;
            case CastPolicy::promote: cast_all(stack, n, promoted_type(stack, n)); break;
            case CastPolicy::fp32_set_opt_dtype: set_dtype(op, stack, n); break;
            case CastPolicy::fp32_append_dtype: call_with_dtype(op, stack, n); return;
        }
        op.callBoxed(stack);
    }

private:
    static void cast_all(Stack *stack, size_t n, at::ScalarType type) {
        replace_tensors(stack, n, [type](const at::Tensor &tensor) { return cast(type, tensor); });
    }

    /* Fills an absent argument `dtype` with float32. */
    static void set_dtype(const c10::OperatorHandle &op, Stack *stack, size_t n) {
        const std::optional<int> position = op.schema().argumentIndexWithName("dtype");
        if (!first_is_eligible(*stack, n) || !position.has_value()) return;
        c10::IValue &dtype = (*stack)[stack->size() - n + static_cast<size_t>(*position)];
        if (dtype.isNone()) dtype = at::kFloat;
    }

    /* Calls the overload that takes a dtype as well: "norm.Scalar" and "norm.ScalarOpt_dim" are the only such ops. */
    static void call_with_dtype(const c10::OperatorHandle &op, Stack *stack, size_t n) {
        const at::ScalarType type =
            first_is_eligible(*stack, n) ? at::kFloat : (*stack)[stack->size() - n].toTensor().scalar_type();
        stack->emplace_back(type);
        const char *overload = op.operator_name().overload_name == "Scalar" ? "ScalarOpt_dtype" : "ScalarOpt_dim_dtype";
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::norm", overload).callBoxed(stack);
    }

    CastPolicy policy_;
};

class BannedKernel final : public c10::OperatorKernel {
public:
    void operator()(const c10::OperatorHandle &, c10::DispatchKeySet, Stack *) const {
        TORCH_CHECK(
            false,
            "binary_cross_entropy is not safe under autocast: the sigmoid before it may round to 0 or 1 in the lower "
            "precision. Use binary_cross_entropy_with_logits (BCEWithLogitsLoss), which is, or leave autocast for it.");
    }
};

torch::CppFunction kernel(CastPolicy policy) {
    return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutocastKernel>(policy));
}

#define TPJ_NAME_1(op) #op
#define TPJ_NAME_2(op, overload) #op "." #overload
#define TPJ_NAME_CHOOSE(first, second, name, ...) name
#define TPJ_NAME(...) TPJ_NAME_CHOOSE(__VA_ARGS__, TPJ_NAME_2, TPJ_NAME_1)(__VA_ARGS__)
#define TPJ_LOWER(...) library.impl(TPJ_NAME(__VA_ARGS__), kernel(CastPolicy::lower_precision_fp));
#define TPJ_FP32(...) library.impl(TPJ_NAME(__VA_ARGS__), kernel(CastPolicy::fp32));
#define TPJ_SET_DTYPE(...) library.impl(TPJ_NAME(__VA_ARGS__), kernel(CastPolicy::fp32_set_opt_dtype));
#define TPJ_PROMOTE(...) library.impl(TPJ_NAME(__VA_ARGS__), kernel(CastPolicy::promote));

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, library) {
    AT_FORALL_LOWER_PRECISION_FP(TPJ_LOWER)
    AT_FORALL_FP32(TPJ_FP32)
    AT_FORALL_FP32_SET_OPT_DTYPE(TPJ_SET_DTYPE)
    AT_FORALL_PROMOTE(TPJ_PROMOTE)
    library.impl("norm.Scalar", kernel(CastPolicy::fp32_append_dtype));
    library.impl("norm.ScalarOpt_dim", kernel(CastPolicy::fp32_append_dtype));
    library.impl("binary_cross_entropy", torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BannedKernel>()));
}

/* Every other op runs as it is. */
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

} // namespace
