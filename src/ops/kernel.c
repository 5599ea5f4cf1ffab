/* Ops of the user's own: rows that are made at run time, whose StableHLO somebody else writes as text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ir/params.h"
#include "ops/ops.h"

enum { MOST_RESULTS = 64, MOST_OPERANDS = 256 };

typedef struct kernel {
    tpj_op_def row; /* first: an emitter knows the row alone */
    tpj_kernel_writer writer;
    void *context;
} kernel;

typedef struct request {
    tpj_emit *e;
    tpj_text text;
    tpj_value *operands[MOST_OPERANDS];
    int n_operands;
} request;

/* ---- the arguments as JSON ---- */

static void add_float(tpj_text *text, double value) {
    if (!isfinite(value)) {
        tpj_text_printf(text, "{\"float\": \"%s\"}", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    char digits[32];
    snprintf(digits, sizeof digits, "%.17g", value);
    tpj_text_printf(text, strpbrk(digits, ".e") != NULL ? "%s" : "%s.0", digits); /* a float when it is read */
}

static void add_tensor(request *r, tpj_value *value) {
    if (value == NULL) {
        tpj_text_add(&r->text, "null");
        return;
    }
    if (r->n_operands == MOST_OPERANDS) {
        tpj_fail(r->e, TPJ_VALUE, "more than %d tensors", MOST_OPERANDS);
        return;
    }
    r->operands[r->n_operands++] = value;
    tpj_text_printf(&r->text, "{\"dtype\": \"%s\", \"sizes\": [", tpj_dtype_name(value->type.dtype));
    tpj_text_integers(&r->text, value->type.dims, (size_t)value->type.rank);
    tpj_text_add(&r->text, "]}");
}

static void add_list(request *r, const tpj_param *param, const char *name) {
    int n = 0;
    tpj_value **values = NULL;
    const int64_t *integers = NULL;
    const double *floats = NULL;
    const bool *bools = NULL;
    switch (param->kind) {
        case TPJ_PARAM_TENSOR: values = tpj_in_list(r->e, name, &n); break;
        case TPJ_PARAM_INT: integers = tpj_ints(r->e, name, &n); break;
        case TPJ_PARAM_BOOL: bools = tpj_bools(r->e, name, &n); break;
        default: floats = tpj_floats(r->e, name, &n); break;
    }
    tpj_text_add(&r->text, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) tpj_text_add(&r->text, ", ");
        if (values != NULL) add_tensor(r, values[i]);
        if (integers != NULL) tpj_text_printf(&r->text, "%" PRId64, integers[i]);
        if (bools != NULL) tpj_text_add(&r->text, bools[i] ? "true" : "false");
        if (floats != NULL) add_float(&r->text, floats[i]);
    }
    tpj_text_add(&r->text, "]");
}

static void add_argument(request *r, const tpj_param *param, const char *name) {
    const char *string;
    if (!tpj_has(r->e, name)) {
        tpj_text_add(&r->text, "null");
    } else if (param->list) {
        add_list(r, param, name);
    } else {
        switch (param->kind) {
            case TPJ_PARAM_TENSOR: add_tensor(r, tpj_in(r->e, name)); break;
            case TPJ_PARAM_INT: tpj_text_printf(&r->text, "%" PRId64, tpj_int(r->e, name, 0)); break;
            case TPJ_PARAM_BOOL: tpj_text_add(&r->text, tpj_bool(r->e, name, false) ? "true" : "false"); break;
            case TPJ_PARAM_DTYPE:
                tpj_text_printf(&r->text, "{\"dtype\": \"%s\"}", tpj_dtype_name(tpj_dtype_of(r->e, name, TPJ_F32)));
                break;
            case TPJ_PARAM_STRING:
                string = tpj_string(r->e, name, "");
                tpj_text_json(&r->text, string, strlen(string));
                break;
            default: add_float(&r->text, tpj_float(r->e, name, 0)); break;
        }
    }
}

static void add_arguments(request *r, const char *params) {
    tpj_text_add(&r->text, "{");
    bool first = true;
    for (tpj_param param; tpj_param_next(&params, &param); first = false) {
        char *name = TPJ_ARENA_ARRAY(hlo_arena(tpj_builder(r->e)), char, param.name_length + 1);
        if (name == NULL) return;
        memcpy(name, param.name, param.name_length);
        if (!first) tpj_text_add(&r->text, ", ");
        tpj_text_json(&r->text, name, param.name_length);
        tpj_text_add(&r->text, ": ");
        add_argument(r, &param, name);
    }
    tpj_text_add(&r->text, "}");
}

/* ---- emission ---- */

static void emit_kernel(tpj_emit *e) {
    const kernel *k = (const kernel *)tpj_row(e);
    request r = {.e = e};
    add_arguments(&r, k->row.params);
    char *text = NULL;
    tpj_status *status = NULL;
    if (r.text.failed)
        tpj_fail(e, TPJ_OUT_OF_MEMORY, "out of host memory");
    else if (!hlo_failed(tpj_builder(e)))
        status = k->writer(k->context, k->row.name, tpj_text_string(&r.text), &text);
    tpj_text_destroy(&r.text);
    if (status != NULL) {
        tpj_fail(e, tpj_status_code(status), "its StableHLO: %s", tpj_status_message(status));
        tpj_status_destroy(status);
    } else if (text != NULL) {
        tpj_value *results[MOST_RESULTS];
        int n = hlo_call(tpj_builder(e), text, r.operands, r.n_operands, results, MOST_RESULTS);
        for (int i = 0; i < n; i++) tpj_out(e, results[i]);
    }
    free(text);
}

static char *copy_of(const char *string) {
    char *copy = malloc(strlen(string) + 1);
    return copy != NULL ? strcpy(copy, string) : NULL;
}

static tpj_status *check_params(const char *name, const char *params) {
    const char *cursor = params;
    for (tpj_param param; tpj_param_next(&cursor, &param);)
        if (param.kind == TPJ_PARAM_SCALAR || param.kind == TPJ_PARAM_RUN_FLOAT || param.kind == TPJ_PARAM_GENERATOR ||
            param.kind == TPJ_PARAM_MEMORY_FORMAT || param.floats)
            TPJ_ERROR(TPJ_VALUE, "%s: the parameter %.*s is of a kind that StableHLO text cannot have", name,
                      (int)param.name_length, param.name);
    if (*cursor != '\0') TPJ_ERROR(TPJ_VALUE, "%s: the parameters cannot be read from '%s'", name, cursor);
    return NULL;
}

tpj_status *tpj_op_register(const char *name, const char *params, tpj_kernel_writer writer, void *context,
                            const tpj_op_def **out_op) {
    TPJ_TRY(check_params(name, params));
    tpj_status *status = NULL;
    kernel *k = calloc(1, sizeof *k);
    char *own_name = copy_of(name), *own_params = copy_of(params);
    if (k == NULL || own_name == NULL || own_params == NULL) {
        status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
        goto done;
    }
    *k = (kernel){
        .row = {.name = own_name, .params = own_params, .emit = emit_kernel}, .writer = writer, .context = context};
    TPJ_TRY_GOTO(tpj_op_add(&k->row));
    *out_op = &k->row;
    k = NULL, own_name = NULL, own_params = NULL;
done:
    free(k);
    free(own_name);
    free(own_params);
    return status;
}
