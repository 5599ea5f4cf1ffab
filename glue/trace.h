/* Ops without a row that PyTorch can decompose: the request to Python's tracer and the way back to a program. */
#ifndef TPJ_GLUE_TRACE_H
#define TPJ_GLUE_TRACE_H

#include <string>

#include "dispatch.h"
#include "tpj/program.h"

/* The tracer's graph text, "" when there is none. */
std::string tpj_glue_trace(const std::string &request);

/* What the Python extension gave to tpj_glue_set_kernel_writer, as a tpj_kernel_writer. */
tpj_status *tpj_glue_write_kernel(void *context, const char *op, const char *arguments, char **out_text);

/* Tells the Python extension of a program of a captured graph. */
void tpj_glue_watch_program(const char *graph, const char *module, size_t n_module, const tpj_compiled_memory &memory,
                            const tpj_compiled_cost &cost);

/* Runs a functional or out= op by its decomposition; false when it has none that ends in rows. */
bool tpj_glue_run_traced(const tpj_glue_op &op, torch::jit::Stack &stack);

#endif
