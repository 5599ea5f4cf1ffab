#include "indexing.h"

#include <ATen/core/List.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/masked_fill.h>

namespace {

bool is_mask(const at::Tensor &index) { return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte; }

/* One index per indexed dimension; a mask of rank r stands for r of them. */
c10::List<std::optional<at::Tensor>> expand_indices(const at::Tensor &self,
                                                    const c10::List<std::optional<at::Tensor>> &indices) {
    c10::List<std::optional<at::Tensor>> expanded;
    for (const std::optional<at::Tensor> &entry : indices) {
        if (!entry.has_value() || !entry->defined()) {
            expanded.push_back(std::nullopt);
            continue;
        }
        const at::Tensor index = entry->device() == self.device() ? *entry : entry->to(self.device());
        if (!is_mask(index)) {
            const at::ScalarType type = index.scalar_type();
            TORCH_CHECK_INDEX(type == at::kLong || type == at::kInt || type == at::kShort || type == at::kChar,
                              "tensors used as indices must be long, int, byte or bool tensors");
            expanded.push_back(type == at::kLong || type == at::kInt ? index : index.to(at::kLong));
            continue;
        }
        for (int64_t k = 0; k < index.dim(); k++) {
            const int64_t at = static_cast<int64_t>(expanded.size()) + k;
            TORCH_CHECK_INDEX(at < self.dim(), "too many indices for tensor of dimension ", self.dim());
            TORCH_CHECK_INDEX(index.size(k) == self.size(at), "The shape of the mask ", index.sizes(), " at index ", k,
                              " does not match the shape of the indexed tensor ", self.sizes(), " at index ", at);
        }
        const at::Tensor positions = index.nonzero();
        for (int64_t k = 0; k < index.dim(); k++) expanded.push_back(positions.select(1, k));
    }
    TORCH_CHECK_INDEX(static_cast<int64_t>(expanded.size()) <= self.dim(), "too many indices for tensor of dimension ",
                      self.dim(), " (got ", expanded.size(), ")");
    return expanded;
}

bool needs_work(const c10::List<std::optional<at::Tensor>> &indices, const at::Tensor &self) {
    if (static_cast<int64_t>(indices.size()) > self.dim()) return true; /* to raise */
    for (const std::optional<at::Tensor> &index : indices)
        if (index.has_value() && index->defined() &&
            (!(index->scalar_type() == at::kLong || index->scalar_type() == at::kInt) ||
             index->device() != self.device()))
            return true;
    return false;
}

/* x[mask] = one element needs no positions, and so no read of their number and no program for each such number. */
bool fill_masked(const at::Tensor &self, const c10::List<std::optional<at::Tensor>> &indices, const at::Tensor &value) {
    if (value.numel() != 1) return false;
    /* PyTorch reads the element, and so asks for one on the CPU: there, any will do for the question. */
    const auto [fits, mask] = at::native::canDispatchToMaskedFill(self, indices, at::empty({}, at::kCPU));
    if (!fits) return false;
    if (value.is_privateuseone())
        self.masked_fill_(mask, value.reshape({}));
    else
        self.masked_fill_(mask, value.item());
    return true;
}

} // namespace

bool tpj_glue_prepare_indices(const tpj_glue_op &op, torch::jit::Stack &stack) {
    const size_t base = stack.size() - static_cast<size_t>(op.n_arguments);
    const at::Tensor self = stack[base].toTensor();
    const auto indices = stack[base + 1].toOptionalTensorList();
    if (!needs_work(indices, self)) return false;
    const bool put = op.n_arguments > 3 && stack[base + 2].isTensor();
    const bool accumulate = put && stack[base + 3].isBool() && stack[base + 3].toBool();
    if (put && !accumulate && op.form == tpj_glue_form::inplace &&
        fill_masked(self, indices, stack[base + 2].toTensor())) {
        stack.resize(base);
        stack.emplace_back(self);
        return true;
    }
    stack[base + 1] = expand_indices(self, indices);
    return false;
}
