/* In-place operations on lists of tensors: one program for the whole list, unless its elements are not independent. */
#include <ATen/MemoryOverlap.h>

#include <algorithm>

#include "dispatch.h"

namespace {

/* A tensor of some list among the arguments. */
struct Element {
    const c10::StorageImpl *storage;
    size_t index; /* in its list */
    bool written;
    const at::Tensor *tensor;
};

std::vector<Element> elements_of(const tpj_glue_op &op, const torch::jit::Stack &stack) {
    const size_t base = stack.size() - static_cast<size_t>(op.n_arguments);
    std::vector<Element> elements;
    for (int i = 0; i < op.n_arguments; i++) {
        const c10::IValue &value = stack[base + static_cast<size_t>(i)];
        if (!value.isTensorList()) continue;
        const bool written = std::find(op.written.begin(), op.written.end(), i) != op.written.end();
        const auto list = value.toListRef();
        for (size_t k = 0; k < list.size(); k++) {
            const at::Tensor &tensor = list[k].toTensor();
            if (tensor.defined() && tensor.is_privateuseone())
                elements.push_back({tensor.storage().unsafeGetStorageImpl(), k, written, &tensor});
        }
    }
    return elements;
}

/* What is written for one position of the lists is read or written for another: [x, x], or [a, b] from [b, a]. */
bool depends_on_order(std::vector<Element> elements) {
    std::sort(elements.begin(), elements.end(),
              [](const Element &a, const Element &b) { return a.storage < b.storage; });
    for (size_t i = 0; i < elements.size(); i++)
        for (size_t k = i + 1; k < elements.size() && elements[k].storage == elements[i].storage; k++)
            if (elements[i].index != elements[k].index && (elements[i].written || elements[k].written) &&
                at::get_overlap_status(*elements[i].tensor, *elements[k].tensor) != at::MemOverlapStatus::No)
                return true;
    return false;
}

/* The arguments of position k: each list of tensors or numbers is cut down to one element. */
c10::IValue element_of(const c10::IValue &value, size_t k) {
    if (value.isTensorList()) return c10::List<at::Tensor>({value.toListRef()[k].toTensor()});
    if (value.isDoubleList()) return c10::List<double>({value.toListRef()[k].toDouble()});
    if (value.isIntList()) return c10::List<int64_t>({value.toListRef()[k].toInt()});
    if (!value.isList() || value.toListRef().empty()) return value;
    c10::impl::GenericList one(value.toList().elementType());
    one.push_back(value.toListRef()[k]);
    return one;
}

} // namespace

void tpj_glue_run_on_lists(const tpj_glue_op &op, torch::jit::Stack &stack) {
    const size_t base = stack.size() - static_cast<size_t>(op.n_arguments);
    const std::vector<Element> elements = elements_of(op, stack);
    /* PyTorch's kernels of other backends do this themselves: no dispatch key stands before them for lists */
    for (const Element &element : elements)
        if (element.written && !element.tensor->is_inference()) element.tensor->unsafeGetTensorImpl()->bump_version();
    if (C10_LIKELY(!depends_on_order(elements))) {
        tpj_glue_run_once(op, stack);
        return;
    }
    /* one after the other, as the CPU does */
    const size_t n = stack[base + static_cast<size_t>(op.written[0])].toListRef().size();
    torch::jit::Stack returns, one;
    for (size_t k = 0; k < n; k++) {
        one.clear();
        for (size_t i = 0; i < static_cast<size_t>(op.n_arguments); i++) one.push_back(element_of(stack[base + i], k));
        tpj_glue_run_once(op, one);
    }
    for (const int alias : op.return_alias)
        returns.push_back(alias >= 0 ? stack[base + static_cast<size_t>(alias)] : c10::IValue());
    stack.resize(base);
    stack.insert(stack.end(), returns.begin(), returns.end());
}
