/* The questions that only Python can answer. The glue itself does not link Python. */
#include <atomic>
#include <cstdlib>

#include "api.h"
#include "dispatch.h"
#include "trace.h"

namespace {
std::atomic<tpj_glue_line_finder> line_finder{nullptr};
std::atomic<tpj_glue_tracer> tracer{nullptr};
std::atomic<tpj_kernel_writer> kernel_writer{nullptr};
std::atomic<tpj_glue_program_watcher> program_watcher{nullptr};
} // namespace

void tpj_glue_set_line_finder(tpj_glue_line_finder finder) { line_finder.store(finder); }
void tpj_glue_set_tracer(tpj_glue_tracer given) { tracer.store(given); }

void tpj_glue_set_program_watcher(tpj_glue_program_watcher watcher) { program_watcher.store(watcher); }

void tpj_glue_watch_program(const char *graph, const char *module, size_t n_module, const tpj_compiled_memory &memory,
                            const tpj_compiled_cost &cost) {
    const tpj_glue_program_watcher watch = program_watcher.load(std::memory_order_relaxed);
    if (watch != nullptr) watch(graph, module, n_module, &memory, &cost);
}

void tpj_glue_set_kernel_writer(tpj_kernel_writer writer) { kernel_writer.store(writer); }

tpj_status *tpj_glue_write_kernel(void *context, const char *op, const char *arguments, char **out_text) {
    const tpj_kernel_writer write = kernel_writer.load(std::memory_order_relaxed);
    if (write == nullptr) return tpj_status_create(TPJ_INTERNAL, "%s: nobody writes its StableHLO", op);
    return write(context, op, arguments, out_text);
}

bool tpj_glue_user_line(std::string *out_file, int *out_line) {
    const tpj_glue_line_finder finder = line_finder.load(std::memory_order_relaxed);
    char file[1024];
    if (finder == nullptr || finder(file, sizeof file, out_line) == 0) return false;
    *out_file = file;
    return true;
}

std::string tpj_glue_trace(const std::string &request) {
    const tpj_glue_tracer trace = tracer.load(std::memory_order_relaxed);
    char *text = trace != nullptr ? trace(request.c_str()) : nullptr;
    std::string graph = text != nullptr ? text : "";
    std::free(text);
    return graph;
}
