/* Least squares: the solution of least norm that minimises |A X - B|.
 *
 * The driver gels takes A to have full rank, and goes by QR; the others go by the singular values, of which those above
 * rcond * the largest count. (LAPACK's gelsy estimates the rank from a QR with pivoting; where it lies near rcond, the two may
 * differ.) */
#include <string.h>

#include "ops/svd.h"

typedef struct lstsq {
    tpj_value *a, *b;   /* [batch, m, n], [batch, m, k] */
    const char *driver; /* without the prefix "gels" */
    bool vector;        /* B was [.., m] */
    tpj_value *given;   /* A before its batch dimensions were broadcast to B's: has those of rank and singular values */
    tpj_value *like;    /* B with A's batch dimensions broadcast into it: has the batch dimensions of the solution */
} lstsq;

static bool by_singular_values(const lstsq *problem) { return problem->driver[0] == 's' || problem->driver[0] == 'd'; }

/* B counts as vectors when it has one dimension, or A's batch dimensions and one more. */
static bool is_vector(tpj_type a, tpj_type b) {
    return b.rank == 1 || (b.rank == a.rank - 1 && memcmp(a.dims, b.dims, sizeof *a.dims * (size_t)b.rank) == 0);
}

static bool read_driver(tpj_emit *e, lstsq *out) {
    static const char *const drivers[] = {"gelsy", "gelsd", "gelss", "gels"};
    const char *name = tpj_string(e, "driver", drivers[0]);
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, drivers[i]) != 0) continue;
        out->driver = drivers[i] + 4;
        return true;
    }
    tpj_fail(e, TPJ_RUNTIME, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
    return false;
}

static bool read_lstsq(tpj_emit *e, lstsq *out) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *a = tpj_in(e, "self"), *b = tpj_in(e, "b");
    if (a->type.rank < 2) {
        tpj_fail(e, TPJ_RUNTIME, "torch.linalg.lstsq: input must have at least 2 dimensions.");
        return false;
    }
    if (!read_driver(e, out) || !tpj_is_matrix(e, a, false)) return false;
    if (b->type.rank == 0 || a->type.dtype != b->type.dtype) {
        tpj_fail(e, TPJ_RUNTIME,
                 b->type.rank == 0 ? "torch.linalg.lstsq: other must have at least 1 dimension."
                                   : "torch.linalg.lstsq: Expected input and other to have the same dtype, but got "
                                     "input's dtype %s and other's dtype %s",
                 tpj_dtype_torch_name(a->type.dtype), tpj_dtype_torch_name(b->type.dtype));
        return false;
    }
    out->vector = is_vector(a->type, b->type);
    if (out->vector) b = hlo_unsqueeze(h, b, b->type.rank);
    if (hlo_dim(a, -2) != hlo_dim(b, -2)) {
        tpj_fail(e, TPJ_RUNTIME, "torch.linalg.lstsq: input.size(-2) should match other.size(%d)",
                 out->vector ? -1 : -2);
        return false;
    }
    if (a->type.rank != b->type.rank) {
        tpj_fail(e, TPJ_RUNTIME,
                 "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - "
                 "other.dim()) <= 1");
        return false;
    }
    out->given = a;
    if (!tpj_broadcast_batches(e, &a, &b)) return false;
    out->like = b;
    out->a = tpj_flat_batch(h, a);
    out->b = tpj_flat_batch(h, b);
    return !hlo_failed(h);
}

/* The solution for A of full rank: of R X = Q^H B for A = Q R, or of least norm, X = Q R^-H B for A^H = Q R. */
static tpj_value *solve_by_qr(tpj_emit *e, tpj_value *a, tpj_value *b) {
    tpj_hlo *h = tpj_builder(e);
    int64_t m = hlo_dim(a, 1), n = hlo_dim(a, 2), k = m < n ? m : n;
    tpj_dtype dtype = a->type.dtype;
    tpj_value *packed[2];
    tpj_reflect(h, m >= n ? a : tpj_transposed(h, a, true), packed);
    tpj_value *q = tpj_product_of_reflectors(h, packed[0], packed[1], k), *r = tpj_first_rows(h, packed[0], k);
    tpj_value *diagonal = tpj_diagonals(h, r);
    tpj_check(
        e, hlo_compare(h, "EQ", diagonal, hlo_number(h, dtype, 0)),
        "torch.linalg.lstsq: The least squares solution could not be computed because the input matrix does not have "
        "full rank.");
    if (m < n) return hlo_matmul(h, q, hlo_triangular_solve(h, r, b, true, false, false, "ADJOINT"), dtype);
    b = hlo_matmul(h, tpj_transposed(h, q, true), b, dtype);
    return hlo_triangular_solve(h, r, b, true, false, false, "NO_TRANSPOSE");
}

/* The singular values above rcond times the largest, as a mask. */
static tpj_value *values_that_count(tpj_emit *e, const lstsq *problem, tpj_value *s) {
    tpj_hlo *h = tpj_builder(e);
    if (hlo_elements(s) == 0) return hlo_zeros(h, TPJ_BOOL, 2, s->type.dims);
    int64_t m = hlo_dim(problem->a, 1), n = hlo_dim(problem->a, 2);
    double epsilon = s->type.dtype == TPJ_F64 ? 0x1p-52 : 0x1p-23;
    tpj_value *rcond = tpj_scalar_or(e, "rcond", s->type.dtype, epsilon * (double)(m > n ? m : n));
    tpj_value *limit = hlo_mul(h, hlo_slice_dim(h, s, 1, 0, 1, 1), rcond);
    return hlo_compare(h, "GT", s, hlo_expand(h, limit, 2, s->type.dims));
}

/* V S^+ U^H B */
static tpj_value *solve_by_svd(tpj_hlo *h, const tpj_svd *svd, tpj_value *counts, tpj_value *b) {
    tpj_dtype dtype = b->type.dtype, real = svd->s->type.dtype;
    tpj_value *one = hlo_number(h, real, 1), *zero = hlo_number(h, real, 0);
    tpj_value *inverse = hlo_select(h, counts, hlo_div(h, one, hlo_select(h, counts, svd->s, one)), zero);
    tpj_value *x = tpj_scale_each(h, hlo_matmul(h, tpj_transposed(h, svd->u, true), b, dtype), inverse, 1);
    return hlo_matmul(h, tpj_transposed(h, svd->vh, true), x, dtype);
}

/* What the drivers but gels tell of A: its rank, and, those by singular values, these. */
static void out_rank_and_values(tpj_emit *e, const lstsq *problem, const tpj_svd *svd) {
    tpj_hlo *h = tpj_builder(e);
    tpj_dtype real = hlo_real_dtype(problem->a->type.dtype);
    if (problem->driver[0] == '\0') {
        tpj_out_empty(e, TPJ_I64);
        tpj_out_empty(e, real);
        return;
    }
    tpj_value *s = svd->s, *a = tpj_flat_batch(h, problem->given);
    if (hlo_dim(a, 0) != hlo_dim(s, 0)) s = tpj_svd_of(h, a, false, false).s;
    tpj_value *counts = hlo_convert(h, values_that_count(e, problem, s), TPJ_I64);
    tpj_out(e, tpj_unflat_batch(h, hlo_reduce_dim(h, "add", counts, 1), problem->given));
    if (by_singular_values(problem)) {
        tpj_out(e, tpj_unflat_batch(h, s, problem->given));
    } else {
        tpj_out_empty(e, real);
    }
}

/* |A X - B|^2 of each column: [batch, k] */
static tpj_value *residuals_of(tpj_hlo *h, const lstsq *problem, tpj_value *x) {
    tpj_value *size = hlo_abs(h, hlo_sub(h, hlo_matmul(h, problem->a, x, x->type.dtype), problem->b));
    return hlo_reduce_dim(h, "add", hlo_mul(h, size, size), 1);
}

/* Whether there are residuals: of matrices that are tall, and, where the driver tells ranks, all of full rank. */
static void count_lstsq(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    lstsq problem;
    if (!read_lstsq(e, &problem)) return;
    tpj_value *a = problem.a;
    bool tall = hlo_dim(a, 1) > hlo_dim(a, 2) && problem.driver[0] != 'y';
    if (!tall || !by_singular_values(&problem) || hlo_elements(a) == 0) {
        tpj_out(e, hlo_integer(h, TPJ_I64, tall));
        return;
    }
    tpj_svd svd = tpj_svd_of(h, a, false, false);
    tpj_out_as(e, hlo_reduce_all(h, "and", values_that_count(e, &problem, svd.s)), TPJ_I64);
}

static void emit_lstsq(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    lstsq problem;
    if (!read_lstsq(e, &problem)) return;
    tpj_dtype dtype = problem.a->type.dtype;
    tpj_value *x;
    tpj_svd svd = {0};
    if (problem.driver[0] != '\0') svd = tpj_svd_of(h, problem.a, false, true);
    if (hlo_elements(problem.a) == 0) {
        int64_t dims[] = {hlo_dim(problem.a, 0), hlo_dim(problem.a, 2), hlo_dim(problem.b, 2)};
        x = hlo_zeros(h, dtype, 3, dims);
    } else if (problem.driver[0] == '\0') {
        x = solve_by_qr(e, problem.a, problem.b);
    } else {
        x = solve_by_svd(h, &svd, values_that_count(e, &problem, svd.s), problem.b);
    }
    tpj_value *solution = tpj_unflat_batch(h, x, problem.like);
    tpj_out_columns(e, problem.vector ? hlo_squeeze(h, solution, solution->type.rank - 1) : solution);
    if (tpj_size(e, 0) != 0) {
        tpj_out(e, tpj_unflat_batch(h, residuals_of(h, &problem, x), problem.like));
    } else {
        tpj_out_empty(e, hlo_real_dtype(dtype));
    }
    out_rank_and_values(e, &problem, &svd);
}

const tpj_op_def tpj_ops_lstsq[] = {
    {.name = "linalg_lstsq",
     .params = "T self, T b, F~? rcond=None, Str? driver",
     .emit = emit_lstsq,
     .count = count_lstsq,
     .flags = TPJ_OP_SIZED},
    {0},
};
