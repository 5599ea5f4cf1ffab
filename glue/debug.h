/* Debug mode: what an operator reads and makes is looked at, and errors come with the program. */
#ifndef TPJ_GLUE_DEBUG_H
#define TPJ_GLUE_DEBUG_H

#include "dispatch.h"

bool tpj_glue_is_debug_mode();
/* NaN or infinities, where the settings check_nan and check_inf ask for it: in tensor operands of a call before its launch,
 * in its results behind it. Waits. An error names the operand or result. */
tpj_status *tpj_glue_check_operands(const tpj_glue_operands &call, const tpj_program *program) TPJ_MUST_USE;
tpj_status *tpj_glue_check_results(const tpj_glue_operands &call, const tpj_program *program,
                                   const tpj_glue_storages &storages) TPJ_MUST_USE;
/* Adds the file that now holds the program's StableHLO. Takes and gives the status. */
tpj_status *tpj_glue_add_module(tpj_status *status, const tpj_program *program) TPJ_MUST_USE;

#endif
