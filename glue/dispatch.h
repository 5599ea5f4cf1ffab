/* Running ops: the one boxed kernel behind every registered overload, and what the files with hand-written kernels
 * (factories, copies) call it for. */
#ifndef TPJ_GLUE_DISPATCH_H
#define TPJ_GLUE_DISPATCH_H

#include "call.h"

/* Runs a call of an op with a row; replaces the stack's arguments by the returns. */
void tpj_glue_run(const tpj_glue_op &op, torch::jit::Stack &stack);
/* In place on lists (foreach.cpp): where elements depend on each other, one run for each; and as it stands. */
void tpj_glue_run_on_lists(const tpj_glue_op &op, torch::jit::Stack &stack);
void tpj_glue_run_once(const tpj_glue_op &op, torch::jit::Stack &stack);
/* Runs an op without a row: PyTorch's decomposition where there is one, else the CPU (fallback.cpp). */
void tpj_glue_fall_back(const tpj_glue_op &op, torch::jit::Stack &stack);
/* Runs an op on the CPU: counted, and an error where the user turned that off. Takes tensors of every layout. */
void tpj_glue_run_on_cpu(const tpj_glue_op &op, torch::jit::Stack &stack);
/* Launches a program for a call and replaces the stack's arguments by its results (functional forms). */
void tpj_glue_run_program(tpj_glue_call &call, tpj_program *program);
/* Launches: a new storage for each result that is one, NULL for the others. `generator`: whose state programs that draw
 * take, NULL for the device's own. Raises with the user's line. */
using tpj_glue_storages = c10::SmallVector<tpj_storage *, 8>;
tpj_glue_storages tpj_glue_launch(const tpj_glue_operands &call, tpj_program *program, c10::GeneratorImpl *generator);
/* A dense tensor over a new storage. */
at::Tensor tpj_glue_make_tensor(tpj_storage *storage, const tpj_type &type, const int64_t *strides);
/* The registered op behind an overload name ("copy_"); an internal error when it has no row. */
const tpj_glue_op &tpj_glue_registered(const char *name, const char *overload);

/* ---- installed by the Python extension; the glue works without them ---- */
/* The innermost line of the calling thread's Python stack that is not PyTorch's or ours: false when there is none. */
bool tpj_glue_user_line(std::string *out_file, int *out_line);

#endif
