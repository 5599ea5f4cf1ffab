/* Captured graphs (torch.compile): Python gives the text of the ops once; a run takes tensors, reads how they lie in their
 * storages, and launches the program for that. A graph has one program for each way its inputs lie. */
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "dispatch.h"
#include "trace.h"

struct tpj_glue_graph {
    struct Option { /* for the compiler */
        std::string name, text;
        tpj_option option;
    };
    struct Result { /* see tpj_glue_graph_create */
        tpj_glue_result_kind kind;
        int index;
        std::vector<int64_t> input_strides, sizes, strides;
        int64_t offset;
    };
    struct Write {
        int value, result, target;
    };
    std::string name, body, precision, dump_dir;
    int n_tensors, n_numbers, device;
    bool random, watched;
    uint64_t id; /* never given again, as an address might be */
    tpj_compile_options compiler;
    std::vector<Option> options;
    std::vector<Result> results;
    std::vector<Write> writes;
};

namespace {

/* ---- making one ---- */

struct Numbers { /* a walk over the description's numbers; past the end they are 0 */
    const int64_t *at, *end;
    int64_t next() { return at < end ? *at++ : 0; }
    std::vector<int64_t> list(int64_t n) {
        std::vector<int64_t> values;
        for (int64_t i = 0; i < n && at < end; i++) values.push_back(next());
        return values;
    }
};

tpj_glue_graph::Result read_result(Numbers &numbers) {
    tpj_glue_graph::Result result{};
    result.kind = static_cast<tpj_glue_result_kind>(numbers.next());
    result.index = static_cast<int>(numbers.next());
    if (result.kind != TPJ_GLUE_RESULT_VIEW && result.kind != TPJ_GLUE_RESULT_PART) return result;
    if (result.kind == TPJ_GLUE_RESULT_VIEW) result.input_strides = numbers.list(numbers.next());
    const int64_t rank = numbers.next();
    result.sizes = numbers.list(rank);
    result.strides = numbers.list(rank);
    result.offset = numbers.next();
    return result;
}

/* ---- running it ---- */

/* The graph of a run: an input for each operand, what Python wrote, and the writes, which go through the inputs' views. */
tpj_graph *make_graph(const tpj_glue_graph &graph, const tpj_glue_operands &call) {
    const auto destroy = &tpj_graph_destroy;
    const std::unique_ptr<tpj_graph, decltype(destroy)> inputs(call.make_inputs(), destroy);
    char *printed = nullptr;
    tpj_glue_check(tpj_graph_print(inputs.get(), &printed));
    std::string text(printed);
    std::free(printed);
    text.resize(text.rfind('}'));
    if (graph.random) text += "  %" + std::to_string(call.n_operands()) + " = random\n";
    text += graph.body + "}\n";
    tpj_graph *parsed = nullptr;
    tpj_glue_check(tpj_status_annotate(tpj_graph_parse(text.data(), text.size(), &parsed), "%s", graph.name.c_str()));
    std::unique_ptr<tpj_graph, decltype(destroy)> owner(parsed, destroy);
    for (const tpj_glue_graph::Write &write : graph.writes) {
        tpj_output output{};
        output.value = {write.value, write.result};
        output.target = write.target;
        output.view = tpj_graph_input(parsed, write.target)->view;
        tpj_glue_check(tpj_graph_add_output(parsed, &output));
    }
    return owner.release();
}

/* The StableHLO text; lowering is a matter of milliseconds. */
std::string module_of(const tpj_graph *made, const tpj_lower_options &options) {
    tpj_lowered *lowered = nullptr;
    tpj_glue_check(tpj_lower_graph(made, &options, &lowered));
    std::string text(lowered->module, lowered->module_length);
    tpj_lowered_destroy(lowered);
    return text;
}

void watch(const tpj_glue_graph &graph, const std::string &module, tpj_program *program) {
    tpj_compiled_memory memory{};
    tpj_compiled_cost cost{};
    tpj_glue_check(tpj_program_stats(program, &memory, &cost));
    tpj_glue_watch_program(graph.name.c_str(), module.c_str(), module.size(), memory, cost);
}

C10_NOINLINE tpj_program *compile(const tpj_glue_graph &graph, const tpj_glue_operands &call) {
    const std::unique_ptr<tpj_graph, decltype(&tpj_graph_destroy)> made(make_graph(graph, call), &tpj_graph_destroy);
    tpj_lower_options options = tpj_glue_lower_options(true);
    if (!graph.precision.empty()) options.precision = graph.precision.c_str();
    std::string module;
    if (graph.watched || !graph.dump_dir.empty()) module = module_of(made.get(), options);
    if (!graph.dump_dir.empty()) std::ofstream(graph.dump_dir + "/" + graph.name + ".mlir", std::ios::binary) << module;
    std::vector<tpj_option> overrides;
    for (const tpj_glue_graph::Option &option : graph.options) {
        overrides.push_back(option.option);
        overrides.back().name = option.name.c_str();
        overrides.back().string_value = option.text.c_str();
    }
    tpj_compile_options compiler = graph.compiler;
    compiler.portable = true;
    compiler.options = overrides.data();
    compiler.n_options = static_cast<int>(overrides.size());
    tpj_program *program = nullptr;
    tpj_glue_check(tpj_status_annotate(tpj_eager_compile_with(call.key().data(), static_cast<int>(call.key().size()),
                                                              call.device(), made.get(), &options, &compiler, &program),
                                       "%s", graph.name.c_str()));
    if (graph.watched) watch(graph, module, program);
    return program;
}

class Reader : public tpj_glue_operands {
public:
    Reader(const tpj_glue_graph &graph, c10::ArrayRef<c10::IValue> tensors, c10::ArrayRef<c10::IValue> numbers) {
        key_.push_back(graph.id << 1 | 1); /* no address of an op, by which the keys of eager calls begin */
        key_.push_back(0);
        for (const c10::IValue &tensor : tensors) read_tensor(tensor.toTensor(), graph.name, "inputs");
        for (const c10::IValue &number : numbers) read_number(number.toScalar());
        if (device_ < 0) device_ = tpj_glue_device_index(static_cast<c10::DeviceIndex>(graph.device));
        key_[1] = static_cast<uint64_t>(device_) | tpj_glue_options_word(true);
        if (!graph.writes.empty()) read_aliases();
    }
};

/* A result that shares an input's storage. An input that does not lie as the graph was captured with is copied first. */
at::Tensor view_of_input(const tpj_glue_graph::Result &result, const at::Tensor &input) {
    at::Tensor base = input;
    if (input.strides() != at::IntArrayRef(result.input_strides)) {
        base = at::empty_strided(input.sizes(), result.input_strides, input.options());
        base.copy_(input);
    }
    return base.as_strided(result.sizes, result.strides, base.storage_offset() + result.offset);
}

/* A result that the op leaves out where PyTorch's description of it has a tensor: one that nobody reads. */
at::Tensor placeholder(c10::DeviceIndex device) {
    return at::empty({0}, at::TensorOptions(tpj_glue_device(device)).dtype(at::kLong));
}

c10::List<at::Tensor> make_results(const tpj_glue_graph &graph, const tpj_glue_operands &call,
                                   c10::ArrayRef<c10::IValue> tensors, const tpj_program *program,
                                   const tpj_glue_storages &storages) {
    c10::SmallVector<at::Tensor, 8> made; /* own the storages, whatever is raised below */
    for (size_t i = 0; i < storages.size(); i++) {
        const tpj_result *result = tpj_program_result(program, static_cast<int>(i));
        if (storages[i] != nullptr)
            made.push_back(tpj_glue_make_tensor(storages[i], result->type, result->strides));
        else
            made.push_back(result->none ? placeholder(call.device()) : at::Tensor());
    }
    c10::List<at::Tensor> results;
    results.reserve(graph.results.size());
    for (const tpj_glue_graph::Result &result : graph.results) {
        const auto index = static_cast<size_t>(result.index);
        switch (result.kind) {
            case TPJ_GLUE_RESULT_NONE: results.push_back(at::Tensor()); break;
            case TPJ_GLUE_RESULT_NEW: results.push_back(made[index]); break;
            case TPJ_GLUE_RESULT_PART:
                results.push_back(made[index].as_strided(result.sizes, result.strides, result.offset));
                break;
            case TPJ_GLUE_RESULT_INPUT: results.push_back(tensors[index].toTensor()); break;
            case TPJ_GLUE_RESULT_VIEW: results.push_back(view_of_input(result, tensors[index].toTensor())); break;
        }
    }
    return results;
}

/* torch_pjrt::run_graph(int graph, Tensor[] tensors, Scalar[] numbers) -> Tensor[] */
void run_graph(const c10::OperatorHandle &, torch::jit::Stack *stack) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const c10::IValue number_list = torch::jit::pop(*stack), list = torch::jit::pop(*stack);
    const auto &graph = *reinterpret_cast<const tpj_glue_graph *>(torch::jit::pop(*stack).toInt());
    const auto tensors = list.toListRef(), numbers = number_list.toListRef();
    TORCH_CHECK(static_cast<int>(tensors.size()) == graph.n_tensors &&
                    static_cast<int>(numbers.size()) == graph.n_numbers,
                graph.name, " takes ", graph.n_tensors, " tensors and ", graph.n_numbers, " numbers, and ",
                tensors.size(), " and ", numbers.size(), " were given");
    const Reader call(graph, tensors, numbers);
    tpj_program *program = tpj_eager_find(call.key().data(), static_cast<int>(call.key().size()));
    if (C10_UNLIKELY(program == nullptr)) program = compile(graph, call);
    const std::unique_ptr<tpj_program, decltype(&tpj_program_release)> owner(program, &tpj_program_release);
    const tpj_glue_storages storages = tpj_glue_launch(call, program, nullptr);
    torch::jit::push(*stack, make_results(graph, call, tensors, program, storages));
}

/* torch_pjrt::lay(Tensor self, int[] size, int[] stride) -> Tensor: other elements of its storage as a tensor that autograd
 * takes for one of its own: what was cut from a padded result is no view to the user. */
void lay(const c10::OperatorHandle &, torch::jit::Stack *stack) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const std::vector<int64_t> strides = torch::jit::pop(*stack).toIntVector();
    const std::vector<int64_t> sizes = torch::jit::pop(*stack).toIntVector();
    const at::Tensor self = torch::jit::pop(*stack).toTensor();
    torch::jit::push(*stack, self.as_strided(sizes, strides));
}

/* Whether what the description says of results and writes can be. */
tpj_status *check_results(const tpj_glue_graph &graph) {
    for (const tpj_glue_graph::Result &result : graph.results)
        if (result.kind < TPJ_GLUE_RESULT_NONE || result.kind > TPJ_GLUE_RESULT_VIEW || result.index < 0 ||
            (result.kind > TPJ_GLUE_RESULT_PART && result.index >= graph.n_tensors))
            TPJ_ERROR(TPJ_VALUE, "%s has no result %d of kind %d", graph.name.c_str(), result.index,
                      static_cast<int>(result.kind));
    for (const tpj_glue_graph::Write &write : graph.writes)
        if (write.target < 0 || write.target >= graph.n_tensors)
            TPJ_ERROR(TPJ_VALUE, "%s writes to input %d of %d", graph.name.c_str(), write.target, graph.n_tensors);
    return nullptr;
}

} // namespace

tpj_status *tpj_glue_graph_create(const tpj_glue_graph_description *description, tpj_glue_graph **out_graph) {
    static std::atomic<uint64_t> next_id{1};
    const auto text = [](const char *given) { return std::string(given != nullptr ? given : ""); };
    auto graph = std::make_unique<tpj_glue_graph>();
    graph->name = description->name;
    graph->body = description->body;
    graph->precision = text(description->precision);
    graph->dump_dir = text(description->dump_dir);
    graph->n_tensors = description->n_tensors;
    graph->n_numbers = description->n_numbers;
    graph->device = description->device;
    graph->random = description->random;
    graph->watched = description->watched;
    graph->id = next_id.fetch_add(1);
    if (description->compiler != nullptr) graph->compiler = *description->compiler;
    for (int i = 0; i < graph->compiler.n_options; i++) {
        const tpj_option &option = graph->compiler.options[i];
        graph->options.push_back({option.name, text(option.string_value), option});
    }
    Numbers numbers{description->results, description->results + description->n_results};
    for (int64_t i = numbers.next(); i > 0; i--) graph->results.push_back(read_result(numbers));
    for (int64_t i = numbers.next(); i > 0; i--) {
        const auto value = static_cast<int>(numbers.next()), result = static_cast<int>(numbers.next());
        graph->writes.push_back({value, result, static_cast<int>(numbers.next())});
    }
    TPJ_TRY(check_results(*graph));
    *out_graph = graph.release();
    return nullptr;
}

void tpj_glue_graph_destroy(tpj_glue_graph *graph) { delete graph; }

TORCH_LIBRARY_FRAGMENT(torch_pjrt, library) {
    library.def("run_graph(int graph, Tensor[] tensors, Scalar[] numbers) -> Tensor[]",
                torch::CppFunction::makeFromBoxedFunction<&run_graph>());
    library.def("lay(Tensor self, int[] size, int[] stride) -> Tensor",
                torch::CppFunction::makeFromBoxedFunction<&lay>());
}
