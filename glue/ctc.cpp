/* CTC's loss with lengths as lists: they become tensors, and so operands, because a program for each list of lengths would
 * be compiled anew for nearly every batch. Targets that stand one after the other become rows. */
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "glue.h"

namespace tpj {
namespace {

at::Tensor on_device(at::IntArrayRef lengths, const at::Tensor &like) {
    auto options = at::TensorOptions().dtype(at::kLong);
    return at::from_blob(const_cast<int64_t *>(lengths.data()), {static_cast<int64_t>(lengths.size())}, options)
        .to(like.device());
}

void check(const at::Tensor &log_probs, const at::Tensor &targets, at::IntArrayRef inputs, at::IntArrayRef lengths) {
    TORCH_CHECK(log_probs.dim() == 3, "log_probs must have 3 dimensions, not ", log_probs.dim());
    TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
    TORCH_CHECK(targets.dim() == 1 || targets.dim() == 2, "targets must have 1 or 2 dimensions, not ", targets.dim());
    auto n = static_cast<size_t>(log_probs.size(1));
    TORCH_CHECK(inputs.size() == n, "input_lengths must be of size batch_size");
    TORCH_CHECK(lengths.size() == n, "target_lengths must be of size batch_size");
    int64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        TORCH_CHECK(inputs[i] >= 0 && inputs[i] <= log_probs.size(0), "Expected input_lengths to have value at most ",
                    log_probs.size(0), ", but got value ", inputs[i]);
        TORCH_CHECK(lengths[i] >= 0, "Expected target_lengths to have value at least 0, but got value ", lengths[i]);
        TORCH_CHECK(targets.dim() == 1 || lengths[i] <= targets.size(1), "Expected targets to have size at least ",
                    lengths[i], " at dimension 1, but got size ", targets.dim() == 1 ? 0 : targets.size(1));
        total += lengths[i];
    }
    TORCH_CHECK(targets.dim() == 2 || targets.size(0) == total, "Expected targets of size ", total, ", but got ",
                targets.size(0));
}

/* [N, the longest]: what stands behind a target's end is the next one's, and not read. */
at::Tensor rows(const at::Tensor &targets, at::IntArrayRef lengths) {
    if (targets.dim() == 2) return targets;
    int64_t n = static_cast<int64_t>(lengths.size()), start = 0;
    int64_t longest = n == 0 ? 0 : *std::max_element(lengths.begin(), lengths.end());
    if (longest == 0) return targets.new_zeros({n, 0});
    std::vector<int64_t> at;
    at.reserve(static_cast<size_t>(n * longest));
    for (int64_t length : lengths) {
        for (int64_t i = 0; i < longest; i++) at.push_back(i < length ? start + i : 0);
        start += length;
    }
    return targets.index_select(0, on_device(at, targets)).view({n, longest});
}

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor &log_probs, const at::Tensor &targets,
                                            at::IntArrayRef inputs, at::IntArrayRef lengths, int64_t blank,
                                            bool zero_infinity) {
    check(log_probs, targets, inputs, lengths);
    return at::_ctc_loss(log_probs, rows(targets, lengths), on_device(inputs, log_probs), on_device(lengths, log_probs),
                         blank, zero_infinity);
}

at::Tensor ctc_loss_backward(const at::Tensor &grad, const at::Tensor &log_probs, const at::Tensor &targets,
                             at::IntArrayRef inputs, at::IntArrayRef lengths, const at::Tensor &loss,
                             const at::Tensor &log_alpha, int64_t blank, bool zero_infinity) {
    check(log_probs, targets, inputs, lengths);
    return at::_ctc_loss_backward(grad, log_probs, rows(targets, lengths), on_device(inputs, log_probs),
                                  on_device(lengths, log_probs), loss, log_alpha, blank, zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_ctc_loss", TORCH_FN(ctc_loss));
    library.impl("_ctc_loss_backward", TORCH_FN(ctc_loss_backward));
}

} // namespace
} // namespace tpj
