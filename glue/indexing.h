/* What advanced indexing needs before its row can run. */
#ifndef TPJ_GLUE_INDEXING_H
#define TPJ_GLUE_INDEXING_H

#include <ATen/core/stack.h>

#include "op.h"

/* Replaces masks (bool, uint8) among the indices by the positions of their true elements, and moves CPU indices to the
 * device, in place on the stack. True when the call was carried out as a masked fill and its returns are on the stack. */
bool tpj_glue_prepare_indices(const tpj_glue_op &op, torch::jit::Stack &stack);

#endif
