/* out= arguments: what is checked before an op runs, and how they take over its results. */
#ifndef TPJ_GLUE_OUT_H
#define TPJ_GLUE_OUT_H

#include "call.h"

/* Raises where an out= tensor is on another device than the operands, or of a dtype that this op does not convert its
 * result to. */
void tpj_glue_check_out(const tpj_glue_call &call, const tpj_program *program);
/* Raises where the op does not convert a result of one dtype to an out= tensor of another. `arguments`: all of the call. */
void tpj_glue_check_conversion(const tpj_glue_op &op, c10::ArrayRef<c10::IValue> arguments, c10::ScalarType result,
                               c10::ScalarType out);
/* The out= tensors take over the results, in order, and become the returns of the call. */
void tpj_glue_take_results(tpj_glue_call &call, const c10::SmallVectorImpl<at::Tensor> &results);

#endif
