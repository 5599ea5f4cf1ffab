#include "dispatch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/nonzero.h>

#include <string_view>
#include <unordered_set>

#include "base/config.h"
#include "debug.h"
#include "indexing.h"
#include "out.h"

namespace {

struct Program { /* a retained program */
    tpj_program *program = nullptr;
    Program() = default;
    explicit Program(tpj_program *p) : program(p) {}
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;
    ~Program() { tpj_program_release(program); }
};

using Storages = tpj_glue_storages;

/* Puts the user's line behind the message of an error. */
[[noreturn]] void throw_at_line(tpj_status *status, const std::string &file, int line) {
    if (!file.empty()) {
        tpj_status *located = tpj_status_create(tpj_status_code(status), "%s\n  at %s:%d", tpj_status_message(status),
                                                file.c_str(), line);
        tpj_status_destroy(status);
        status = located;
    }
    tpj_glue_throw(status);
}

/* Compiles a call that was not seen before. NULL where a form with floating values cannot be had. */
C10_NOINLINE tpj_program *compile(const tpj_glue_call &call, const c10::SmallVectorImpl<uint64_t> &key, bool floating,
                                  bool count_only, const std::vector<int64_t> &sizes) {
    std::string file;
    int line = 0;
    tpj_glue_user_line(&file, &line);
    std::unique_ptr<tpj_graph, decltype(&tpj_graph_destroy)> graph(
        call.make_graph(file.empty() ? nullptr : file.c_str(), line), &tpj_graph_destroy);
    tpj_program *program = nullptr;
    tpj_lower_options options = call.options();
    options.count_only = count_only;
    options.sizes = sizes.data();
    options.n_sizes = static_cast<int>(sizes.size());
    tpj_status *status =
        tpj_eager_compile(key.data(), static_cast<int>(key.size()), call.device(), graph.release(), &options, &program);
    if (status != nullptr && !floating) throw_at_line(status, file, line);
    tpj_status_destroy(status);
    return program;
}

/* A call that was not seen with these values, perhaps with others: views whose offset changes, for instance. */
C10_NOINLINE tpj_program *find_floating(tpj_glue_call &call, bool count_only, const std::vector<int64_t> &sizes) {
    auto family = call.family_key();
    bool floating = false;
    call.float_values(true);
    tpj_program *program =
        tpj_eager_find_floating(family.data(), static_cast<int>(family.size()), call.operands().data(), &floating);
    if (program == nullptr && floating) {
        program = compile(call, family, true, count_only, sizes);
        if (program != nullptr && !tpj_eager_fits(program, call.operands().data())) {
            tpj_program_release(program);
            program = nullptr;
        }
    }
    if (program != nullptr) return program;
    call.float_values(false);
    return compile(call, call.key(), false, count_only, sizes);
}

tpj_program *find_or_compile(tpj_glue_call &call, bool count_only = false, const std::vector<int64_t> &sizes = {}) {
    tpj_program *program = tpj_eager_find(call.key().data(), static_cast<int>(call.key().size()));
    if (C10_LIKELY(program != nullptr)) return program;
    return call.can_float() ? find_floating(call, count_only, sizes)
                            : compile(call, call.key(), false, count_only, sizes);
}

/* Bad indices are found by the device, after the line that gave them has been left. */
C10_NOINLINE void say_line(c10::DeviceIndex device, const tpj_program *program) {
    std::string file;
    int line = 0;
    if (tpj_glue_user_line(&file, &line)) tpj_eager_called_at(device, program, file.c_str(), line);
}

Storages launch(const tpj_glue_call &call, tpj_program *program) {
    const int at = call.op().generator_argument;
    if (at < 0 || call.argument(at).isNone()) return tpj_glue_launch(call, program, nullptr);
    const at::Generator given = call.argument(at).toGenerator();
    return tpj_glue_launch(call, program, given.unsafeGetGeneratorImpl());
}

/* TPJ_OP_SIZED: the count runs first; what it found is part of the key of the op itself. */
C10_NOINLINE tpj_program *find_sized(tpj_glue_call &call) {
    constexpr uint64_t count_marker = UINT64_MAX; /* stands where a size does, and is none */
    const size_t plain_size = call.key().size();
    int64_t known;
    c10::SmallVector<tpj_number, 4> numbers;
    for (const tpj_operand &operand : call.operands()) numbers.push_back(operand.number);
    if (tpj_op_size(call.op().row, numbers.data(), static_cast<int>(numbers.size()), &known)) {
        call.key().push_back(static_cast<uint64_t>(known));
        return find_or_compile(call, false, {known});
    }
    call.key().push_back(count_marker);
    const Program counter(find_or_compile(call, true));
    const Storages counted = launch(call, counter.program);
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < counted.size(); i++) {
        const tpj_result *result = tpj_program_result(counter.program, static_cast<int>(i));
        std::vector<int64_t> found(result->n_bytes / sizeof(int64_t));
        tpj_status *status = tpj_storage_to_host(counted[i], 0, found.data(), result->n_bytes);
        tpj_storage_destroy(counted[i]);
        tpj_glue_check(status);
        sizes.insert(sizes.end(), found.begin(), found.end());
    }
    call.key().resize(plain_size);
    call.float_values(false);
    for (const int64_t size : sizes) call.key().push_back(static_cast<uint64_t>(size));
    return find_or_compile(call, false, sizes);
}

at::Tensor tensor_of(const tpj_result *result, tpj_storage *storage) {
    if (result->none) return {};
    return tpj_glue_make_tensor(storage, result->type, result->strides);
}

/* The new values among the returns, in the schema's order; lists take what is left over for them. */
void push_returns(const tpj_glue_call &call, const tpj_program *program, const Storages &storages) {
    const tpj_glue_op &op = call.op();
    const auto &returns = op.handle.schema().returns();
    const int n_results = tpj_program_n_results(program);
    int n_lists = 0, n_single = 0;
    for (size_t i = 0; i < returns.size(); i++) {
        if (op.return_alias[i] >= 0) continue;
        const bool is_list = returns[i].type()->kind() == c10::TypeKind::ListType;
        n_lists += is_list;
        n_single += !is_list;
    }
    c10::SmallVector<c10::IValue, 4> values;
    int next = 0;
    const auto take = [&] {
        at::Tensor tensor = tensor_of(tpj_program_result(program, next), storages[static_cast<size_t>(next)]);
        next++;
        return tensor;
    };
    for (size_t i = 0; i < returns.size(); i++) {
        if (op.return_alias[i] >= 0) {
            values.emplace_back(call.argument(op.return_alias[i]));
        } else if (returns[i].type()->kind() == c10::TypeKind::ListType) {
            c10::List<at::Tensor> list;
            for (int k = (n_results - n_single) / n_lists; k > 0; k--) list.push_back(take());
            values.emplace_back(std::move(list));
        } else if (returns[i].type()->kind() == c10::TypeKind::IntType ||
                   returns[i].type()->kind() == c10::TypeKind::SymIntType) {
            values.emplace_back(int64_t{0}); /* sizes that only other backends' kernels use: the row says none */
            next++;
        } else {
            values.emplace_back(take());
        }
    }
    torch::jit::Stack &stack = call.stack();
    stack.resize(call.base());
    for (c10::IValue &value : values) stack.push_back(std::move(value));
}

/* ---- in-place and out= ---- */

template <typename Visit> void for_each_tensor(const c10::IValue &value, const Visit &visit) {
    if (value.isTensor()) {
        if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isList()) {
        for (const c10::IValue &element : value.toListRef())
            if (element.isTensor() && element.toTensor().defined()) visit(element.toTensor());
    }
}

/* Overlapping writes raise as on the CPU, where some ops do not read what they write: within the written tensor, and partly with an operand. Of lists, the elements at
 * one position meet each other. */
void check_overlap(const tpj_glue_call &call) {
    static const std::unordered_set<std::string_view> apart = {
        "aten::cat",         "aten::cross",          "aten::gather",       "aten::index_select",
        "aten::kthvalue",    "aten::linalg_cross",   "aten::take",         "aten::scatter",
        "aten::scatter_add", "aten::scatter_reduce", "aten::masked_select"};
    const bool is_apart =
        call.op().form == tpj_glue_form::out && apart.count(call.op().handle.operator_name().name) != 0;
    const auto check_operand = [is_apart](const at::Tensor &target, const at::Tensor &operand) {
        if (!operand.defined() || !operand.is_privateuseone() ||
            target.storage().unsafeGetStorageImpl() != operand.storage().unsafeGetStorageImpl())
            return;
        if (is_apart)
            at::assert_no_overlap(target, operand);
        else
            at::assert_no_partial_overlap(target, operand);
    };
    for (const int written : call.op().written) {
        const bool is_list = call.argument(written).isList();
        size_t position = 0;
        for_each_tensor(call.argument(written), [&](const at::Tensor &target) {
            const size_t at = position++;
            if (!target.is_privateuseone()) return;
            at::assert_no_internal_overlap(target);
            for (int i = 0; i < call.op().n_arguments; i++) {
                const c10::IValue &other = call.argument(i);
                if (i == written) continue;
                if (!is_list || !other.isTensorList())
                    for_each_tensor(other, [&](const at::Tensor &operand) { check_operand(target, operand); });
                else if (at < other.toListRef().size())
                    check_operand(target, other.toListRef()[at].toTensor());
            }
        });
    }
}

/* zeros_like(x, device=...) comes here by x's device and may ask for another one. */
void move_returns(const tpj_glue_op &op, torch::jit::Stack &stack, const c10::IValue &asked_for) {
    if (asked_for.isNone()) return;
    const c10::Device device = asked_for.toDevice();
    for (size_t i = stack.size() - op.return_alias.size(); i < stack.size(); i++)
        if (stack[i].isTensor() && stack[i].toTensor().defined() && !device.is_privateuseone())
            stack[i] = stack[i].toTensor().to(device);
}

/* linalg.inv_ex and its kin with check_errors: the call waits, and raises what `info` says. */
C10_NOINLINE void check_errors(const tpj_glue_op &op, const torch::jit::Stack &stack, const at::Tensor &matrices) {
    const auto &returns = op.handle.schema().returns();
    for (size_t i = 0; i < returns.size(); i++) {
        if (returns[i].name() != "info") continue;
        std::string name = op.handle.operator_name().name; /* "aten::_linalg_solve_ex" */
        name.replace(0, name.find("linalg_") + 7, "linalg.");
        at::_linalg_check_errors(stack[stack.size() - returns.size() + i].toTensor(), name, matrices.dim() == 2);
    }
}

/* FakeTensorMode asks for zeros like a tensor that says it is on the device and has no memory there: one that has, its values
 * never written, stands in. */
C10_NOINLINE void stand_in(c10::IValue &value) {
    const at::Tensor tensor = value.toTensor();
    if (!tensor.defined() || !tensor.has_storage() || !tensor.storage().device().is_meta()) return;
    const auto options = at::TensorOptions().dtype(tensor.dtype()).device(tensor.device());
    value = at::empty_strided(tensor.sizes(), tensor.strides(), options);
}

} // namespace

at::Tensor tpj_glue_make_tensor(tpj_storage *storage, const tpj_type &type, const int64_t *strides) {
    auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), tpj_storage_bytes(storage),
                                                      tpj_glue_data_ptr(storage), tpj_glue_allocator(), true);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(impl), tpj_glue_keys,
                                                                 c10::scalarTypeToTypeMeta(scalar_type_of(type.dtype)));
    const auto rank = static_cast<size_t>(type.rank);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides({type.dims, rank}, {strides, rank});
    return tensor;
}

tpj_glue_storages tpj_glue_launch(const tpj_glue_operands &call, tpj_program *program, c10::GeneratorImpl *generator) {
    Storages storages(static_cast<size_t>(tpj_program_n_results(program)), nullptr);
    uint64_t random[2] = {0, 0};
    if (const uint64_t count = tpj_program_random_count(program))
        tpj_generator_reserve(generator, call.device(), count, random);
    const bool debugs = tpj_glue_is_debug_mode();
    tpj_status *status = C10_UNLIKELY(debugs) ? tpj_glue_check_operands(call, program) : nullptr;
    if (C10_LIKELY(status == nullptr))
        status = tpj_eager_run(program, call.device(), call.operands().data(), static_cast<int>(call.operands().size()),
                               random, storages.data());
    if (C10_LIKELY(status == nullptr) && C10_UNLIKELY(tpj_eager_wants_line(call.device(), program)))
        say_line(call.device(), program);
    if (C10_UNLIKELY(debugs)) {
        if (status == nullptr) status = tpj_runtime_synchronize(call.device());
        if (status == nullptr) status = tpj_glue_check_results(call, program, storages);
        if (status != nullptr && tpj_status_code(status) != TPJ_INTERRUPTED)
            status = tpj_glue_add_module(status, program);
    }
    if (C10_UNLIKELY(status != nullptr)) {
        for (tpj_storage *storage : storages) tpj_storage_destroy(storage);
        std::string file;
        int line = 0;
        tpj_glue_user_line(&file, &line);
        throw_at_line(status, file, line);
    }
    return storages;
}

void tpj_glue_run_program(tpj_glue_call &call, tpj_program *program) {
    const Storages storages = launch(call, program);
    push_returns(call, program, storages);
}

void tpj_glue_run(const tpj_glue_op &op, torch::jit::Stack &stack) {
    if (C10_UNLIKELY(op.writes_lists))
        tpj_glue_run_on_lists(op, stack);
    else
        tpj_glue_run_once(op, stack);
}

void tpj_glue_run_once(const tpj_glue_op &op, torch::jit::Stack &stack) {
    if (C10_UNLIKELY(op.prepares_indices) && tpj_glue_prepare_indices(op, stack)) return;
    const c10::IValue asked_for = op.device_argument >= 0
                                      ? stack[stack.size() - static_cast<size_t>(op.n_arguments - op.device_argument)]
                                      : c10::IValue();
    if (C10_UNLIKELY(op.makes_alike)) stand_in(stack[stack.size() - static_cast<size_t>(op.n_arguments)]);
    tpj_glue_call call(op, stack);
    at::Tensor checked;
    if (C10_UNLIKELY(op.check_errors_argument >= 0) && call.argument(op.check_errors_argument).toBool())
        checked = call.argument(0).toTensor();
    if (op.form != tpj_glue_form::functional) check_overlap(call);
    call.read();
    const Program program(C10_UNLIKELY(tpj_op_is_sized(op.row)) ? find_sized(call) : find_or_compile(call));
    if (op.form == tpj_glue_form::out) tpj_glue_check_out(call, program.program);
    const Storages storages = launch(call, program.program);
    if (op.form == tpj_glue_form::out) {
        c10::SmallVector<at::Tensor, 4> results; /* own the storages, whatever is raised below */
        for (size_t i = 0; i < storages.size(); i++)
            results.push_back(tensor_of(tpj_program_result(program.program, static_cast<int>(i)), storages[i]));
        tpj_glue_take_results(call, results);
    } else {
        push_returns(call, program.program, storages);
    }
    if (op.device_argument >= 0) move_returns(op, stack, asked_for);
    if (C10_UNLIKELY(checked.defined())) check_errors(op, stack, checked);
}
