/* Leveled log: one line a call, to stderr or to a sink. Nothing is written at the default level (warning) in a normal run.
 *
 * Threads: all functions are thread-safe. The sink is called with no lock held, perhaps by several threads at once. */
#ifndef TPJ_BASE_LOG_H
#define TPJ_BASE_LOG_H

#include <stdbool.h>

#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tpj_log_level { TPJ_LOG_DEBUG, TPJ_LOG_INFO, TPJ_LOG_WARNING, TPJ_LOG_ERROR, TPJ_LOG_OFF } tpj_log_level;

/* `message` has no line end and is valid during the call. */
typedef void (*tpj_log_sink)(void *context, tpj_log_level level, const char *message);

TPJ_API void tpj_log(tpj_log_level level, const char *format, ...) TPJ_PRINTF(2, 3);
/* Whether a message of this level would be written: for messages that cost something to make. */
TPJ_API bool tpj_log_enabled(tpj_log_level level);
TPJ_API void tpj_log_set_level(tpj_log_level least);
/* NULL goes back to stderr. A call that is under way may still use the sink before. */
TPJ_API void tpj_log_set_sink(tpj_log_sink sink, void *context);
/* "warning"; "off" for a number that is no level. */
TPJ_API const char *tpj_log_level_name(tpj_log_level level);

#ifdef __cplusplus
}
#endif
#endif
