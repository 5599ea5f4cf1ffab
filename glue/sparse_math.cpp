/* Sparse tensors (COO): sums, products, masks, softmax and selection, composed of dense ops on indices and values. */
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/copy_sparse_to_sparse.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <torch/library.h>

#include "sparse.h"

namespace {

using at::sparse::alias_into_sparse;

at::IntArrayRef sparse_sizes(const at::Tensor &self) {
    return self.sizes().slice(0, static_cast<size_t>(self.sparse_dim()));
}

at::Tensor places_of(const at::Tensor &self) { return tpj_glue_sparse_places(self._indices(), sparse_sizes(self)); }

/* ---- coalesce ---- */

at::Tensor coalesce(const at::Tensor &self) {
    if (self._nnz() < 2) return self.clone()._coalesced_(true);
    const auto [places, group, counts] = at::_unique2(places_of(self), true, true);
    return tpj_glue_sparse_like(self, tpj_glue_sparse_indices(places, sparse_sizes(self)),
                                tpj_glue_sparse_sum_groups(self._values(), group, places.size(0)), true);
}

/* ---- add ---- */

at::Tensor times(const at::Tensor &values, const at::Scalar &alpha) {
    return alpha.equal(1) ? values : values.mul(alpha).to(values.scalar_type());
}

void check_result_dtype(const char *op, at::ScalarType common, const at::Tensor &r) {
    TORCH_CHECK(c10::canCast(common, r.scalar_type()), "Can't convert result type ", common, " to output ",
                r.scalar_type(), " in ", op, " operation");
}

/* dense + alpha * sparse: repeated indices add up in place. */
at::Tensor &add_to_dense(const at::Tensor &dense, const at::Tensor &sparse, const at::Scalar &alpha, at::Tensor &r) {
    TORCH_CHECK(!r.is_sparse(), "add: the sum of a dense and a sparse tensor is dense, but its out= tensor is sparse");
    TORCH_CHECK(dense.sizes() == sparse.sizes(),
                "add: expected 'self' and 'other' to have same size, but self has size ", dense.sizes(),
                " while other has size ", sparse.sizes(),
                " (FYI: dense-sparse addition does not currently support broadcasting)");
    const at::ScalarType common = at::promoteTypes(dense.scalar_type(), sparse.scalar_type());
    check_result_dtype("add", common, r);
    const bool in_place = r.is_same(dense) && r.scalar_type() == common;
    at::Tensor sum = in_place ? r : dense.to(common, false, !in_place);
    if (sparse._nnz() > 0) {
        const at::Tensor values = times(sparse._values().to(common), alpha);
        std::vector<at::Tensor> indices = sparse._indices().unbind(0);
        if (indices.empty())
            sum.add_(common == at::kBool ? values.any(0) : values.sum(0, false, common));
        else if (common == at::kBool) /* the sum of truths is "any": their sum as numbers, as index_put_ has no "or" */
            sum.copy_(
                sum.to(at::kInt).index_put_(at::native::toListOfOptionalTensors(indices), values.to(at::kInt), true));
        else
            sum.index_put_(at::native::toListOfOptionalTensors(indices), values, true);
    }
    if (in_place) return r;
    r.resize_(dense.sizes());
    r.copy_(sum);
    return r;
}

at::Tensor &add_out(const at::Tensor &self, const at::Tensor &other, const at::Scalar &alpha, at::Tensor &r) {
    tpj_glue_check_same_device("add", {self, other, r});
    at::native::alpha_check(at::promoteTypes(self.scalar_type(), other.scalar_type()), alpha);
    if (!self.is_sparse()) return add_to_dense(self, other, alpha, r);
    TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
                " != ", other.sizes());
    const at::ScalarType common = at::promoteTypes(self.scalar_type(), other.scalar_type());
    check_result_dtype("add", common, r);
    if (other._nnz() == 0) return at::copy_sparse_to_sparse_(r, self);
    if (self._nnz() == 0) {
        const at::Tensor scaled = times(other._values().to(common), alpha);
        return at::copy_sparse_to_sparse_(r,
                                          tpj_glue_sparse_like(other, other._indices(), scaled, other.is_coalesced()));
    }
    TORCH_CHECK(at::sparse::is_same_density(self, other),
                "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
                " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
    const at::Tensor indices = at::cat({self._indices(), other._indices()}, 1);
    const at::Tensor values = at::cat({self._values().to(common), times(other._values().to(common), alpha)});
    at::Tensor sum = tpj_glue_sparse_like(self, indices, values, false);
    /* the sum of sorted operands is sorted, as on the CPU; others only grow, up to the size of a dense tensor */
    if ((self.is_coalesced() && other.is_coalesced()) || sum._nnz() > sum.numel()) sum = sum.coalesce();
    r.resize_as_sparse_(other);
    alias_into_sparse(r, sum._indices(), sum._values().to(r.scalar_type()));
    return r._coalesced_(sum.is_coalesced());
}

/* ---- mul ---- */

/* The elements that both have. */
at::Tensor &mul_out(const at::Tensor &self, const at::Tensor &other, at::Tensor &r) {
    tpj_glue_check_same_device("mul", self.dim() == 0 || other.dim() == 0 ? std::vector<at::Tensor>{r}
                                                                          : std::vector<at::Tensor>{self, other, r});
    if (!self.is_sparse() || !other.is_sparse() || self.dim() == 0 || other.dim() == 0)
        return at::_ops::mul_out::redispatch(c10::DispatchKeySet(c10::DispatchKey::SparseCPU), self, other, r);
    TORCH_CHECK(self.sizes() == other.sizes(),
                "mul: expected 'self' and 'other' to have same sizes when both are sparse, but ", self.sizes(),
                " != ", other.sizes());
    TORCH_CHECK(at::sparse::is_same_density(self, other),
                "mul: expected 'self' and 'other' to have the same number of sparse dimensions, but ",
                self.sparse_dim(), " != ", other.sparse_dim());
    const at::ScalarType common = at::promoteTypes(self.scalar_type(), other.scalar_type());
    check_result_dtype("mul", common, r);
    const at::Tensor a = self.coalesce(), b = other.coalesce();
    const auto [position, found] = tpj_glue_sparse_find(places_of(b), places_of(a));
    const at::Tensor kept = found.nonzero().squeeze(1);
    const at::Tensor b_kept = b._values().index_select(0, position.index_select(0, kept));
    const at::Tensor product = a._values().index_select(0, kept).to(common).mul(b_kept);
    const at::Tensor indices = a._indices().index_select(1, kept);
    const bool both_sorted = self.is_coalesced() && other.is_coalesced(); /* what the CPU says; it is sorted anyway */
    r.resize_as_sparse_(self);
    alias_into_sparse(r, indices, product.to(r.scalar_type()));
    return r._coalesced_(both_sorted);
}

/* ---- mask ---- */

/* The values [nnz of mask, ..] that a coalesced tensor has at the mask's places, 0 where it has none. */
at::Tensor values_at(const at::Tensor &self, const at::Tensor &places) {
    auto sizes = self._values().sizes().vec();
    sizes[0] = places.size(0);
    if (self._nnz() == 0) return at::zeros(sizes, self._values().options());
    const auto [position, found] = tpj_glue_sparse_find(places_of(self), places);
    std::vector<int64_t> column(sizes.size(), 1);
    column[0] = places.size(0);
    return self._values().index_select(0, position).masked_fill(found.logical_not().view(column), 0);
}

at::Tensor sparse_mask_projection(const at::Tensor &self, const at::Tensor &mask, bool) {
    tpj_glue_check_same_device("sparse_mask", {self, mask});
    TORCH_CHECK(self.is_sparse() && mask.is_sparse(), "_sparse_mask_projection: expected two sparse tensors");
    TORCH_CHECK(self.sizes() == mask.sizes() && at::sparse::is_same_density(self, mask),
                "sparse_mask(): operands have incompatible sizes; self has size ", self.sizes(), " but mask has size ",
                mask.sizes());
    return tpj_glue_sparse_like(mask, mask._indices(), values_at(self.coalesce(), places_of(mask)),
                                mask.is_coalesced());
}

at::Tensor sparse_mask(const at::Tensor &self, const at::Tensor &mask) {
    if (self.is_sparse()) return sparse_mask_projection(self, mask, false);
    tpj_glue_check_same_device("sparse_mask", {self, mask});
    TORCH_CHECK(mask.is_sparse(), "sparse_mask: the mask has to be sparse, but its layout is ", mask.layout());
    TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
                self.sizes(), " but mask has size ", mask.sizes());
    const std::vector<at::Tensor> indices = mask._indices().unbind(0);
    const at::Tensor values = indices.empty() ? self.unsqueeze(0).expand_as(mask._values()).clone()
                                              : self.index(at::native::toListOfOptionalTensors(indices));
    return tpj_glue_sparse_like(mask, mask._indices(), values, mask.is_coalesced());
}

/* ---- sum, backward ---- */

/* The gradient of torch.sparse.sum: each element takes that of the sum that it went into, 0 where there is none. */
at::Tensor sparse_sum_backward(const at::Tensor &grad, const at::Tensor &self, at::IntArrayRef dims) {
    tpj_glue_check_same_device("_sparse_sum_backward", {grad, self});
    const at::Tensor input = self.coalesce();
    const int64_t n_sparse = input.sparse_dim();
    std::vector<bool> summed(static_cast<size_t>(input.dim()), false);
    for (const int64_t dim : dims) summed[static_cast<size_t>(at::maybe_wrap_dim(dim, input.dim()))] = true;
    std::vector<int64_t> kept, kept_sizes;
    for (int64_t d = 0; d < n_sparse; d++)
        if (!summed[static_cast<size_t>(d)]) {
            kept.push_back(d);
            kept_sizes.push_back(input.size(d));
        }
    at::Tensor values; /* [nnz or 1, the dense dims that were not summed] */
    if (kept.empty()) {
        TORCH_CHECK(!grad.is_sparse(),
                    "_sparse_sum_backward: expected a dense gradient, since all sparse dims are summed");
        values = grad.unsqueeze(0);
    } else {
        TORCH_CHECK(grad.is_sparse(), "_sparse_sum_backward: expected a sparse gradient, but got a dense one");
        const at::Tensor rows = at::stack([&] {
            std::vector<at::Tensor> list;
            for (const int64_t d : kept) list.push_back(input._indices().select(0, d));
            return list;
        }());
        values = values_at(grad.coalesce(), tpj_glue_sparse_places(rows, kept_sizes));
    }
    for (int64_t d = n_sparse; d < input.dim(); d++)
        if (summed[static_cast<size_t>(d)]) values = values.unsqueeze(d - n_sparse + 1);
    return tpj_glue_sparse_like(input, input._indices().clone(), values.expand(input._values().sizes()).contiguous(),
                                true);
}

/* ---- softmax: over the elements that are there, the others count as minus infinity ---- */

/* A sparse dimension's groups: elements that differ in that dimension alone. */
struct Groups {
    at::Tensor group; /* [nnz] */
    int64_t n;
};

Groups groups_along(const at::Tensor &self, int64_t dim) {
    std::vector<at::Tensor> rows;
    std::vector<int64_t> sizes;
    for (int64_t d = 0; d < self.sparse_dim(); d++)
        if (d != dim) {
            rows.push_back(self._indices().select(0, d));
            sizes.push_back(self.size(d));
        }
    if (rows.empty()) return {at::zeros({self._nnz()}, self._indices().options()), 1};
    const auto [places, group, counts] = at::_unique2(tpj_glue_sparse_places(at::stack(rows), sizes), true, true);
    return {group, places.size(0)};
}

at::Tensor sum_in_groups(const at::Tensor &values, const Groups &groups) {
    return tpj_glue_sparse_sum_groups(values, groups.group, groups.n).index_select(0, groups.group);
}

template <bool log> at::Tensor sparse_softmax(const at::Tensor &self, int64_t dim, bool half_to_float) {
    TORCH_CHECK(!half_to_float, log ? "log_softmax" : "softmax",
                " with half to float conversion is not supported for sparse tensors");
    const at::Tensor input = self.coalesce();
    dim = at::maybe_wrap_dim(dim, input.dim());
    const at::Tensor values = input._values();
    at::Tensor result;
    if (values.numel() == 0) {
        result = values.clone();
    } else if (dim >= input.sparse_dim()) {
        const int64_t dense = dim - input.sparse_dim() + 1;
        result = log ? values.log_softmax(dense) : values.softmax(dense);
    } else {
        const Groups groups = groups_along(input, dim);
        auto sizes = values.sizes().vec();
        sizes[0] = groups.n;
        const at::Tensor lowest = at::full(sizes, -std::numeric_limits<double>::infinity(), values.options());
        const at::Tensor largest = lowest.index_reduce(0, groups.group, values, "amax").index_select(0, groups.group);
        const at::Tensor shifted = values.sub(largest), raised = shifted.exp();
        const at::Tensor sum = sum_in_groups(raised, groups);
        result = log ? shifted.sub(sum.log()) : raised.div(sum);
    }
    return tpj_glue_sparse_like(input, input._indices().clone(), result, true);
}

template <bool log>
at::Tensor sparse_softmax_backward(const at::Tensor &grad_, const at::Tensor &output_, int64_t dim,
                                   const at::Tensor &self) {
    tpj_glue_check_same_device("_sparse_softmax_backward_data", {grad_, output_, self});
    const at::Tensor grad = grad_.coalesce(), output = output_.coalesce();
    dim = at::maybe_wrap_dim(dim, output.dim());
    const at::Tensor y = output._values(), g = values_at(grad, places_of(output));
    at::Tensor result;
    if (y.numel() == 0) {
        result = y.clone();
    } else if (dim >= output.sparse_dim()) {
        const int64_t dense = dim - output.sparse_dim() + 1;
        result = log ? at::_log_softmax_backward_data(g, y, dense, y.scalar_type())
                     : at::_softmax_backward_data(g, y, dense, y.scalar_type());
    } else {
        const Groups groups = groups_along(output, dim);
        result = log ? g.sub(y.exp().mul(sum_in_groups(g, groups))) : y.mul(g.sub(sum_in_groups(y.mul(g), groups)));
    }
    return tpj_glue_sparse_like(output, output._indices().clone(), result, true);
}

/* ---- index_select ---- */

at::Tensor index_select(const at::Tensor &self, int64_t dim, const at::Tensor &index) {
    tpj_glue_check_same_device("index_select", {self, index});
    TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
    TORCH_CHECK_INDEX(index.dim() == 1 && (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt),
                      "index_select() argument index must be 1-D long-tensor.");
    dim = at::maybe_wrap_dim(dim, self.dim());
    auto sizes = self.sizes().vec();
    sizes[static_cast<size_t>(dim)] = index.size(0);
    if (dim >= self.sparse_dim()) {
        const at::Tensor values = self._values().index_select(dim - self.sparse_dim() + 1, index);
        return tpj_glue_sparse_make(sizes, self._indices(), values, self.is_coalesced());
    }
    const int64_t size = self.size(dim);
    if (index.size(0) > 0) { /* a wrong one would match nothing, silently: one read */
        const auto [low, high] = index.aminmax();
        TORCH_CHECK_INDEX(low.item<int64_t>() >= -size && high.item<int64_t>() < size,
                          "index_select(): index contains ", (low.item<int64_t>() < -size ? low : high).item<int64_t>(),
                          " that is out of range for tensor of size ", self.sizes(), " at dimension ", dim);
    }
    const auto [sorted, order] = index.to(at::kLong).remainder(std::max<int64_t>(size, 1)).sort();
    const auto [element, position] = tpj_glue_sparse_pairs(sorted, self._indices().select(0, dim));
    std::vector<at::Tensor> rows = self._indices().index_select(1, element).unbind(0);
    rows[static_cast<size_t>(dim)] = order.index_select(0, position);
    return tpj_glue_sparse_make(sizes, at::stack(rows), self._values().index_select(0, element), false);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library) {
    library.impl("_coalesce", TORCH_FN(coalesce));
    library.impl("add.out", TORCH_FN(add_out));
    library.impl("mul.out", TORCH_FN(mul_out));
    library.impl("sparse_mask", TORCH_FN(sparse_mask));
    library.impl("_sparse_mask_projection", TORCH_FN(sparse_mask_projection));
    library.impl("_sparse_sum_backward", TORCH_FN(sparse_sum_backward));
    library.impl("_sparse_softmax", TORCH_FN(sparse_softmax<false>));
    library.impl("_sparse_log_softmax", TORCH_FN(sparse_softmax<true>));
    library.impl("_sparse_softmax_backward_data", TORCH_FN(sparse_softmax_backward<false>));
    library.impl("_sparse_log_softmax_backward_data", TORCH_FN(sparse_softmax_backward<true>));
    library.impl("index_select", TORCH_FN(index_select));
}

} // namespace
