/* grid_sampler: the emitters of rows that stand in the upsample family. A row's `variant` is the number of dimensions. */
#ifndef TPJ_OPS_GRID_SAMPLER_H
#define TPJ_OPS_GRID_SAMPLER_H

#include "ops/ops.h"

#define TPJ_GRID_SAMPLER "T input, T grid, I interpolation_mode, I padding_mode, B align_corners"
#define TPJ_GRID_SAMPLER_BACKWARD "T grad_output, " TPJ_GRID_SAMPLER ", B[] output_mask"

void tpj_emit_grid_sampler(tpj_emit *e);
void tpj_emit_grid_sampler_backward(tpj_emit *e);

#endif
