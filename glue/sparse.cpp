/* Sparse tensors: which ops run PyTorch's own composed kernels, which go to the CPU, and what the others are made of. */
#include "sparse.h"

#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "dispatch.h"

namespace {

std::optional<c10::Device> device_of_value(const c10::IValue &value) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone())
        return value.toTensor().device();
    if (value.isDevice() && value.toDevice().is_privateuseone()) return value.toDevice();
    if (value.isTensorList())
        for (const at::Tensor &tensor : value.toTensorVector())
            if (tensor.defined() && tensor.is_privateuseone()) return tensor.device();
    return std::nullopt;
}

std::optional<c10::Device> device_of_call(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
    for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); i++)
        if (const auto device = device_of_value(stack[i])) return device;
    return std::nullopt;
}

template <c10::DispatchKey key> void compose(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    /* the parts of a new sparse tensor are made on the current device */
    const c10::OptionalDeviceGuard guard(device_of_call(op, *stack));
    op.redispatchBoxed(c10::DispatchKeySet(key), stack);
}

/* Kept for the life of the process, as those of the ops that are registered one by one. */
const tpj_glue_op &facts_of(const c10::OperatorHandle &op) {
    static std::mutex mutex;
    static auto *all = new std::unordered_map<c10::OperatorName, std::unique_ptr<tpj_glue_op>>;
    const std::lock_guard<std::mutex> lock(mutex);
    auto &facts = (*all)[op.operator_name()];
    if (facts == nullptr) facts = std::make_unique<tpj_glue_op>(op, nullptr, tpj_glue_form::functional);
    return *facts;
}

} // namespace

void tpj_glue_sparse_compose(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    compose<c10::DispatchKey::SparseCPU>(op, stack);
}

void tpj_glue_sparse_csr_compose(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    compose<c10::DispatchKey::SparseCsrCPU>(op, stack);
}

void tpj_glue_sparse_fall_back(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::SparseCPU) ||
                                    op.hasKernelForDispatchKey(c10::DispatchKey::SparseCsrCPU),
                                op.operator_name(),
                                ": not for sparse tensors, on the tpu device as on the CPU. "
                                "Use to_dense()");
    tpj_glue_run_on_cpu(facts_of(op), *stack);
}

void tpj_glue_check_same_device(const char *op, at::TensorList tensors) {
    for (const at::Tensor &tensor : tensors)
        TORCH_CHECK(tensor.device() == tensors[0].device(), op,
                    ": expected all tensors to be on the same device, but found ", tensors[0].device(), " and ",
                    tensor.device());
}

at::Tensor tpj_glue_sparse_make(at::IntArrayRef sizes, const at::Tensor &indices, const at::Tensor &values,
                                bool coalesced) {
    return at::_sparse_coo_tensor_with_dims_and_tensors(indices.size(0), values.dim() - 1, sizes, indices, values,
                                                        values.options().layout(at::kSparse))
        ._coalesced_(coalesced);
}

at::Tensor tpj_glue_sparse_like(const at::Tensor &like, const at::Tensor &indices, const at::Tensor &values,
                                bool coalesced) {
    return tpj_glue_sparse_make(like.sizes(), indices, values, coalesced);
}

at::Tensor tpj_glue_sparse_places(const at::Tensor &indices, at::IntArrayRef sizes) {
    if (indices.size(0) == 0) return at::zeros({indices.size(1)}, indices.options());
    at::Tensor places = indices.select(0, 0);
    for (int64_t d = 1; d < indices.size(0); d++)
        places = indices.select(0, d).add(places, sizes[static_cast<size_t>(d)]);
    return places;
}

at::Tensor tpj_glue_sparse_indices(const at::Tensor &places, at::IntArrayRef sizes) {
    std::vector<at::Tensor> rows(sizes.size());
    at::Tensor rest = places;
    for (size_t d = sizes.size(); d-- > 0;) {
        const at::Scalar size = std::max<int64_t>(sizes[d], 1);
        rows[d] = d > 0 ? rest.remainder(size) : rest;
        if (d > 0) rest = rest.floor_divide(size);
    }
    if (rows.empty()) return at::zeros({0, places.size(0)}, places.options());
    return rows.size() == 1 ? rows[0].unsqueeze(0) : at::stack(rows);
}

at::Tensor tpj_glue_sparse_sum_groups(const at::Tensor &values, const at::Tensor &group, int64_t n_groups) {
    auto sizes = values.sizes().vec();
    sizes[0] = n_groups;
    if (values.scalar_type() == at::kBool) /* the sum of truths is "any" */
        return at::zeros(sizes, values.options().dtype(at::kInt)).index_add_(0, group, values.to(at::kInt)).ne(0);
    return at::zeros(sizes, values.options()).index_add_(0, group, values);
}

std::pair<at::Tensor, at::Tensor> tpj_glue_sparse_find(const at::Tensor &places, const at::Tensor &wanted) {
    if (places.size(0) == 0) return {at::zeros_like(wanted), at::zeros_like(wanted, wanted.options().dtype(at::kBool))};
    const at::Tensor at_or_after = at::searchsorted(places, wanted).clamp_max(places.size(0) - 1);
    return {at_or_after, places.index_select(0, at_or_after).eq(wanted)};
}

std::pair<at::Tensor, at::Tensor> tpj_glue_sparse_pairs(const at::Tensor &numbers, const at::Tensor &wanted) {
    const at::Tensor first = at::searchsorted(numbers, wanted);
    const at::Tensor counts = at::searchsorted(numbers, wanted, false, true).sub(first);
    const at::Tensor of_pair = at::repeat_interleave(counts);
    const at::Tensor first_pair = counts.cumsum(0).sub(counts);
    const at::Tensor step = at::arange(of_pair.size(0), of_pair.options()).sub(first_pair.index_select(0, of_pair));
    return {of_pair, first.index_select(0, of_pair).add(step)};
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&tpj_glue_sparse_fall_back>());
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library) {
    /* metadata and construction */
    tpj_glue_register_names<&tpj_glue_sparse_compose>(library, {"_coalesced_",
                                                                "_dimI",
                                                                "_dimV",
                                                                "_indices",
                                                                "_nnz",
                                                                "_pin_memory",
                                                                "_sparse_broadcast_to",
                                                                "_sparse_coo_tensor_with_dims",
                                                                "_sparse_coo_tensor_with_dims_and_tensors",
                                                                "_to_dense",
                                                                "_to_sparse",
                                                                "_to_sparse.sparse_dim",
                                                                "_to_sparse_csc",
                                                                "_to_sparse_csr",
                                                                "_values",
                                                                "cat",
                                                                "clone",
                                                                "copy_",
                                                                "copy_sparse_to_sparse_",
                                                                "dense_dim",
                                                                "empty.memory_format",
                                                                "empty_like",
                                                                "indices",
                                                                "is_coalesced",
                                                                "is_pinned",
                                                                "narrow_copy",
                                                                "permute",
                                                                "resize_as_sparse_",
                                                                "sparse_dim",
                                                                "sparse_resize_",
                                                                "sparse_resize_and_clear_",
                                                                "unsqueeze",
                                                                "values",
                                                                "view_as_complex",
                                                                "view_as_real",
                                                                "zero_",
                                                                "zeros.out"});
    /* functions of the values */
    for (const char *name : {"abs",   "asin",  "asinh", "atan",  "atanh", "ceil",    "deg2rad",   "erf", "erfinv",
                             "expm1", "floor", "frac",  "log1p", "neg",   "rad2deg", "round",     "sgn", "sign",
                             "sin",   "sinh",  "sqrt",  "tan",   "tanh",  "trunc",   "nan_to_num"})
        for (const char *form : {"", "_", ".out"})
            library.impl((std::string(name) + form).c_str(),
                         torch::CppFunction::makeFromBoxedFunction<&tpj_glue_sparse_compose>());
    tpj_glue_register_names<&tpj_glue_sparse_compose>(
        library, {"any", "conj_physical.out", "isinf", "isnan", "isneginf", "isneginf.out", "isposinf", "isposinf.out",
                  "relu", "relu_", "signbit", "signbit.out", "threshold_backward", "threshold_backward.grad_input"});
    /* what ends in the ops of sparse_math.cpp and sparse_matmul.cpp */
    tpj_glue_register_names<&tpj_glue_sparse_compose>(library, {"add.Tensor",
                                                                "add_.Tensor",
                                                                "div.Tensor",
                                                                "div.Tensor_mode",
                                                                "div.out",
                                                                "div.out_mode",
                                                                "div_.Tensor",
                                                                "div_.Tensor_mode",
                                                                "floor_divide",
                                                                "floor_divide.out",
                                                                "floor_divide_.Tensor",
                                                                "mm",
                                                                "mm.out",
                                                                "mul.Tensor",
                                                                "mul_.Tensor",
                                                                "mv",
                                                                "native_norm",
                                                                "native_norm.ScalarOpt_dim_dtype",
                                                                "norm.ScalarOpt_dim",
                                                                "norm.ScalarOpt_dim_dtype",
                                                                "pow.Tensor_Scalar",
                                                                "pow.Tensor_Scalar_out",
                                                                "sub.Tensor",
                                                                "sub.out",
                                                                "sub_.Tensor",
                                                                "sum",
                                                                "sum.dim_IntList"});
    tpj_glue_register_names<&tpj_glue_sparse_fall_back>(library, {"_to_sparse_bsc", "_to_sparse_bsr"});
}

/* Dense in, sparse out: nonzero and a selection; rows of a gradient by their indices. */
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    tpj_glue_register_names<&compose<c10::DispatchKey::CPU>>(
        library,
        {"_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csc", "_to_sparse_csr", "_embedding_bag_backward"});
}
