/* Compressed sparse tensors (CSR, and CSC where PyTorch composes it): offsets, indices and values, all dense and on the device.
 * Products and sums go by way of coordinates (sparse_matmul.cpp, sparse_math.cpp). */
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_validate_compressed_sparse_indices.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include "sparse.h"

namespace {

using at::sparse_csr::is_sparse_compressed;

at::Tensor as_coo(const at::Tensor &self) { return is_sparse_compressed(self) ? self.to_sparse() : self; }

/* With offsets and indices of the dtype that `like` has. */
at::Tensor as_csr(const at::Tensor &coo, const at::Tensor &like) {
    const at::Tensor csr = coo.to_sparse_csr();
    const at::ScalarType type = like.crow_indices().scalar_type();
    if (csr.crow_indices().scalar_type() == type) return csr;
    return at::_sparse_compressed_tensor_unsafe(csr.crow_indices().to(type), csr.col_indices().to(type), csr.values(),
                                                csr.sizes(), csr.options());
}

/* Rows to columns and back: sorted anew on the way. */
template <at::Layout layout> at::Tensor to_compressed(const at::Tensor &self, std::optional<int64_t> dense_dim) {
    if (self.layout() == layout) return self.clone();
    const bool plain = self.layout() == at::kSparseCsr || self.layout() == at::kSparseCsc;
    if (plain && self.dim() - self.dense_dim() == 2 && dense_dim.value_or(self.dense_dim()) == self.dense_dim())
        return layout == at::kSparseCsr ? self.to_sparse().to_sparse_csr() : self.to_sparse().to_sparse_csc();
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        layout == at::kSparseCsr ? "aten::_to_sparse_csr" : "aten::_to_sparse_csc", "");
    torch::jit::Stack stack;
    torch::jit::push(stack, self, dense_dim);
    tpj_glue_sparse_fall_back(op, &stack); /* batches and blocks */
    return stack[0].toTensor();
}

/* ---- sums ---- */

at::Tensor &add_out(const at::Tensor &self, const at::Tensor &other, const at::Scalar &alpha, at::Tensor &out) {
    tpj_glue_check_same_device("add", {self, other, out});
    TORCH_CHECK(is_sparse_compressed(other), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    const at::Tensor sum = as_coo(self).add(as_coo(other), alpha);
    if (!is_sparse_compressed(self)) {
        out.resize_(sum.sizes());
        return out.copy_(sum);
    }
    TORCH_CHECK(out.layout() == at::kSparseCsr && self.layout() == at::kSparseCsr && other.layout() == at::kSparseCsr,
                "add: expected tensors of layout SparseCsr, but got ", self.layout(), ", ", other.layout(),
                " and out= of ", out.layout());
    const at::Tensor csr = as_csr(sum, self);
    out.resize_as_sparse_(csr);
    return out.copy_(csr);
}

/* ---- products ---- */

at::Tensor csr_addmm(const at::Tensor &self, const at::Tensor &mat1, const at::Tensor &mat2, const at::Scalar &beta,
                     const at::Scalar &alpha) {
    tpj_glue_check_same_device("addmm", {self, mat1, mat2});
    TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2, "addmm: matrices expected, got ", mat1.dim(), "D and ", mat2.dim(),
                "D tensors");
    const at::Tensor a = as_coo(mat1), b = as_coo(mat2);
    if (a.is_sparse() && b.is_sparse()) {
        at::Tensor product = at::_sparse_sparse_matmul(a, b);
        if (is_sparse_compressed(self)) /* of the result's layout: sparse */
            return as_csr(as_coo(self).mul(beta).add(product, alpha), self);
        return self.mul(beta).add(product, alpha);
    }
    if (a.is_sparse()) return at::addmm(self, a, b, beta, alpha);
    /* (dense @ sparse)^T = sparse^T @ dense^T */
    const at::Tensor added = self.expand({a.size(0), b.size(1)}).t();
    return at::addmm(added, b.t(), a.t(), beta, alpha).t().contiguous();
}

at::Tensor &csr_addmm_out(const at::Tensor &self, const at::Tensor &mat1, const at::Tensor &mat2,
                          const at::Scalar &beta, const at::Scalar &alpha, at::Tensor &out) {
    const at::Tensor result = csr_addmm(self, mat1, mat2, beta, alpha);
    tpj_glue_check_same_device("addmm", {result, out});
    if (result.layout() != at::kStrided)
        out.resize_as_sparse_(result);
    else
        out.resize_(result.sizes());
    return out.copy_(result);
}

at::Tensor &csr_addmv_out(const at::Tensor &self, const at::Tensor &mat, const at::Tensor &vec, const at::Scalar &beta,
                          const at::Scalar &alpha, at::Tensor &out) {
    tpj_glue_check_same_device("addmv", {self, mat, vec, out});
    TORCH_CHECK(mat.dim() == 2 && vec.dim() == 1 && self.dim() <= 1, "vector + matrix @ vector expected, got ",
                self.dim(), ", ", mat.dim(), ", ", vec.dim());
    TORCH_CHECK(mat.size(1) == vec.size(0), "size mismatch, got input (", mat.size(0), "), mat (", mat.size(0), "x",
                mat.size(1), "), vec (", vec.size(0), ")");
    const at::Tensor added = self.expand({mat.size(0)}).unsqueeze(1);
    const at::Tensor result = at::addmm(added, as_coo(mat), vec.unsqueeze(1), beta, alpha).squeeze(1);
    out.resize_(result.sizes());
    return out.copy_(result);
}

/* beta * self + alpha * mat1 @ mat2, at the places that self has: each takes a row of mat1 and a column of mat2. */
at::Tensor sampled_addmm(const at::Tensor &self, const at::Tensor &mat1, const at::Tensor &mat2, const at::Scalar &beta,
                         const at::Scalar &alpha) {
    tpj_glue_check_same_device("sampled_addmm", {self, mat1, mat2});
    TORCH_CHECK(self.layout() == at::kSparseCsr && mat1.layout() == at::kStrided && mat2.layout() == at::kStrided,
                "sampled_addmm: Expected self to have layout SparseCsr, mat1 and mat2 Strided, but got ", self.layout(),
                ", ", mat1.layout(), " and ", mat2.layout());
    TORCH_CHECK(mat1.scalar_type() == self.scalar_type() && mat2.scalar_type() == self.scalar_type(),
                "sampled_addmm: Expected mat1, mat2 and self to have the same dtype, but got ", mat1.scalar_type(),
                ", ", mat2.scalar_type(), " and ", self.scalar_type());
    TORCH_CHECK(self.is_floating_point() || self.is_complex(),
                "sampled_addmm: Expected self to be a floating-point or "
                "complex tensor, but got ",
                self.scalar_type());
    const int64_t rank = self.dim();
    TORCH_CHECK(rank >= 2 && mat1.dim() == rank && mat2.dim() == rank,
                "sampled_addmm: Expected mat1, mat2 and self to have the same number of dimensions, of 2 or more");
    TORCH_CHECK(mat1.size(-2) == self.size(-2) && mat2.size(-1) == self.size(-1) && mat1.size(-1) == mat2.size(-2),
                "sampled_addmm: mat1 (", mat1.size(-2), "x", mat1.size(-1), ") and mat2 (", mat2.size(-2), "x",
                mat2.size(-1), ") do not give self.shape ", self.sizes());
    for (int64_t d = 0; d < rank - 2; d++)
        TORCH_CHECK(mat1.size(d) == self.size(d) && mat2.size(d) == self.size(d),
                    "sampled_addmm: Expected mat1, mat2 and self to have the same batch dimensions");
    /* [batch dims, row, column] of each element; batches and rows of mat1, batches and columns of mat2, flattened */
    const at::Tensor indices = at::_convert_indices_from_csr_to_coo(self.crow_indices(), self.col_indices());
    const at::Tensor batch = indices.narrow(0, 0, rank - 2), column = indices.narrow(0, rank - 1, 1);
    auto column_sizes = self.sizes().vec();
    column_sizes.erase(column_sizes.end() - 2);
    const at::Tensor row_place =
        tpj_glue_sparse_places(indices.narrow(0, 0, rank - 1), self.sizes().slice(0, static_cast<size_t>(rank - 1)));
    const at::Tensor column_place = tpj_glue_sparse_places(at::cat({batch, column}), column_sizes);
    const at::Tensor rows = mat1.flatten(0, -2).index_select(0, row_place);
    const at::Tensor columns = mat2.transpose(-2, -1).flatten(0, -2).index_select(0, column_place);
    at::Tensor values = rows.mul(columns).sum(1).view(self.values().sizes()).mul(alpha);
    if (!beta.equal(0)) values = values.add(self.values(), beta);
    return at::_sparse_compressed_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(), values,
                                                self.sizes(), self.options());
}

at::Tensor &sampled_addmm_out(const at::Tensor &self, const at::Tensor &mat1, const at::Tensor &mat2,
                              const at::Scalar &beta, const at::Scalar &alpha, at::Tensor &out) {
    const at::Tensor result = sampled_addmm(self, mat1, mat2, beta, alpha);
    out.resize_as_sparse_(result);
    return out.copy_(result);
}

/* The values that a dense tensor, or one of the mask's layout, has where the mask has elements. */
at::Tensor csr_mask(const at::Tensor &self, const at::Tensor &mask) {
    tpj_glue_check_same_device("sparse_mask", {self, mask});
    TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
                self.sizes(), " but mask has size ", mask.sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(
        mask.layout() == at::kSparseCsr && mask.dense_dim() == 0,
        "sparse_mask: the tpu device has masks of layout SparseCsr with scalar values, and not ", mask.layout(),
        ". Use a mask that is COO, or keep this one on the CPU");
    if (self.layout() != at::kStrided) return as_csr(as_coo(self).sparse_mask(as_coo(mask)), mask);
    const at::Tensor indices = at::_convert_indices_from_csr_to_coo(mask.crow_indices(), mask.col_indices());
    const at::Tensor values = self.index(at::native::toListOfOptionalTensors(indices.unbind(0)));
    return at::_sparse_compressed_tensor_unsafe(mask.crow_indices(), mask.col_indices(),
                                                values.view(mask.values().sizes()), mask.sizes(),
                                                self.options().layout(at::kSparseCsr));
}

/* A check raises on the host, so it reads what it checks. */
void validate_indices(bool is_crow, const at::Tensor &offsets, const at::Tensor &indices, int64_t n_compressed,
                      int64_t n_plain, int64_t nnz) {
    at::_validate_compressed_sparse_indices(is_crow, offsets.cpu(), indices.cpu(), n_compressed, n_plain, nnz);
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&tpj_glue_sparse_fall_back>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_validate_compressed_sparse_indices", TORCH_FN(validate_indices));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
    library.impl("_to_sparse_csr", TORCH_FN(to_compressed<at::kSparseCsr>));
    library.impl("_to_sparse_csc", TORCH_FN(to_compressed<at::kSparseCsc>));
    library.impl("add.out", TORCH_FN(add_out));
    library.impl("addmm", TORCH_FN(csr_addmm));
    library.impl("addmm.out", TORCH_FN(csr_addmm_out));
    library.impl("addmv.out", TORCH_FN(csr_addmv_out));
    library.impl("sparse_mask", TORCH_FN(csr_mask));
    library.impl("sparse_sampled_addmm", TORCH_FN(sampled_addmm));
    library.impl("sparse_sampled_addmm.out", TORCH_FN(sampled_addmm_out));
}

/* PyTorch's own kernels: functions of the values; construction and metadata. */
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
    for (const char *name : {"abs",   "asin",  "asinh", "atan",  "atanh", "ceil",    "deg2rad",      "erf", "erfinv",
                             "expm1", "floor", "frac",  "log1p", "neg",   "rad2deg", "round",        "sgn", "sign",
                             "sin",   "sinh",  "sqrt",  "tan",   "tanh",  "trunc",   "conj_physical"})
        for (const char *form : {"_", ".out"})
            library.impl((std::string(name) + form).c_str(),
                         torch::CppFunction::makeFromBoxedFunction<&tpj_glue_sparse_csr_compose>());
    for (const char *name : {"abs",
                             "angle",
                             "asin",
                             "asinh",
                             "atan",
                             "atanh",
                             "ceil",
                             "deg2rad",
                             "erf",
                             "erfinv",
                             "expm1",
                             "floor",
                             "frac",
                             "log1p",
                             "neg",
                             "rad2deg",
                             "round",
                             "sgn",
                             "sign",
                             "sin",
                             "sinh",
                             "sqrt",
                             "tan",
                             "tanh",
                             "trunc",
                             "isinf",
                             "isnan",
                             "relu",
                             "relu_",
                             "isneginf",
                             "isneginf.out",
                             "isposinf",
                             "isposinf.out",
                             "signbit",
                             "signbit.out",
                             "_conj_physical",
                             "angle.out",
                             "threshold_backward",
                             "threshold_backward.grad_input"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&tpj_glue_sparse_csr_compose>());
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
    tpj_glue_register_names<&tpj_glue_sparse_csr_compose>(library, {"_nnz",
                                                                    "_pin_memory",
                                                                    "_to_dense",
                                                                    "_to_sparse",
                                                                    "_to_sparse.sparse_dim",
                                                                    "add.Tensor",
                                                                    "add_.Tensor",
                                                                    "ccol_indices",
                                                                    "clone",
                                                                    "col_indices",
                                                                    "copy_",
                                                                    "crow_indices",
                                                                    "dense_dim",
                                                                    "empty.memory_format",
                                                                    "empty_like",
                                                                    "fill_.Scalar",
                                                                    "is_pinned",
                                                                    "mm",
                                                                    "mm.out",
                                                                    "mul.Scalar",
                                                                    "mul.Tensor",
                                                                    "mul.out",
                                                                    "mul_.Scalar",
                                                                    "mul_.Tensor",
                                                                    "normal_",
                                                                    "resize_",
                                                                    "resize_as_sparse_",
                                                                    "row_indices",
                                                                    "select.int",
                                                                    "sparse_dim",
                                                                    "sum",
                                                                    "sum.dim_IntList",
                                                                    "values",
                                                                    "zero_"});
    /* PyTorch's kernels for dense tensors would come before the fallback of the key */
    tpj_glue_register_names<&tpj_glue_sparse_fall_back>(library, {"select_copy.int", "triangular_solve.X"});
}

} // namespace
