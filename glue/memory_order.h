/* The order in which a dense tensor's elements lie in memory. */
#ifndef TPJ_GLUE_MEMORY_ORDER_H
#define TPJ_GLUE_MEMORY_ORDER_H

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

/* The dimensions by falling stride, those of equal stride in their own order. */
inline c10::SmallVector<int64_t, 8> tpj_glue_memory_order(const at::Tensor &tensor) {
    c10::SmallVector<int64_t, 8> order(static_cast<size_t>(tensor.dim()));
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i);
    const auto strides = tensor.strides();
    if (!tensor.is_contiguous())
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
    return order;
}

#endif
