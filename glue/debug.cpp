#include "debug.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>

#include <algorithm>
#include <string_view>

#include "base/config.h"

namespace {

thread_local bool checking = false; /* reading a view runs an operator itself */

struct Checking {
    Checking() { checking = true; }
    ~Checking() { checking = false; }
    Checking(const Checking &) = delete;
    Checking &operator=(const Checking &) = delete;
};

bool is_wanted() { return !checking && (tpj_config_check_nan() || tpj_config_check_inf()); }

bool has_values(c10::ScalarType type) {
    return (at::isFloatingType(type) || at::isComplexType(type)) && type != at::kFloat4_e2m1fn_x2;
}

/* These exist to be given NaN. */
bool expects_nan(std::string_view description) {
    static constexpr std::string_view names[] = {"isnan(",    "isinf(",      "isposinf(",
                                                 "isneginf(", "nan_to_num(", "nansum("};
    return std::any_of(std::begin(names), std::end(names),
                       [&](std::string_view name) { return description.substr(0, name.size()) == name; });
}

tpj_status *check_values(const at::Tensor &on_cpu, const char *what, int index, const tpj_program *program) {
    const bool small = on_cpu.element_size() == 1 || on_cpu.scalar_type() == at::kComplexHalf;
    const at::Tensor values =
        !small ? on_cpu
               : on_cpu.to(on_cpu.is_complex() ? at::kComplexFloat : at::kFloat); /* the CPU knows more of these */
    const int64_t n_nan = tpj_config_check_nan() ? at::isnan(values).sum().item<int64_t>() : 0;
    const int64_t n_inf = tpj_config_check_inf() ? at::isinf(values).sum().item<int64_t>() : 0;
    if (n_nan + n_inf == 0) return nullptr;
    return tpj_status_create(TPJ_RUNTIME, "%s: %s %d has %lld %s among its %lld elements",
                             tpj_eager_description(program), what, index,
                             static_cast<long long>(n_nan > 0 ? n_nan : n_inf), n_nan > 0 ? "NaN" : "infinities",
                             static_cast<long long>(values.numel()));
}

} // namespace

bool tpj_glue_is_debug_mode() { return tpj_config_eager_mode()[0] == 'd'; }

tpj_status *tpj_glue_check_operands(const tpj_glue_operands &call, const tpj_program *program) {
    if (!is_wanted() || expects_nan(tpj_eager_description(program))) return nullptr;
    const Checking guard;
    int index = 0;
    for (const at::Tensor *tensor : call.tensors()) {
        const int at = index++;
        if (tensor == nullptr || !tensor->is_privateuseone() || !has_values(tensor->scalar_type())) continue;
        tpj_status *status = check_values(tensor->detach().cpu(), "operand", at, program);
        if (status != nullptr) return status;
    }
    return nullptr;
}

tpj_status *tpj_glue_check_results(const tpj_glue_operands &call, const tpj_program *program,
                                   const tpj_glue_storages &storages) {
    if (!is_wanted()) return nullptr;
    const Checking guard;
    for (size_t i = 0; i < storages.size(); i++) {
        const tpj_result *result = tpj_program_result(program, static_cast<int>(i));
        if (result->none) continue;
        const c10::ScalarType type = scalar_type_of(result->type.dtype);
        if (!has_values(type)) continue;
        tpj_storage *storage =
            storages[i] != nullptr ? storages[i] : call.operands()[static_cast<size_t>(result->target)].storage;
        const size_t n_bytes = tpj_storage_bytes(storage); /* all of it: where a view was written, of its base */
        std::vector<char> bytes(n_bytes);
        if (tpj_status *status = tpj_storage_to_host(storage, 0, bytes.data(), n_bytes)) return status;
        const auto n = static_cast<int64_t>(n_bytes / c10::elementSize(type));
        tpj_status *status =
            check_values(at::from_blob(bytes.data(), {n}, type), "result", static_cast<int>(i), program);
        if (status != nullptr) return status;
    }
    return nullptr;
}

tpj_status *tpj_glue_add_module(tpj_status *status, const tpj_program *program) {
    char path[4096];
    if (!tpj_eager_write_module(program, path, sizeof path)) return status;
    tpj_status *extended = tpj_status_create(tpj_status_code(status), "%s\n  StableHLO of the program: %s",
                                             tpj_status_message(status), path);
    tpj_status_destroy(status);
    return extended;
}
