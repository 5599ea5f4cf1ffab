#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/lock.h"

static atomic_int least_level = TPJ_LOG_WARNING;
static tpj_lock sink_lock = TPJ_LOCK_INIT(TPJ_RANK_LOG, "log");
static tpj_log_sink current_sink; /* NULL: stderr */
static void *current_context;

const char *tpj_log_level_name(tpj_log_level level) {
    static const char *const names[] = {"debug", "info", "warning", "error", "off"};
    return (unsigned)level < TPJ_LOG_OFF ? names[level] : names[TPJ_LOG_OFF];
}

static void write_to_stderr(tpj_log_level level, const char *message) {
    fprintf(stderr, "torch_pjrt %s: %s\n", tpj_log_level_name(level), message);
}

void tpj_log_set_level(tpj_log_level least) { atomic_store_explicit(&least_level, (int)least, memory_order_relaxed); }

bool tpj_log_enabled(tpj_log_level level) {
    return level < TPJ_LOG_OFF && (int)level >= atomic_load_explicit(&least_level, memory_order_relaxed);
}

void tpj_log_set_sink(tpj_log_sink sink, void *context) {
    tpj_lock_acquire(&sink_lock);
    current_sink = sink;
    current_context = context;
    tpj_lock_release(&sink_lock);
}

void tpj_log(tpj_log_level level, const char *format, ...) {
    if (!tpj_log_enabled(level)) return;
    char message[2048]; /* longer ones are cut: logging allocates nothing */
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    tpj_lock_acquire(&sink_lock);
    tpj_log_sink sink = current_sink;
    void *context = current_context;
    tpj_lock_release(&sink_lock);
    if (sink != NULL)
        sink(context, level, message);
    else
        write_to_stderr(level, message);
}
