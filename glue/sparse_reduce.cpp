/* torch.sparse.mm(csr, dense, reduce): row i of the result is the sum, mean, largest or smallest of the rows of `dense` that
 * the elements of row i name, each scaled by its element; 0 where there are none. */
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

#include "sparse.h"

namespace {

enum class Reduction { sum, mean, amax, amin };

Reduction reduction_of(c10::string_view name) {
    if (name == "sum") return Reduction::sum;
    if (name == "mean") return Reduction::mean;
    if (name == "amax") return Reduction::amax;
    TORCH_CHECK(name == "amin", "torch.sparse.mm: the reduction is sum, mean, amax or amin, and not ", name);
    return Reduction::amin;
}

bool picks_one(Reduction reduction) { return reduction == Reduction::amax || reduction == Reduction::amin; }

struct Elements {
    at::Tensor row, column, values; /* [nnz] */
    at::Tensor counts;              /* [rows, 1]: elements of each */
};

Elements elements_of(const at::Tensor &self, at::ScalarType type) {
    const at::Tensor offsets = self.crow_indices();
    const at::Tensor indices = at::_convert_indices_from_csr_to_coo(offsets, self.col_indices());
    const at::Tensor counts = offsets.slice(0, 1).sub(offsets.slice(0, 0, -1)).unsqueeze(1);
    return {indices.select(0, 0), indices.select(0, 1), self.values().to(type), counts};
}

at::ScalarType wide(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type; }

void check(const at::Tensor &self, const at::Tensor &other) {
    tpj_glue_check_same_device("torch.sparse.mm", {self, other});
    TORCH_CHECK(self.layout() == at::kSparseCsr && other.layout() == at::kStrided,
                "torch.sparse.mm: expected operands of layout SparseCsr and Strided, but got ", self.layout(), " and ",
                other.layout());
    TORCH_CHECK(self.dim() == 2 && other.dim() == 2, "torch.sparse.mm: matrices expected, got ", self.dim(), "D and ",
                other.dim(), "D tensors");
    TORCH_CHECK(self.size(1) == other.size(0), "torch.sparse.mm: shapes cannot be multiplied (", self.size(0), "x",
                self.size(1), " and ", other.size(0), "x", other.size(1), ")");
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), "torch.sparse.mm: expected operands of one dtype, but got ",
                self.scalar_type(), " and ", other.scalar_type());
}

/* The largest or smallest of each group of rows, and which it was: the first of equals, nnz where there is none. */
std::pair<at::Tensor, at::Tensor> pick(const at::Tensor &each, const Elements &elements, bool largest,
                                       bool with_position) {
    const int64_t nnz = each.size(0), n_rows = elements.counts.size(0), n_columns = each.size(1);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const at::Tensor start = at::full({n_rows, n_columns}, largest ? -infinity : infinity, each.options());
    const at::Tensor best = start.index_reduce(0, elements.row, each, largest ? "amax" : "amin");
    at::Tensor position = at::empty({0}, elements.row.options());
    if (with_position) {
        const at::Tensor number = at::arange(nnz, elements.row.options()).unsqueeze(1);
        const at::Tensor is_best = each.eq(best.index_select(0, elements.row)).logical_or(each.isnan());
        position = at::full({n_rows, n_columns}, nnz, number.options())
                       .index_reduce(0, elements.row, at::where(is_best, number, nnz), "amin");
    }
    return {best.masked_fill(elements.counts.eq(0), 0), position};
}

std::tuple<at::Tensor, at::Tensor> mm_reduce(const at::Tensor &self, const at::Tensor &other, c10::string_view reduce) {
    check(self, other);
    const Reduction reduction = reduction_of(reduce);
    const at::ScalarType type = other.scalar_type();
    const Elements elements = elements_of(self, wide(type));
    const at::Tensor each = other.index_select(0, elements.column).to(wide(type)).mul(elements.values.unsqueeze(1));
    if (picks_one(reduction)) {
        const bool needs_position = at::GradMode::is_enabled() && (self.requires_grad() || other.requires_grad());
        const auto [best, position] = pick(each, elements, reduction == Reduction::amax, needs_position);
        return {best.to(type), position};
    }
    at::Tensor sum = tpj_glue_sparse_sum_groups(each, elements.row, self.size(0));
    if (reduction == Reduction::mean) sum = sum.div(elements.counts.clamp_min(1));
    return {sum.to(type), at::empty({0}, elements.row.options())};
}

std::tuple<at::Tensor, at::Tensor> mm_reduce_backward(const at::Tensor &self, const at::Tensor &grad_out,
                                                      const at::Tensor &weight, c10::string_view reduce,
                                                      const at::Tensor &position, std::array<bool, 2> wanted) {
    check(self, weight);
    const Reduction reduction = reduction_of(reduce);
    const at::ScalarType type = wide(weight.scalar_type());
    const Elements elements = elements_of(self, type);
    const at::Tensor w = weight.to(type), g = grad_out.to(type);
    const int64_t nnz = elements.row.size(0);
    at::Tensor of_values, of_weight;
    if (!picks_one(reduction)) {
        at::Tensor each = g.index_select(0, elements.row); /* [nnz, columns] */
        if (reduction == Reduction::mean) each = each.div(elements.counts.index_select(0, elements.row));
        if (wanted[0]) of_values = each.mul(w.index_select(0, elements.column)).sum(1);
        if (wanted[1])
            of_weight = tpj_glue_sparse_sum_groups(each.mul(elements.values.unsqueeze(1)), elements.column, w.size(0));
    } else if (nnz == 0) {
        of_values = at::zeros({0}, w.options());
        of_weight = at::zeros(w.sizes(), w.options());
    } else {
        const at::Tensor element = position.clamp_max(nnz - 1).reshape(-1); /* of each place of the result */
        const at::Tensor column = elements.column.index_select(0, element).view(position.sizes());
        const at::Tensor each = g.masked_fill(position.eq(nnz), 0);
        if (wanted[0]) of_values = tpj_glue_sparse_sum_groups(each.mul(w.gather(0, column)).reshape(-1), element, nnz);
        if (wanted[1])
            of_weight =
                at::zeros(w.sizes(), w.options())
                    .scatter_add(0, column, each.mul(elements.values.index_select(0, element).view(each.sizes())));
    }
    at::Tensor of_self;
    if (wanted[0])
        of_self = at::_sparse_compressed_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(),
                                                       of_values.to(self.scalar_type()), self.sizes(), self.options());
    if (!wanted[1]) of_weight.reset();
    return {of_self, wanted[1] ? of_weight.to(weight.scalar_type()) : of_weight};
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
    library.impl("_sparse_mm_reduce_impl", TORCH_FN(mm_reduce));
    library.impl("_sparse_mm_reduce_impl_backward", TORCH_FN(mm_reduce_backward));
}

} // namespace
