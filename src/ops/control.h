/* Graphs inside of ops: the branches of a condition, the bodies of loops. A row holds one as its text (docs/graph_text.md) in
 * an argument of kind Str; src/lower/nested.c writes it into the region that is being written.
 *
 * A nested graph's inputs are arrays. It draws no random numbers, and its indices are not checked: what a check finds would
 * have to leave the region. Belongs to one thread, while its op is emitted. */
#ifndef TPJ_OPS_CONTROL_H
#define TPJ_OPS_CONTROL_H

#include "ops/ops.h"

typedef struct tpj_nested tpj_nested;

/* The graph in the argument `name`. NULL after failing the op. */
tpj_nested *tpj_nested_open(tpj_emit *e, const char *name);
void tpj_nested_close(tpj_nested *nested); /* NULL is allowed */
int tpj_nested_n_results(const tpj_nested *nested);
/* The type that the text gives for a result; dtype TPJ_N_DTYPES where it gives none. */
tpj_type tpj_nested_result_type(const tpj_nested *nested, int i);
/* Writes the graph, with a value for each of its inputs. `out`: its n results; after a failure they stay as they are. */
void tpj_nested_emit(const tpj_nested *nested, tpj_value *const *inputs, int n_inputs, tpj_value **out);

#endif
