/* What the glue offers to the Python extension, in C. Everything else that the extension needs comes from the core.
 *
 * Threads: all functions are thread-safe and need no GIL. */
#ifndef TPJ_GLUE_API_H
#define TPJ_GLUE_API_H

#include <stdint.h>

#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device ---- */
/* As tpj_runtime_configure; also makes the device count as available to PyTorch when there is a plugin. */
TPJ_API void tpj_glue_configure(const char *plugin_path, const char *reason_when_none, int n_devices);

/* ---- fallbacks to the CPU, by op, in the order in which they first happened (fallback.cpp) ---- */
TPJ_API int tpj_glue_fallbacks_count(void);
/* "aten::foo.bar"; static. NULL past the end. */
TPJ_API const char *tpj_glue_fallbacks_name(int i);
TPJ_API int64_t tpj_glue_fallbacks_calls(int i);
/* Sets all counts to 0 and forgets the names, so that the next fallback of each op warns again. */
TPJ_API void tpj_glue_fallbacks_reset(void);

#ifdef __cplusplus
}
#endif
#endif
