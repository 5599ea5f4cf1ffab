/* Sparse tensors (COO): products of matrices. Each element of the sparse operand takes a row of the dense one, scaled by it,
 * to the row of the result that its own row names. */
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "sparse.h"

namespace {

bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

/* sum over the elements of values[i] * dense[from[i]] at row to[i]: [n_rows, ..]. Halves are summed in float. */
at::Tensor gather_scale_add(const at::Tensor &values, const at::Tensor &from, const at::Tensor &to,
                            const at::Tensor &dense, int64_t n_rows) {
    const at::ScalarType type = is_half(dense.scalar_type()) ? at::kFloat : dense.scalar_type();
    const at::Tensor scaled = dense.index_select(0, from).to(type).mul(values.to(type).unsqueeze(1));
    return tpj_glue_sparse_sum_groups(scaled, to, n_rows);
}

void check_matrix(const char *op, const at::Tensor &sparse, const at::Tensor &dense) {
    TORCH_CHECK(sparse.is_sparse() && !dense.is_sparse(), op,
                ": expected a sparse and a dense matrix, but got layouts ", sparse.layout(), " and ", dense.layout());
    TORCH_CHECK(sparse.sparse_dim() == 2, op, ": matrices expected, got ", sparse.sparse_dim(), "D tensor");
    TORCH_CHECK(sparse.dense_dim() == 0, op, ": scalar values expected, got ", sparse.dense_dim(), "D values");
    TORCH_CHECK(dense.dim() == 2, op, ": matrices expected, got ", dense.dim(), "D tensor");
    TORCH_CHECK(dense.size(0) == sparse.size(1), op, ": Expected dim 0 size ", sparse.size(1), ", got ", dense.size(0));
    TORCH_CHECK(sparse.scalar_type() == dense.scalar_type(), op, ": expected operands of one dtype, but got ",
                sparse.scalar_type(), " and ", dense.scalar_type());
}

at::Tensor product(const at::Tensor &sparse, const at::Tensor &dense) {
    return gather_scale_add(sparse._values(), sparse._indices().select(0, 1), sparse._indices().select(0, 0), dense,
                            sparse.size(0));
}

/* ---- addmm: beta * self + alpha * sparse @ dense ---- */

at::Tensor sparse_addmm(const at::Tensor &self, const at::Tensor &sparse, const at::Tensor &dense,
                        const at::Scalar &beta, const at::Scalar &alpha) {
    tpj_glue_check_same_device("addmm", {self, sparse, dense});
    check_matrix("addmm", sparse, dense);
    TORCH_CHECK(self.scalar_type() == dense.scalar_type(), "addmm: expected operands of one dtype, but got ",
                self.scalar_type(), " and ", dense.scalar_type());
    const at::Tensor added = self.expand({sparse.size(0), dense.size(1)});
    at::Tensor result = product(sparse, dense);
    if (!alpha.equal(1)) result = result.mul(alpha);
    /* beta = 0 ignores self, NaN included, as a dense addmm does */
    if (!beta.equal(0)) result = result.add(added.to(result.scalar_type()), beta);
    return result.to(dense.scalar_type());
}

at::Tensor &addmm_out(const at::Tensor &self, const at::Tensor &sparse, const at::Tensor &dense, const at::Scalar &beta,
                      const at::Scalar &alpha, at::Tensor &out) {
    const at::Tensor result = sparse_addmm(self, sparse, dense, beta, alpha);
    tpj_glue_check_same_device("addmm", {result, out});
    TORCH_CHECK(!out.is_sparse(), "addmm: the result is dense, but its out= tensor is sparse");
    out.resize_(result.sizes());
    return out.copy_(result);
}

at::Tensor &addmm_(at::Tensor &self, const at::Tensor &sparse, const at::Tensor &dense, const at::Scalar &beta,
                   const at::Scalar &alpha) {
    TORCH_CHECK(self.dim() == 2 && self.size(0) == sparse.size(0) && self.size(1) == dense.size(1),
                "addmm_: expected self of size [", sparse.size(0), ", ", dense.size(1), "], but got ", self.sizes());
    return addmm_out(self, sparse, dense, beta, alpha, self);
}

/* ---- bmm ---- */

at::Tensor sparse_bmm(const at::Tensor &self, const at::Tensor &mat2) {
    tpj_glue_check_same_device("bmm", {self, mat2});
    TORCH_CHECK(self.is_sparse() && !mat2.is_sparse(), "bmm_sparse: Tensor 'mat2' must be dense");
    TORCH_CHECK(self.dense_dim() == 0, "bmm_sparse: Tensor 'self' must have 0 dense dims, but has ", self.dense_dim());
    TORCH_CHECK(self.sparse_dim() == 3, "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has ",
                self.sparse_dim());
    TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
    TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
    TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
    TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "bmm_sparse: expected operands of one dtype, but got ",
                self.scalar_type(), " and ", mat2.scalar_type());
    const at::Tensor batch = self._indices().select(0, 0);
    const at::Tensor from = self._indices().select(0, 2).add(batch, mat2.size(1));
    const at::Tensor to = self._indices().select(0, 1).add(batch, self.size(1));
    const at::Tensor dense = mat2.reshape({mat2.size(0) * mat2.size(1), mat2.size(2)});
    return gather_scale_add(self._values(), from, to, dense, self.size(0) * self.size(1))
        .to(mat2.scalar_type())
        .view({self.size(0), self.size(1), mat2.size(2)});
}

at::Tensor &bmm_out(const at::Tensor &self, const at::Tensor &mat2, at::Tensor &out) {
    const at::Tensor result = sparse_bmm(self, mat2);
    tpj_glue_check_same_device("bmm", {result, out});
    out.resize_(result.sizes());
    return out.copy_(result);
}

/* ---- sparse @ sparse ---- */

/* Each element (i, j) of self meets row j of other; equal places of the result are summed by coalesce. */
at::Tensor sparse_sparse_matmul(const at::Tensor &self, const at::Tensor &other) {
    tpj_glue_check_same_device("_sparse_sparse_matmul", {self, other});
    TORCH_CHECK(self.is_sparse() && other.is_sparse(), "sparse matmul: expected two sparse matrices");
    TORCH_CHECK(self.dim() == 2 && other.dim() == 2, "sparse matmul: expected matrices, got ", self.dim(), "D and ",
                other.dim(), "D tensors");
    TORCH_CHECK(self.dense_dim() == 0 && other.dense_dim() == 0, "sparse matmul: scalar values expected");
    TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
                self.size(1), " and ", other.size(0), "x", other.size(1), ")");
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), "mat1 dtype ", self.dtype(), " does not match mat2 dtype ",
                other.dtype());
    const at::Tensor b = other.coalesce();
    const auto [element, position] =
        tpj_glue_sparse_pairs(b._indices().select(0, 0).contiguous(), self._indices().select(0, 1).contiguous());
    const at::Tensor row = self._indices().select(0, 0).index_select(0, element);
    const at::Tensor column = b._indices().select(0, 1).index_select(0, position);
    const at::ScalarType type = self.scalar_type(), wide = is_half(type) ? at::kFloat : type;
    const at::Tensor values =
        self._values().index_select(0, element).to(wide).mul(b._values().index_select(0, position).to(wide));
    const at::Tensor sum =
        tpj_glue_sparse_make({self.size(0), other.size(1)}, at::stack({row, column}), values, false).coalesce();
    return wide == type ? sum : tpj_glue_sparse_like(sum, sum._indices(), sum._values().to(type), true);
}

/* ---- hspmm: sparse @ dense, with rows of values for the rows that are there ---- */

at::Tensor sparse_hspmm(const at::Tensor &sparse, const at::Tensor &dense) {
    tpj_glue_check_same_device("hspmm", {sparse, dense});
    check_matrix("hspmm", sparse, dense);
    const auto [rows, group, counts] = at::_unique2(sparse._indices().select(0, 0), true, true);
    const at::Tensor values =
        gather_scale_add(sparse._values(), sparse._indices().select(0, 1), group, dense, rows.size(0));
    return tpj_glue_sparse_make({sparse.size(0), dense.size(1)}, rows.unsqueeze(0), values.to(dense.scalar_type()),
                                true);
}

at::Tensor &hspmm_out(const at::Tensor &sparse, const at::Tensor &dense, at::Tensor &out) {
    const at::Tensor result = sparse_hspmm(sparse, dense);
    at::sparse::get_sparse_impl(out)->raw_resize_(1, 1, result.sizes());
    at::sparse::alias_into_sparse(out, result._indices(), result._values().to(out.scalar_type()));
    return out._coalesced_(true);
}

/* beta * self + alpha * sparse @ dense, sparse: the rows of the product that are there, in full. */
at::Tensor &sspaddmm_out(const at::Tensor &self, const at::Tensor &sparse, const at::Tensor &dense,
                         const at::Scalar &beta, const at::Scalar &alpha, at::Tensor &out) {
    const at::Tensor rows = sparse_hspmm(sparse, dense);
    const int64_t n_rows = rows._nnz(), n_columns = dense.size(1);
    const at::Tensor row = rows._indices().select(0, 0).unsqueeze(1).expand({n_rows, n_columns}).reshape(-1);
    const at::Tensor column = at::arange(n_columns, row.options()).repeat(n_rows);
    at::Tensor indices = at::stack({row, column}), values = rows._values().reshape(-1).mul(alpha);
    if (self._nnz() > 0) { /* out may be self, and is empty where there is nothing to add */
        TORCH_CHECK(self.size(0) == sparse.size(0) && self.size(1) == n_columns, "sspaddmm: expected self of size [",
                    sparse.size(0), ", ", n_columns, "], but got ", self.sizes());
        indices = at::cat({self._indices(), indices}, 1);
        values = at::cat({self._values().mul(beta), values});
    }
    at::sparse::get_sparse_impl(out)->raw_resize_(2, 0, {sparse.size(0), n_columns});
    at::sparse::alias_into_sparse(out, indices, values.to(out.scalar_type()));
    return out._coalesced_(false);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library) {
    library.impl("addmm", TORCH_FN(sparse_addmm));
    library.impl("addmm.out", TORCH_FN(addmm_out));
    library.impl("addmm_", TORCH_FN(addmm_));
    library.impl("bmm", TORCH_FN(sparse_bmm));
    library.impl("bmm.out", TORCH_FN(bmm_out));
    library.impl("_sparse_sparse_matmul", TORCH_FN(sparse_sparse_matmul));
    library.impl("hspmm", TORCH_FN(sparse_hspmm));
    library.impl("hspmm.out", TORCH_FN(hspmm_out));
    library.impl("sspaddmm.out", TORCH_FN(sspaddmm_out));
}

} // namespace
