/* The two questions that only Python can answer. The glue itself does not link Python. */
#include <atomic>
#include <cstdlib>

#include "api.h"
#include "dispatch.h"
#include "trace.h"

namespace {
std::atomic<tpj_glue_line_finder> line_finder{nullptr};
std::atomic<tpj_glue_tracer> tracer{nullptr};
} // namespace

void tpj_glue_set_line_finder(tpj_glue_line_finder finder) { line_finder.store(finder); }
void tpj_glue_set_tracer(tpj_glue_tracer given) { tracer.store(given); }

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
