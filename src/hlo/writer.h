/* Inside of the StableHLO writer: how an op's text comes about. For the files of this folder only.
 *
 * An op is written in this order: hlo_open, regions if it has any, hlo_close. A failed builder writes nothing more. */
#ifndef TPJ_HLO_WRITER_H
#define TPJ_HLO_WRITER_H

#include "hlo/hlo.h"

enum { HLO_SPARE_DIMS = 256 };

/* Text to pointer, for what is written once: constants and locations. */
typedef struct hlo_intern_entry {
    uint64_t hash;
    const char *key; /* NULL: free */
    void *value;
} hlo_intern_entry;

typedef struct hlo_parameter_record {
    tpj_value *value;
    bool donated;
    int output;
} hlo_parameter_record;

struct tpj_hlo {
    tpj_arena arena;
    tpj_status *status;          /* the first error */
    bool failed;                 /* stays set after the status was taken */
    tpj_text body;               /* ops of the function */
    tpj_text locations;          /* alias definitions, for the module's end */
    tpj_text aliases, functions; /* of functions that are called (hlo_call): before the module, and in it */
    int n_functions;
    tpj_text scratch; /* attributes of the op being written */
    hlo_parameter_record *parameters;
    int n_parameters, capacity_parameters;
    hlo_intern_entry *interned;
    int n_interned, capacity_interned; /* a power of two */
    int next_id;
    int scope, next_scope;     /* region that is being written, 0 for the function: constants are not shared across */
    int location, n_locations; /* 0: none */
    const char *precision;
    bool float8;  /* the op computes on float8 */
    bool for_cpu; /* see hlo_set_for_cpu */
    int n_slow;   /* see hlo_slow_ops */
    tpj_value poison;
    /* Emission code may look at a poison value's dimensions: both sides of poison.type.dims are valid memory. */
    int64_t poison_dims[2 * HLO_SPARE_DIMS];
    int64_t spare_dims[HLO_SPARE_DIMS]; /* what hlo_dims hands out when memory is out */
};

/* False when the builder has failed, or fails now because an operand is missing. */
bool hlo_ready(tpj_hlo *h, tpj_value *const *operands, int n);
tpj_value *hlo_value(tpj_hlo *h, int id, int result, int n_of, tpj_dtype dtype, int rank, const int64_t *dims);
tpj_type hlo_type(tpj_dtype dtype, int rank, const int64_t *dims);
/* A carried dtype's value as its carrier's, or back: the same bits under another name, and no op. */
tpj_value *hlo_rename(tpj_hlo *h, tpj_value *x, tpj_dtype dtype);
/* Bits of an element: 4 for the sub-byte types. */
int hlo_dtype_bits(tpj_dtype dtype);
bool hlo_same_type(const tpj_type *a, const tpj_type *b);
/* "f32[2,3]" in the arena, for messages. */
const char *hlo_type_string(tpj_hlo *h, const tpj_type *type);

/* Writes `%7 = "name"(%1, %2)` and returns 7. */
int hlo_open(tpj_hlo *h, const char *name, tpj_value *const *operands, int n_operands, int n_results);
void hlo_regions_begin(tpj_hlo *h);
/* Writes one region whose block takes arguments of `types` and must return values of `result_types`. */
void hlo_region(tpj_hlo *h, const tpj_type *types, int n, hlo_body body, void *context, const tpj_type *result_types,
                int n_results);
void hlo_regions_end(tpj_hlo *h);
/* Writes ` {attributes} : (operand types) -> result types` and makes the results. attributes: NULL for none. */
void hlo_close(tpj_hlo *h, int id, const char *attributes, tpj_value *const *operands, int n_operands,
               const tpj_type *types, int n_results, tpj_value **out);

void hlo_write_type(tpj_text *text, const tpj_type *type);
/* Attributes are collected in the scratch text, after the op's regions and right before hlo_close:
 * hlo_attributes_begin, the hlo_attribute_* calls (each puts its own comma), hlo_attributes. */
void hlo_attributes_begin(tpj_hlo *h);
const char *hlo_attributes(const tpj_hlo *h);
/* `name = array<i64: 1, 2>` */
void hlo_attribute_array(tpj_hlo *h, const char *name, const int64_t *values, int n);
/* The same with a value used n times where `values` is NULL. */
void hlo_attribute_array_or(tpj_hlo *h, const char *name, const int64_t *values, int n, int64_t otherwise);
void hlo_attribute_text(tpj_hlo *h, const char *format, ...) TPJ_PRINTF(2, 3);
/* `padding = dense<[[low, high], ..]> : tensor<nx2xi64>`. */
void hlo_attribute_padding(tpj_hlo *h, const int64_t *low, const int64_t *high, int n);
/* Of a contraction of such operands, as the lowering's options say. */
void hlo_attribute_precision(tpj_hlo *h, tpj_dtype operands);

/* The address where `key` keeps its pointer, NULL inside at first. NULL when memory is out. */
void **hlo_intern(tpj_hlo *h, const char *key);

/* Broadcasts rank-0 operands to the others' shape. False (and failed) when shapes or dtypes differ after that. */
bool hlo_match(tpj_hlo *h, const char *name, tpj_value **xs, int n);
/* False (and failed) where the dtypes of x and y differ. */
bool hlo_same_dtypes(tpj_hlo *h, const char *name, const tpj_value *x, const tpj_value *y);
/* An op of n operands whose result has the first one's shape, and `dtype`. */
tpj_value *hlo_op_like(tpj_hlo *h, const char *name, tpj_value *const *xs, int n, tpj_dtype dtype);
/* x combined with y as the reduction `kind` does; fails for an unknown kind. */
tpj_value *hlo_combine(tpj_hlo *h, const char *kind, tpj_value *x, tpj_value *y);
/* The scalar that leaves every value as it is under `kind`. */
tpj_value *hlo_identity(tpj_hlo *h, const char *kind, tpj_dtype dtype);
/* An hlo_body for hlo_combine: the context is the kind. */
void hlo_combine_body(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context);

#endif
