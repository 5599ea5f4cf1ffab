#include "tpj/dtype.h"

#include <string.h>

static const struct dtype_facts {
    const char *name, *mlir;
    unsigned char bytes, kind;
} facts[] = {
#define TPJ_DTYPE_FACTS(enumerator, name, mlir, bytes, kind) [enumerator] = {name, mlir, bytes, kind},
    TPJ_DTYPES(TPJ_DTYPE_FACTS)
#undef TPJ_DTYPE_FACTS
};
static const struct dtype_facts no_facts = {"invalid", "invalid", 0, TPJ_CLASS_BOOL};

static const struct dtype_facts *facts_of(tpj_dtype dtype) {
    return (unsigned)dtype < TPJ_N_DTYPES ? &facts[dtype] : &no_facts;
}

const char *tpj_dtype_name(tpj_dtype dtype) { return facts_of(dtype)->name; }
const char *tpj_dtype_mlir(tpj_dtype dtype) { return facts_of(dtype)->mlir; }
size_t tpj_dtype_bytes(tpj_dtype dtype) { return facts_of(dtype)->bytes; }
tpj_class tpj_dtype_class(tpj_dtype dtype) { return (tpj_class)facts_of(dtype)->kind; }

tpj_dtype tpj_dtype_carrier(tpj_dtype dtype) {
    if (dtype == TPJ_C32) return TPJ_U32;
    if (!tpj_dtype_is_opaque(dtype)) return dtype;
    return tpj_dtype_bytes(dtype) == 2 ? TPJ_U16 : TPJ_U8;
}

bool tpj_dtype_parse(const char *name, size_t length, tpj_dtype *out_dtype) {
    for (int i = 0; i < TPJ_N_DTYPES; i++)
        if (strlen(facts[i].name) == length && memcmp(facts[i].name, name, length) == 0) {
            *out_dtype = (tpj_dtype)i;
            return true;
        }
    return false;
}
