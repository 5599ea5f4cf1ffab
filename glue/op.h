/* One registered ATen overload: how its schema maps to a row of the op table, decided once at load. */
#ifndef TPJ_GLUE_OP_H
#define TPJ_GLUE_OP_H

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <vector>

#include "glue.h"
#include "ir/params.h"

struct tpj_glue_parameter {
    tpj_param param;
    int index;     /* of the schema's argument; -1: this form of the op does not have it */
    bool from_out; /* a dtype that the out= tensor says where the call does not: factories, sums, products, means */
};

/* How a form of an op gives back its results. */
enum class tpj_glue_form {
    functional,
    inplace, /* results go into the arguments that the schema marks as written */
    out      /* a functional call whose results the out= arguments take over */
};

struct tpj_glue_op {
    tpj_glue_op(const c10::OperatorHandle &handle, const tpj_op_def *row, tpj_glue_form form);

    const c10::OperatorHandle handle;
    const tpj_op_def *row; /* NULL: no row; the op goes by decomposition or the CPU */
    tpj_glue_form form;
    std::string name; /* "add.Tensor" */
    std::vector<tpj_glue_parameter> parameters;
    std::vector<int> written;      /* schema arguments that results go into, in order */
    std::vector<int> return_alias; /* per schema return: the argument that it is, -1: a new value */
    int n_new_returns;             /* returns that are new values */
    int n_arguments;
    int generator_argument, device_argument, check_errors_argument; /* -1: none */
    bool uses_precision;   /* contracts: torch.set_float32_matmul_precision counts */
    bool writes_lists;     /* in place, on lists of tensors */
    bool makes_alike;      /* zeros_like and its kin: the operand's values are not read */
    bool prepares_indices; /* index.Tensor and its kin: masks become positions first */
};

/* The functional overload with the arguments of a writing form (out= arguments left out); nothing when there is none. */
std::optional<c10::OperatorHandle> tpj_glue_functional_twin(const c10::OperatorHandle &handle);
/* The row that serves an overload, and the form; nullptr when none does. */
const tpj_op_def *tpj_glue_find_row(const c10::OperatorHandle &handle, tpj_glue_form *out_form);

#endif
