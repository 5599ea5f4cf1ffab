/* Programs: a graph compiled on a client, and run there on buffers and numbers.
 *
 *     tpj_plugin_open("plugin.so", false, &plugin);
 *     tpj_client_create(plugin, 0, &client);
 *     tpj_graph_parse(text, strlen(text), &graph);
 *     tpj_program_create(client, graph, NULL, &program);
 *     tpj_program_run(program, 0, feeds, n_feeds, NULL, outputs);
 *     tpj_buffer_to_host(outputs[0], data, tpj_program_result(program, 0)->n_bytes);
 *
 * examples/c/run.c is the whole of it. A program that is to be compiled and not run goes through tpj/lower.h to
 * tpj_topology_compile.
 *
 * Threads: a program is immutable and counted: any thread may run, retain or release it. */
#ifndef TPJ_PROGRAM_H
#define TPJ_PROGRAM_H

#include <stdint.h>

#include "tpj/graph.h"
#include "tpj/lower.h"
#include "tpj/pjrt.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpj_program tpj_program;

/* One result of a program: its type, its strides and the shape of the buffer that holds it. See tpj/lower.h. */
typedef tpj_lowered_result tpj_result;

/* Lowers the graph (its outputs, or all results of its last node where it has none) and compiles it for any one device of
 * the client, which must outlive the program. Takes nothing: the graph may be destroyed. NULL options are the defaults.
 * Errors: those of tpj_lower_graph, TPJ_DEVICE when the compiler refuses the module. */
TPJ_API tpj_status *tpj_program_create(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                                       tpj_program **out_program) TPJ_MUST_USE;
/* The same, with options for the compiler: one portable program's. NULL: its defaults. */
TPJ_API tpj_status *tpj_program_compile(tpj_client *client, const tpj_graph *graph, const tpj_lower_options *options,
                                        const tpj_compile_options *compiler, tpj_program **out_program) TPJ_MUST_USE;
TPJ_API void tpj_program_retain(tpj_program *program);
TPJ_API void tpj_program_release(tpj_program *program); /* NULL is allowed */

/* One result for each output of the graph, in its order. Borrowed from the program. */
TPJ_API int tpj_program_n_results(const tpj_program *program);
TPJ_API const tpj_result *tpj_program_result(const tpj_program *program, int i);
/* How far a run advances the random state's offset; 0: it draws nothing. */
TPJ_API uint64_t tpj_program_random_count(const tpj_program *program);

/* What the compiler says of the program; waits for it to be compiled. */
TPJ_API tpj_status *tpj_program_stats(tpj_program *program, tpj_compiled_memory *out_memory,
                                      tpj_compiled_cost *out_cost) TPJ_MUST_USE;

/* What one input of the graph gets at a run. */
typedef struct tpj_feed {
    tpj_buffer *buffer; /* `input`: an array on the device, of the input's own type; borrowed. NULL otherwise */
    tpj_number number;  /* `scalar`: converted to the dtype that the program wants it in, as a C cast does */
} tpj_feed;

/* Launches on a device of the client and returns before the work ends (reading an output waits for it).
 *
 * `feeds`: one for each input of the graph. That of an input with `same=` has no meaning, its buffer is that of the earlier
 * input; neither has that of the random state, which is `random`: seed and offset, NULL for a program that draws nothing.
 * The next run that is to draw other numbers adds tpj_program_random_count to the offset.
 *
 * `outputs` receives tpj_program_n_results new buffers that the caller owns, NULL for a result that is none. On error
 * nothing is written to it. A buffer that the graph writes to is consumed, also by a launch that fails: it may only be
 * released, and the result with that target is what took its place. While a run consumes a buffer no other thread may use it.
 *
 * A program that checks indices (tpj_lower_options.check_index) is waited for.
 *
 * A scalar that gives the offset of a view (`given=`) has to be an offset that the view was planned for, see tpj_floating.
 *
 * Errors: TPJ_TYPE and TPJ_VALUE when feeds do not fit, naming the input; TPJ_INDEX for an index out of range;
 * TPJ_DEVICE from the plugin. */
TPJ_API tpj_status *tpj_program_run(tpj_program *program, int device, const tpj_feed *feeds, int n_feeds,
                                    const uint64_t random[2], tpj_buffer **outputs) TPJ_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
