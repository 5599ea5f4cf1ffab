#include "trace.h"

#include <ATen/core/List.h>
#include <ATen/native/Resize.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "out.h"

namespace {

/* ---- the request ---- */

void write_string(std::string &json, const std::string &text) {
    json += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') json += '\\';
        if (c == '\n')
            json += "\\n";
        else
            json += c;
    }
    json += '"';
}

void write_number(std::string &json, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.17g", value);
    if (std::isfinite(value)) /* 2.0 and not 2: an integer would promote differently */
        json += std::strpbrk(text, ".e") != nullptr ? text : std::string(text) + ".0";
    else
        json += std::string("{\"float\": \"") + (std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf") + "\"}";
}

void write_integers(std::string &json, at::IntArrayRef values) {
    json += '[';
    for (size_t i = 0; i < values.size(); i++) json += (i > 0 ? ", " : "") + std::to_string(values[i]);
    json += ']';
}

/* Thrown away with the request when an argument has no JSON form: the op runs on the CPU. */
struct NoForm {};

struct RequestWriter {
    std::string json{};
    int next_input = 0;

    void tensor(const at::Tensor &value) {
        if (!value.defined()) {
            json += "null";
            return;
        }
        json += "{\"input\": " + std::to_string(next_input++) + ", \"dtype\": \"" + tpj_dtype_name(dtype_of(value)) +
                "\", \"sizes\": ";
        write_integers(json, value.sizes());
        json += ", \"strides\": ";
        write_integers(json, value.strides());
        json += value.unsafeGetTensorImpl()->is_wrapped_number() ? ", \"number\": true}" : "}";
    }

    void argument(const c10::IValue &value, const c10::Argument &declared) {
        const bool is_dtype =
            declared.name() == "dtype" || declared.name() == "out_dtype" || declared.name() == "input_dtype";
        if (value.isNone()) {
            json += "null";
        } else if (value.isTensor()) {
            tensor(value.toTensor());
        } else if (value.isBool()) {
            json += value.toBool() ? "true" : "false";
        } else if (value.isInt() && is_dtype) {
            json += std::string("{\"dtype\": \"") + tpj_dtype_name(dtype_of(value.toScalarType())) + "\"}";
        } else if (value.isInt()) {
            json += std::to_string(value.toInt());
        } else if (value.isDouble()) {
            write_number(json, value.toDouble());
        } else if (value.isComplexDouble()) {
            json += "{\"complex\": [";
            write_number(json, value.toComplexDouble().real());
            json += ", ";
            write_number(json, value.toComplexDouble().imag());
            json += "]}";
        } else if (value.isString()) {
            write_string(json, value.toStringRef());
        } else if (value.isDevice()) {
            json += "{\"device\": true}";
        } else if (value.isList()) {
            json += '[';
            bool first = true;
            for (const c10::IValue &element : value.toListRef()) {
                if (!first) json += ", ";
                first = false;
                argument(element, declared);
            }
            json += ']';
        } else {
            throw NoForm();
        }
    }
};

std::string make_request(const tpj_glue_call &call) {
    tpj_graph *inputs = call.make_inputs();
    char *printed = nullptr;
    tpj_status *status = tpj_graph_print(inputs, &printed);
    tpj_graph_destroy(inputs);
    tpj_glue_check(status);
    std::string statements(printed);
    std::free(printed);
    /* "graph {\n  %0 = ..\n}\n": what is between the braces */
    statements = statements.substr(statements.find('\n') + 1);
    statements = statements.substr(0, statements.rfind('}'));

    const auto &name = call.op().handle.operator_name();
    RequestWriter writer;
    writer.json =
        "{\"op\": \"" + name.name + (name.overload_name.empty() ? "" : "." + name.overload_name) + "\", \"inputs\": ";
    write_string(writer.json, statements);
    writer.json += ", \"args\": [";
    const auto &arguments = call.op().handle.schema().arguments();
    for (int i = 0; i < call.op().n_arguments; i++) {
        if (i > 0) writer.json += ", ";
        writer.argument(call.argument(i), arguments[static_cast<size_t>(i)]);
    }
    return writer.json + "]}";
}

/* ---- what could not be traced: not asked again ---- */

struct Refused {
    std::mutex mutex;
    std::unordered_set<std::string> calls;                 /* keys, as bytes */
    std::unordered_map<const tpj_glue_op *, int> failures; /* of ops that never succeeded */
};
constexpr int most_failures = 8;

Refused &refused() {
    static auto *all = new Refused;
    return *all;
}

std::string bytes_of(const tpj_glue_call &call) {
    return {reinterpret_cast<const char *>(call.key().data()), call.key().size() * sizeof(uint64_t)};
}

bool is_refused(const tpj_glue_call &call) {
    const std::lock_guard<std::mutex> lock(refused().mutex);
    const auto failures = refused().failures.find(&call.op());
    if (failures != refused().failures.end() && failures->second >= most_failures) return true;
    return refused().calls.count(bytes_of(call)) != 0;
}

void remember(const tpj_glue_call &call, bool traced) {
    const std::lock_guard<std::mutex> lock(refused().mutex);
    if (traced) {
        refused().failures[&call.op()] = -1000000; /* it works for some arguments: always ask */
        return;
    }
    refused().failures[&call.op()]++;
    refused().calls.insert(bytes_of(call));
}

tpj_program *compile_traced(const tpj_glue_call &call) {
    std::string text;
    try {
        text = tpj_glue_trace(make_request(call));
    } catch (const NoForm &) { return nullptr; }
    if (text.empty()) return nullptr;
    tpj_graph *graph = nullptr;
    tpj_program *program = nullptr;
    const tpj_lower_options options = call.options();
    tpj_status *status = tpj_graph_parse(text.data(), text.size(), &graph);
    if (status == nullptr)
        status = tpj_eager_compile(call.key().data(), static_cast<int>(call.key().size()), call.device(), graph,
                                   &options, &program);
    else
        tpj_graph_destroy(graph);
    if (status != nullptr) { /* the CPU gives the op's own error, or its result */
        tpj_status_destroy(status);
        return nullptr;
    }
    return program;
}

/* The functional op behind each op without a row, with its arguments read from the schema. Lives for ever, as ops do. */
const tpj_glue_op *functional_of(const tpj_glue_op &op) {
    static std::mutex mutex;
    static auto *known = new std::unordered_map<std::string, std::unique_ptr<tpj_glue_op>>;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto &full = op.handle.operator_name();
    auto [entry, fresh] = known->try_emplace(full.name + "." + full.overload_name);
    if (fresh)
        if (const auto twin = tpj_glue_functional_twin(op.handle))
            entry->second = std::make_unique<tpj_glue_op>(*twin, nullptr, tpj_glue_form::functional);
    return entry->second.get();
}

bool has_generator(const tpj_glue_op &op, const torch::jit::Stack &stack) {
    const size_t base = stack.size() - static_cast<size_t>(op.n_arguments);
    return op.generator_argument >= 0 && stack[base + static_cast<size_t>(op.generator_argument)].isGenerator();
}

/* The results of a functional call; false when it has no decomposition. Takes the arguments off `stack` in either case. */
bool run_functional(const tpj_glue_op &op, torch::jit::Stack &stack) {
    if (has_generator(op, stack)) return false;
    tpj_glue_call call(op, stack);
    call.read();
    tpj_program *program = tpj_eager_find(call.key().data(), static_cast<int>(call.key().size()));
    if (program == nullptr) {
        if (is_refused(call)) return false;
        program = compile_traced(call);
        remember(call, program != nullptr);
        if (program == nullptr) return false;
    }
    const std::unique_ptr<tpj_program, decltype(&tpj_program_release)> owner(program, &tpj_program_release);
    tpj_glue_run_program(call, program);
    return true;
}

void write_result(const tpj_glue_op &op, c10::ArrayRef<c10::IValue> arguments, const at::Tensor &to,
                  const at::Tensor &from, bool resize) {
    if (from.scalar_type() != to.scalar_type()) {
        if (resize) tpj_glue_check_conversion(op, arguments, from.scalar_type(), to.scalar_type());
        TORCH_CHECK(c10::canCast(from.scalar_type(), to.scalar_type()), "result type ", from.scalar_type(),
                    " can't be cast to the desired output type ", to.scalar_type());
    }
    if (resize) at::native::resize_output(to, from.sizes());
    to.copy_(from);
}

} // namespace

bool tpj_glue_run_traced(const tpj_glue_op &op, torch::jit::Stack &stack) {
    const tpj_glue_op *functional = functional_of(op);
    if (functional == nullptr) return false;
    const size_t base = stack.size() - static_cast<size_t>(op.n_arguments);
    torch::jit::Stack arguments;
    for (const c10::Argument &argument : functional->handle.schema().arguments()) {
        const auto index = op.handle.schema().argumentIndexWithName(argument.name());
        arguments.push_back(index ? stack[base + static_cast<size_t>(*index)]
                                  : argument.default_value().value_or(c10::IValue()));
    }
    for (const c10::IValue &argument : arguments) /* lists that are written need care that no decomposition repays */
        if (argument.isTensorList() && !op.written.empty()) return false;
    if (!run_functional(*functional, arguments)) return false;
    if (op.written.empty()) {
        stack.resize(base);
        for (c10::IValue &result : arguments) stack.push_back(std::move(result));
        return true;
    }
    const bool out = op.handle.schema().arguments()[static_cast<size_t>(op.written[0])].is_out();
    for (size_t i = 0; i < op.written.size() && i < arguments.size(); i++)
        write_result(op, torch::jit::last(stack, static_cast<size_t>(op.n_arguments)),
                     stack[base + static_cast<size_t>(op.written[i])].toTensor(), arguments[i].toTensor(), out);
    std::vector<c10::IValue> returns;
    for (const int alias : op.return_alias) returns.push_back(stack[base + static_cast<size_t>(alias)]);
    stack.resize(base);
    for (c10::IValue &value : returns) stack.push_back(std::move(value));
    return true;
}
