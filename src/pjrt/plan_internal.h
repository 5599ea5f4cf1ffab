/* What the files of the planning device share. */
#ifndef TPJ_PJRT_PLAN_INTERNAL_H
#define TPJ_PJRT_PLAN_INTERNAL_H

#include "pjrt/internal.h"
#include "pjrt/plan.h"

/* ---- plan_module.c: the signature of a module ---- */
typedef struct tpj_plan_type {
    int element; /* PJRT's number */
    int rank;
    int64_t *dims;
    int64_t n_bytes; /* on the device */
} tpj_plan_type;

enum { TPJ_PLAN_KEPT = -2, TPJ_PLAN_ANY_OUTPUT = -1 };
typedef struct tpj_plan_signature {
    tpj_plan_type *inputs, *outputs;
    int *donated; /* by input: the output that takes its memory, TPJ_PLAN_ANY_OUTPUT, or TPJ_PLAN_KEPT */
    int n_inputs, n_outputs;
} tpj_plan_signature;

/* Reads the generic form that src/hlo writes. False: it is none, or memory is out. */
bool tpj_plan_parse(const char *module, tpj_plan_signature *out_signature);
void tpj_plan_signature_destroy(tpj_plan_signature *signature);
int64_t tpj_plan_type_bytes(int element, int rank, const int64_t *dims);

/* ---- plan.c: the recording ---- */
typedef struct tpj_plan_record tpj_plan_record; /* of a program; kept until the next tpj_plan_begin */

const tpj_plan_target *tpj_plan_target_get(void);
/* The table of the plugin that computes; NULL: none. */
const pjrt_api *tpj_plan_inner(void);

/* NULL: memory is out, or the module does not parse. */
tpj_plan_record *tpj_plan_add_program(const pjrt_program *program, const char *options, size_t n_options);
const tpj_plan_signature *tpj_plan_record_signature(const tpj_plan_record *record);

/* A buffer as far as the recording knows it. */
typedef struct tpj_plan_memory {
    int device, element;
    int64_t n_bytes;  /* 0 once it was donated */
    uint64_t read_by; /* the number of the last launch that had it as an input */
} tpj_plan_memory;
void tpj_plan_allocate(tpj_plan_memory *memory, tpj_plan_what what);
void tpj_plan_free(tpj_plan_memory *memory);
/* `kept[i]`: input i is not donated, whatever the program says. The memory of donated inputs goes to the outputs. */
void tpj_plan_launch(tpj_plan_record *record, tpj_plan_memory *const *inputs, const bool *kept,
                     tpj_plan_memory *const *outputs);
/* What the device holds, and held at most. */
void tpj_plan_usage(int device, int64_t *out_live, int64_t *out_peak);
/* True: what is read are bools, all true; else zeros. */
bool tpj_plan_read(const tpj_plan_memory *memory);

/* ---- plan_device.c ---- */
const pjrt_api *tpj_plan_api(void);

#endif
