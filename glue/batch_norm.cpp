/* native_batch_norm writes its running statistics though its schema does not say so: it is expressed in the overloads that
 * do say what they write. */
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_native_batch_norm_legit_no_training.h>
#include <torch/library.h>

namespace {

using Optional = std::optional<at::Tensor>;

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_batch_norm(const at::Tensor &input, const Optional &weight,
                                                                 const Optional &bias, const Optional &running_mean,
                                                                 const Optional &running_var, bool training,
                                                                 double momentum, double eps) {
    const bool has_mean = running_mean.has_value() && running_mean->defined();
    const bool has_var = running_var.has_value() && running_var->defined();
    if (!training) {
        TORCH_CHECK(has_mean && has_var, "running_mean and running_var must be defined in evaluation mode");
        return at::_native_batch_norm_legit_no_training(input, weight, bias, *running_mean, *running_var, momentum,
                                                        eps);
    }
    TORCH_CHECK(has_mean == has_var, "running_mean and running_var must either both be None or neither be None");
    if (!has_mean) return at::_native_batch_norm_legit(input, weight, bias, training, momentum, eps);
    at::Tensor mean = *running_mean, var = *running_var;
    return at::_native_batch_norm_legit(input, weight, bias, mean, var, training, momentum, eps);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { library.impl("native_batch_norm", TORCH_FN(native_batch_norm)); }

} // namespace
