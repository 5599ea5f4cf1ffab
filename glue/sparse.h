/* Sparse tensors: an index tensor and a value tensor, both dense and on the device. Everything is composed of dense ops on
 * the two, which have rows; no kernel of its own. */
#ifndef TPJ_GLUE_SPARSE_H
#define TPJ_GLUE_SPARSE_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <initializer_list>

/* ---- the two ways in for ops that are not written here (boxed kernels) ---- */
/* PyTorch's own kernel for the CPU, for ops whose kernel is written in terms of other ops and never looks at memory. */
void tpj_glue_sparse_compose(const c10::OperatorHandle &op, torch::jit::Stack *stack);
void tpj_glue_sparse_csr_compose(const c10::OperatorHandle &op, torch::jit::Stack *stack);
/* On the CPU, counted (fallback.cpp); NotImplementedError for what PyTorch's CPU does not have either. */
void tpj_glue_sparse_fall_back(const c10::OperatorHandle &op, torch::jit::Stack *stack);
/* Registers one of these for each name. */
template <auto kernel>
void tpj_glue_register_names(torch::Library &library, std::initializer_list<const char *> names) {
    for (const char *name : names) library.impl(name, torch::CppFunction::makeFromBoxedFunction<kernel>());
}

/* RuntimeError unless all are on the first one's device. */
void tpj_glue_check_same_device(const char *op, at::TensorList tensors);

/* ---- COO ---- */
/* Sparse like `like` in sparse and dense dimensions and in sizes. Borrows nothing: both tensors become the result's own. */
at::Tensor tpj_glue_sparse_like(const at::Tensor &like, const at::Tensor &indices, const at::Tensor &values,
                                bool coalesced);
at::Tensor tpj_glue_sparse_make(at::IntArrayRef sizes, const at::Tensor &indices, const at::Tensor &values,
                                bool coalesced);
/* The place [nnz] of each element among the sizes' elements in row-major order. One size for each row of indices. */
at::Tensor tpj_glue_sparse_places(const at::Tensor &indices, at::IntArrayRef sizes);
/* Back: indices [sizes.size(), nnz]. */
at::Tensor tpj_glue_sparse_indices(const at::Tensor &places, at::IntArrayRef sizes);
/* Sums of values [nnz, ..] by group, 0 where a group is empty: [n_groups, ..]. */
at::Tensor tpj_glue_sparse_sum_groups(const at::Tensor &values, const at::Tensor &group, int64_t n_groups);
/* Where each of `wanted` stands in the sorted `places` (any position where it does not), and whether it does. */
std::pair<at::Tensor, at::Tensor> tpj_glue_sparse_find(const at::Tensor &places, const at::Tensor &wanted);
/* Pairs of equal numbers: for each i of `wanted`, all positions of it in the sorted `numbers`. Returns i and the position for
 * each pair, by i. Reads the number of pairs. */
std::pair<at::Tensor, at::Tensor> tpj_glue_sparse_pairs(const at::Tensor &numbers, const at::Tensor &wanted);

#endif
