#include <string.h>

#include "base/text.h"
#include "package/internal.h"

/* A plugin may read past the end of a buffer that is not what its program was compiled for: the manifest has to name the
 * types that the module's main function has. The module is as the core's own writer spells it. */

static void spell(const tpj_type *type, tpj_text *out) {
    tpj_text_clear(out);
    tpj_text_add(out, "tensor<");
    for (int k = 0; k < type->rank; k++) tpj_text_printf(out, "%lldx", (long long)type->dims[k]);
    tpj_text_printf(out, "%s>", tpj_dtype_mlir(type->dtype));
}

/* Reads the next "tensor<..>" before `end`, which has to be the type's. */
static bool accept_type(const char **at, const char *end, const tpj_type *type, tpj_text *scratch) {
    static const char word[] = "tensor<";
    while (end - *at >= (ptrdiff_t)sizeof word - 1 && memcmp(*at, word, sizeof word - 1) != 0) ++*at;
    spell(type, scratch);
    if (scratch->failed || (size_t)(end - *at) < scratch->length) return false;
    if (memcmp(*at, scratch->data, scratch->length) != 0) return false;
    *at += scratch->length;
    return true;
}

static bool has_type(const char *at, const char *end) {
    for (; end - at >= 7; at++)
        if (memcmp(at, "tensor<", 7) == 0) return true;
    return false;
}

static const tpj_type *argument_type(const tpj_manifest *m, int i) {
    const tpj_package_argument *argument = &m->arguments[i];
    return argument->is_input ? &m->inputs[argument->index].type : &m->weights[argument->index].type;
}

/* `program` ends with a NUL. */
static tpj_status *check(const tpj_manifest *m, const char *program, tpj_text *scratch) {
    static const char type[] = "function_type = (";
    const char *name = strstr(program, "sym_name = \"main\", sym_visibility"), *at = name;
    while (at > program && at[-1] != '\n') at--;
    if (at != NULL) at = strstr(at, type);
    const char *arrow = at != NULL ? strstr(at, ") -> ") : NULL, *line = name;
    if (arrow == NULL || arrow > line) TPJ_ERROR(TPJ_VALUE, "it has no function main with results");
    for (int i = 0; i < m->n_arguments; i++)
        if (!accept_type(&at, arrow, argument_type(m, i), scratch))
            TPJ_ERROR(TPJ_VALUE, "argument %d is not of the manifest's type", i);
    if (has_type(at, arrow))
        TPJ_ERROR(TPJ_VALUE, "it has more arguments than the manifest, which has %d", m->n_arguments);
    at = arrow;
    for (int i = 0; i < m->n_results; i++)
        if (!accept_type(&at, line, &m->results[i].type, scratch))
            TPJ_ERROR(TPJ_VALUE, "result %d is not of the manifest's type", i);
    int64_t n_checks = m->n_checks;
    const tpj_type found = {TPJ_I64, 1, &n_checks};
    if (n_checks > 0 && !accept_type(&at, line, &found, scratch))
        TPJ_ERROR(TPJ_VALUE, "it has not the %d index checks of the manifest", m->n_checks);
    if (has_type(at, line)) TPJ_ERROR(TPJ_VALUE, "it has more results than the manifest, which has %d", m->n_results);
    return NULL;
}

tpj_status *tpj_package_check_signature(const tpj_manifest *manifest, const char *program) {
    tpj_text scratch = {0};
    tpj_status *status = check(manifest, program, &scratch);
    if (scratch.failed) { /* types could not be compared */
        tpj_status_destroy(status);
        status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
    }
    tpj_text_destroy(&scratch);
    return status;
}
