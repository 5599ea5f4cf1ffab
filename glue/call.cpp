#include "call.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/ops/to_native.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/config.h"

namespace {

/* The first byte of a key word says what follows, so that no two calls write the same words. */
enum Tag : uint64_t {
    none = 1,
    plain_tensor,
    viewed_tensor,
    number,
    boolean,
    integer,
    floating,
    complex_number,
    text,
    list,
    other
};

constexpr uint64_t word(Tag tag, uint64_t payload = 0) { return static_cast<uint64_t>(tag) | payload << 8; }

tpj_operand number_operand(int64_t value, bool is_bool) {
    tpj_operand operand{};
    operand.number.kind = is_bool ? TPJ_NUMBER_BOOL : TPJ_NUMBER_INT;
    operand.number.integer = value;
    return operand;
}

tpj_operand number_operand(double real, double imaginary, bool is_complex) {
    tpj_operand operand{};
    operand.number.kind = is_complex ? TPJ_NUMBER_COMPLEX : TPJ_NUMBER_FLOAT;
    operand.number.parts[0] = real;
    operand.number.parts[1] = imaginary;
    return operand;
}

tpj_dtype dtype_of_number(tpj_number_kind kind) {
    switch (kind) {
        case TPJ_NUMBER_BOOL: return TPJ_BOOL;
        case TPJ_NUMBER_INT: return TPJ_I64;
        case TPJ_NUMBER_FLOAT: return TPJ_F64;
        default: return TPJ_C128;
    }
}

bool has_bits(const at::Tensor &tensor) {
    return tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}));
}

/* Whether the tensor is its storage's array as it is: no view is needed to read it. */
bool is_plain(const at::Tensor &tensor, tpj_storage *storage, tpj_dtype dtype) {
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    const auto sizes = impl->sizes();
    return impl->storage_offset() == 0 && impl->is_contiguous() && !has_bits(tensor) &&
           tpj_storage_is_plain(storage, dtype, static_cast<int>(sizes.size()), sizes.data());
}

} // namespace

tpj_operand tpj_glue_number_of(const c10::Scalar &scalar) {
    if (scalar.isBoolean()) return number_operand(static_cast<int64_t>(scalar.toBool()), true);
    if (scalar.isIntegral(false)) return number_operand(scalar.toLong(), false);
    if (scalar.isComplex())
        return number_operand(scalar.toComplexDouble().real(), scalar.toComplexDouble().imag(), true);
    return number_operand(scalar.toDouble(), 0, false);
}

tpj_operand tpj_glue_number_of(const at::Tensor &tensor) {
    const void *data = tensor.const_data_ptr();
    switch (tensor.scalar_type()) { /* the two that Python numbers are wrapped in, without the dispatcher */
        case at::kLong: return number_operand(*static_cast<const int64_t *>(data), false);
        case at::kDouble: return number_operand(*static_cast<const double *>(data), 0, false);
        default: return tpj_glue_number_of(tensor.item());
    }
}

tpj_glue_call::tpj_glue_call(const tpj_glue_op &op, torch::jit::Stack &stack)
    : op_(op), stack_(stack), base_(stack.size() - static_cast<size_t>(op.n_arguments)) {}

void tpj_glue_operands::use_device(c10::DeviceIndex index, std::string_view op) {
    if (device_ < 0) device_ = index;
    TORCH_CHECK(device_ == index, "Expected all tensors to be on the same device, but found at least two devices, tpu:",
                static_cast<int>(device_), " and tpu:", static_cast<int>(index), "! (in ", op, ")");
}

void tpj_glue_operands::read_tensor(const at::Tensor &tensor, std::string_view op, std::string_view parameter) {
    if (!tensor.defined()) {
        key_.push_back(word(none));
        return;
    }
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    if (C10_UNLIKELY(!impl->is_privateuseone())) {
        if (impl->device().is_cpu() && impl->dim() == 0) {
            tpj_operand operand = tpj_glue_number_of(tensor);
            const bool wrapped = impl->is_wrapped_number();
            key_.push_back(word(number, static_cast<uint64_t>(operand.number.kind) |
                                            static_cast<uint64_t>(wrapped) << 8 |
                                            static_cast<uint64_t>(dtype_of(tensor)) << 16));
            operands_.push_back(operand);
            tensors_.push_back(&tensor);
            return;
        }
        TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, tpu and ",
                    tensor.device(), "! (argument ", parameter, " of ", op, ")");
    }
    tpj_storage *storage = storage_of(tensor);
    const tpj_dtype dtype = dtype_of(tensor);
    const auto sizes = impl->sizes(), strides = impl->strides();
    use_device(static_cast<c10::DeviceIndex>(tpj_storage_device(storage)), op);
    const uint64_t facts = static_cast<uint64_t>(dtype) | static_cast<uint64_t>(sizes.size()) << 8;
    if (C10_LIKELY(is_plain(tensor, storage, dtype))) {
        key_.push_back(word(plain_tensor, facts));
        for (const int64_t size : sizes) key_.push_back(static_cast<uint64_t>(size));
    } else {
        int64_t dims[64];
        tpj_dtype base_dtype;
        const int base_rank = tpj_storage_base(storage, &base_dtype, dims);
        const uint64_t bits = static_cast<uint64_t>(tensor.is_conj()) | static_cast<uint64_t>(tensor.is_neg()) << 1;
        key_.push_back(word(viewed_tensor, facts | bits << 16 | static_cast<uint64_t>(base_dtype) << 24 |
                                               static_cast<uint64_t>(base_rank) << 32));
        for (size_t i = 0; i < sizes.size(); i++) {
            key_.push_back(static_cast<uint64_t>(sizes[i]));
            key_.push_back(static_cast<uint64_t>(strides[i]));
        }
        changing_.push_back({static_cast<int>(key_.size()), TPJ_NUMBER_INT});
        key_.push_back(static_cast<uint64_t>(impl->storage_offset()));
        for (int i = 0; i < base_rank; i++) key_.push_back(static_cast<uint64_t>(dims[i]));
    }
    tpj_operand operand{};
    operand.storage = storage;
    operands_.push_back(operand);
    tensors_.push_back(&tensor);
}

void tpj_glue_operands::read_number(const c10::Scalar &number_) {
    const tpj_operand operand = tpj_glue_number_of(number_);
    key_.push_back(word(number, static_cast<uint64_t>(operand.number.kind) | 1 << 8 |
                                    static_cast<uint64_t>(dtype_of_number(operand.number.kind)) << 16));
    operands_.push_back(operand);
    tensors_.push_back(nullptr);
}

void tpj_glue_call::read_baked(const c10::IValue &value) {
    if (value.isBool()) {
        key_.push_back(word(boolean, value.toBool()));
    } else if (value.isInt()) {
        key_.push_back(word(integer));
        key_.push_back(static_cast<uint64_t>(value.toInt()));
    } else if (value.isDouble()) {
        const double real = value.toDouble();
        uint64_t bits;
        std::memcpy(&bits, &real, sizeof bits);
        key_.push_back(word(floating));
        key_.push_back(bits);
    } else if (value.isComplexDouble()) {
        const auto parts = value.toComplexDouble();
        uint64_t bits[2];
        std::memcpy(bits, &parts, sizeof bits);
        key_.push_back(word(complex_number));
        key_.append(bits, bits + 2);
    } else if (value.isString()) {
        const std::string &string = value.toStringRef();
        key_.push_back(word(text, string.size()));
        for (size_t i = 0; i < string.size(); i += 8) {
            uint64_t packed = 0;
            std::memcpy(&packed, string.data() + i, std::min<size_t>(8, string.size() - i));
            key_.push_back(packed);
        }
    } else if (value.isList()) {
        const auto elements = value.toList();
        key_.push_back(word(list, elements.size()));
        for (const c10::IValue &element : value.toListRef()) read_baked(element);
    } else {
        key_.push_back(word(none));
    }
}

/* A value of a parameter of kind I~, F~, S~ or S^ that can become an operand. Small whole and half exponents stay baked:
 * they are few, and programs for them are better (x ** 2). */
static bool floats(const tpj_param &param, const c10::IValue &value) {
    if (!param.floats) return false;
    if (param.list) {
        if (!value.isList()) return false;
        const auto elements = value.toListRef();
        return std::all_of(elements.begin(), elements.end(),
                           [](const c10::IValue &element) { return element.isInt() || element.isDouble(); });
    }
    if (!(value.isInt() || value.isDouble())) return false;
    if (!param.exponent) return true;
    const double number = value.toScalar().toDouble();
    return std::isfinite(number) && !(std::abs(number) <= 8 && std::trunc(2 * number) == 2 * number);
}

c10::IValue tpj_glue_call::dtype_or_that_of_out(const tpj_glue_parameter &parameter) const {
    if (parameter.index >= 0 && !argument(parameter.index).isNone()) return argument(parameter.index);
    return argument(op_.written[0]).toTensor().scalar_type();
}

void tpj_glue_call::read_parameter(const tpj_glue_parameter &parameter) {
    if (C10_UNLIKELY(parameter.from_out)) {
        read_baked(dtype_or_that_of_out(parameter));
        return;
    }
    if (parameter.index < 0) return;
    const c10::IValue &value = argument(parameter.index);
    if (value.isNone()) {
        key_.push_back(word(none));
        return;
    }
    switch (parameter.param.kind) {
        case TPJ_PARAM_TENSOR: {
            const std::string_view name(parameter.param.name, parameter.param.name_length);
            if (C10_LIKELY(!parameter.param.list)) {
                read_tensor(value.toTensor(), op_.name, name);
            } else {
                key_.push_back(word(list, value.toListRef().size()));
                for (const c10::IValue &element : value.toListRef())
                    if (element.isNone())
                        key_.push_back(word(none));
                    else
                        read_tensor(element.toTensor(), op_.name, name);
            }
            return;
        }
        case TPJ_PARAM_SCALAR:
        case TPJ_PARAM_RUN_FLOAT:
            if (parameter.param.baked || parameter.param.floats) break;
            if (!value.isList()) {
                read_number(value.toScalar());
            } else {
                key_.push_back(word(list, value.toListRef().size()));
                for (const c10::IValue &element : value.toListRef()) read_number(element.toScalar());
            }
            return;
        case TPJ_PARAM_GENERATOR: return;
        default: break;
    }
    read_baked(value);
    if (C10_LIKELY(!floats(parameter.param, value))) return;
    const auto add = [this](const c10::IValue &number,
                            size_t end) { /* two words a number, the value in the second */
                                          changing_.push_back({static_cast<int>(end) - 1,
                                                               number.isInt() ? TPJ_NUMBER_INT : TPJ_NUMBER_FLOAT});
    };
    if (!value.isList()) {
        add(value, key_.size());
        return;
    }
    const auto elements = value.toListRef();
    for (size_t i = 0; i < elements.size(); i++) add(elements[i], key_.size() - 2 * (elements.size() - 1 - i));
}

void tpj_glue_call::decide_device() {
    if (device_ >= 0) return;
    if (op_.device_argument >= 0 && !argument(op_.device_argument).isNone()) {
        device_ = tpj_glue_device_index(argument(op_.device_argument).toDevice().index());
        return;
    }
    device_ = tpj_glue_device_index(-1);
}

void tpj_glue_operands::read_aliases() {
    constexpr size_t few = 16; /* more (an optimizer's lists) are sorted, not compared one by one */
    const size_t n = operands_.size();
    aliases_.assign(n, 0);
    if (n <= few) {
        for (size_t i = 1; i < n; i++)
            for (size_t k = 0; k < i && operands_[i].storage != nullptr && aliases_[i] == 0; k++)
                if (operands_[k].storage == operands_[i].storage) aliases_[i] = static_cast<int>(k) + 1;
    } else {
        std::vector<std::pair<const tpj_storage *, int>> order;
        for (size_t i = 0; i < n; i++)
            if (operands_[i].storage != nullptr) order.emplace_back(operands_[i].storage, static_cast<int>(i));
        std::sort(order.begin(), order.end());
        for (size_t i = 1, first = 0; i < order.size(); i++) {
            if (order[i].first != order[first].first)
                first = i;
            else
                aliases_[static_cast<size_t>(order[i].second)] = order[first].second + 1;
        }
    }
    for (size_t i = 1; i < n; i++)
        if (aliases_[i] != 0) key_.push_back(word(other, i << 24 | static_cast<size_t>(aliases_[i])));
}

/* What PyTorch's settings ask of float32 products. torch.set_float32_matmul_precision and the newer
 * torch.backends.fp32_precision both reach the two backends that PyTorch has settings for: where both round, so do we; where
 * one was asked to by its own name, that is its business. Context::float32MatmulPrecision raises in such a state. */
static at::Float32MatmulPrecision precision_of_products() {
    const at::Context &context = at::globalContext();
    const at::Float32Precision host = context.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
    if (C10_LIKELY(host != at::Float32Precision::TF32 && host != at::Float32Precision::BF16))
        return at::Float32MatmulPrecision::HIGHEST;
    const at::Float32Precision generic = context.float32Precision(at::Float32Backend::GENERIC, at::Float32Op::ALL);
    const at::Float32Precision other = context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
    if (generic != host && other != at::Float32Precision::TF32) return at::Float32MatmulPrecision::HIGHEST;
    return host == at::Float32Precision::TF32 ? at::Float32MatmulPrecision::HIGH : at::Float32MatmulPrecision::MEDIUM;
}

void tpj_glue_call::read() {
    key_.push_back(reinterpret_cast<uintptr_t>(&op_));
    key_.push_back(0); /* device and global settings, below */
    for (const tpj_glue_parameter &parameter : op_.parameters) read_parameter(parameter);
    decide_device();
    key_[1] = static_cast<uint64_t>(device_) | tpj_glue_options_word(op_.uses_precision);
    if (!op_.written.empty() && op_.form != tpj_glue_form::out) read_aliases();
}

uint64_t tpj_glue_options_word(bool products) {
    const auto precision = products ? static_cast<uint64_t>(precision_of_products()) : 0;
    const auto number = static_cast<uint64_t>(c10::get_default_dtype_as_scalartype());
    return precision << 16 | static_cast<uint64_t>(tpj_config_check_index()) << 24 | number << 32;
}

tpj_lower_options tpj_glue_call::options() const { return tpj_glue_lower_options(op_.uses_precision); }

tpj_lower_options tpj_glue_lower_options(bool products) {
    tpj_lower_options options{};
    options.default_dtype = dtype_of(c10::get_default_dtype_as_scalartype());
    if (products) {
        const at::Float32MatmulPrecision precision = precision_of_products();
        options.precision = precision == at::Float32MatmulPrecision::HIGHEST ? "HIGHEST"
                            : precision == at::Float32MatmulPrecision::HIGH  ? "HIGH"
                                                                             : "DEFAULT";
    }
    return options;
}

c10::SmallVector<uint64_t, 96> tpj_glue_call::family_key() const {
    c10::SmallVector<uint64_t, 96> key(key_.begin(), key_.end());
    for (const Changing &value : changing_) key[static_cast<size_t>(value.at)] = UINT64_MAX;
    key.push_back(0);
    return key;
}

void tpj_glue_call::float_values(bool floating) {
    operands_.resize(operands_.size() - static_cast<size_t>(n_floating_));
    n_floating_ = floating ? static_cast<int>(changing_.size()) : 0;
    for (int i = 0; i < n_floating_; i++) {
        const Changing &value = changing_[static_cast<size_t>(i)];
        const uint64_t bits = key_[static_cast<size_t>(value.at)];
        double real;
        std::memcpy(&real, &bits, sizeof real);
        operands_.push_back(value.kind == TPJ_NUMBER_INT ? number_operand(static_cast<int64_t>(bits), false)
                                                         : number_operand(real, 0, false));
    }
}

/* ---- the graph of a miss ---- */
namespace {

struct GraphWriter {
    tpj_graph *graph;
    const c10::SmallVectorImpl<tpj_operand> &operands;
    const c10::SmallVectorImpl<const at::Tensor *> &tensors;
    const c10::SmallVectorImpl<int> &aliases;
    int next_floating = 0; /* 1 + the input of the next value that floats; 0: none does */
    std::vector<std::vector<tpj_ref>> refs{};
    std::vector<std::vector<int64_t>> integers{};
    std::vector<std::vector<double>> numbers{};
    std::vector<std::unique_ptr<bool[]>> booleans{};
    int next = 0; /* operand */

    tpj_ref add_tensor_input() {
        const at::Tensor &tensor = *tensors[next];
        tpj_storage *storage = operands[next].storage;
        const auto sizes = tensor.sizes(), strides = tensor.strides();
        tpj_input input{};
        tpj_view view{};
        int64_t dims[64];
        input.kind = TPJ_INPUT_BUFFER;
        if (!aliases.empty()) input.alias = aliases[next];
        if (is_plain(tensor, storage, dtype_of(tensor))) {
            input.type = {dtype_of(tensor), static_cast<int>(sizes.size()), sizes.data()};
        } else {
            input.type.rank = tpj_storage_base(storage, &input.type.dtype, dims);
            input.type.dims = dims;
            view = {dtype_of(tensor),
                    static_cast<int>(sizes.size()),
                    sizes.data(),
                    strides.data(),
                    tensor.storage_offset(),
                    next_floating,
                    tensor.is_conj(),
                    tensor.is_neg()};
            if (next_floating > 0) next_floating++;
            input.view = &view;
        }
        tpj_ref ref;
        tpj_glue_check(tpj_graph_add_input(graph, &input, &ref));
        next++;
        return ref;
    }

    tpj_ref add_number_input() {
        tpj_input input{};
        input.kind = TPJ_INPUT_SCALAR;
        const at::Tensor *tensor = tensors[next];
        input.number = tensor == nullptr || tensor->unsafeGetTensorImpl()->is_wrapped_number();
        input.type.dtype = tensor != nullptr ? dtype_of(*tensor) : dtype_of_number(operands[next].number.kind);
        tpj_ref ref;
        tpj_glue_check(tpj_graph_add_input(graph, &input, &ref));
        next++;
        return ref;
    }

    tpj_ref add_input() { return operands[next].storage != nullptr ? add_tensor_input() : add_number_input(); }

    tpj_arg values(const c10::IValue &value, bool numbers_only) {
        auto &list = refs.emplace_back();
        for (const c10::IValue &element : value.toListRef()) {
            const bool hole = element.isNone() || (element.isTensor() && !element.toTensor().defined());
            list.push_back(hole ? tpj_ref{TPJ_NO_VALUE, 0} : add_input());
        }
        tpj_arg arg{};
        arg.kind = numbers_only ? TPJ_ARG_SCALARS : TPJ_ARG_VALUES;
        arg.n = static_cast<int>(list.size());
        arg.values = list.data();
        return arg;
    }

    tpj_arg baked_list(const c10::IValue &value) {
        const auto elements = value.toListRef();
        tpj_arg arg{};
        arg.n = static_cast<int>(elements.size());
        if (elements.empty() || elements[0].isInt()) {
            auto &list = integers.emplace_back();
            for (const c10::IValue &element : elements) list.push_back(element.toInt());
            arg.kind = TPJ_ARG_INTS;
            arg.integers = list.data();
        } else if (elements[0].isBool()) {
            auto &list = booleans.emplace_back(std::make_unique<bool[]>(elements.size()));
            for (size_t i = 0; i < elements.size(); i++) list[i] = elements[i].toBool();
            arg.kind = TPJ_ARG_BOOLS;
            arg.booleans = list.get();
        } else {
            auto &list = numbers.emplace_back();
            for (const c10::IValue &element : elements) list.push_back(element.toScalar().toDouble());
            arg.kind = TPJ_ARG_FLOATS;
            arg.numbers = list.data();
        }
        return arg;
    }

    tpj_arg baked(const c10::IValue &value, const tpj_param &param) {
        tpj_arg arg{};
        if (param.kind == TPJ_PARAM_DTYPE) {
            arg.kind = TPJ_ARG_DTYPE;
            arg.dtype = dtype_of(value.toScalarType());
        } else if (value.isList()) {
            return baked_list(value);
        } else if (value.isString()) {
            arg.kind = TPJ_ARG_STRING;
            arg.string = value.toStringRef().c_str();
            arg.n = static_cast<int>(value.toStringRef().size());
        } else if (value.isBool()) {
            arg.kind = TPJ_ARG_BOOL;
            arg.boolean = value.toBool();
        } else if (value.isInt()) {
            arg.kind = TPJ_ARG_INT;
            arg.integer = value.toInt();
        } else if (value.isComplexDouble()) {
            arg.kind = TPJ_ARG_COMPLEX;
            arg.complex_number[0] = value.toComplexDouble().real();
            arg.complex_number[1] = value.toComplexDouble().imag();
        } else if (value.isDouble()) {
            arg.kind = TPJ_ARG_FLOAT;
            arg.number = value.toDouble();
        }
        return arg;
    }

    tpj_arg argument(const c10::IValue &value, const tpj_param &param) {
        tpj_arg arg{};
        if (value.isNone()) return arg;
        const bool runs =
            (param.kind == TPJ_PARAM_SCALAR && !param.baked && !param.floats) || param.kind == TPJ_PARAM_RUN_FLOAT;
        if (next_floating > 0 && floats(param, value)) {
            if (value.isList()) {
                auto &list = refs.emplace_back();
                for (size_t i = value.toListRef().size(); i > 0; i--) list.push_back({TPJ_INPUT, next_floating++ - 1});
                arg.kind = TPJ_ARG_SCALARS;
                arg.n = static_cast<int>(list.size());
                arg.values = list.data();
                return arg;
            }
            arg.kind = TPJ_ARG_VALUE;
            arg.value = {TPJ_INPUT, next_floating++ - 1};
            return arg;
        }
        if (param.kind == TPJ_PARAM_GENERATOR) return arg;
        if (param.kind == TPJ_PARAM_TENSOR || runs) {
            if (value.isList()) return values(value, runs);
            if (value.isTensor() && !value.toTensor().defined()) return arg;
            arg.kind = TPJ_ARG_VALUE;
            arg.value = add_input();
            return arg;
        }
        return baked(value, param);
    }
};

} // namespace

tpj_graph *tpj_glue_call::make_graph(const char *file, int line) const {
    tpj_graph *graph = nullptr;
    tpj_glue_check(tpj_graph_create(&graph));
    std::unique_ptr<tpj_graph, decltype(&tpj_graph_destroy)> owner(graph, &tpj_graph_destroy);
    const int n_own = static_cast<int>(operands_.size()) - n_floating_;
    GraphWriter writer{graph, operands_, tensors_, aliases_, n_floating_ > 0 ? n_own + 1 : 0};
    std::vector<tpj_arg> args;
    std::vector<std::pair<int, int>> spans(static_cast<size_t>(op_.n_arguments),
                                           {0, 0}); /* operands of each schema argument */
    for (const tpj_glue_parameter &parameter : op_.parameters) {
        const int first = writer.next;
        if (parameter.from_out)
            args.push_back(writer.argument(dtype_or_that_of_out(parameter), parameter.param));
        else
            args.push_back(parameter.index < 0 ? tpj_arg{}
                                               : writer.argument(argument(parameter.index), parameter.param));
        if (parameter.index >= 0) spans[static_cast<size_t>(parameter.index)] = {first, writer.next};
    }
    TORCH_INTERNAL_ASSERT(writer.next == n_own, op_.name, " gave ", n_own, " operands and wrote ", writer.next);
    for (int i = 0; i < n_floating_; i++) {
        tpj_input value{};
        tpj_ref value_ref;
        value.kind = TPJ_INPUT_SCALAR;
        value.number = true;
        value.type.dtype = dtype_of_number(changing_[static_cast<size_t>(i)].kind);
        tpj_glue_check(tpj_graph_add_input(graph, &value, &value_ref));
    }
    tpj_input random{};
    tpj_ref random_ref;
    random.kind = TPJ_INPUT_RANDOM;
    random.type.dtype = TPJ_U64;
    if (tpj_op_is_random(op_.row)) tpj_glue_check(tpj_graph_add_input(graph, &random, &random_ref));
    int node;
    tpj_glue_check(tpj_graph_add_node(graph, op_.row, args.data(), static_cast<int>(args.size()), file, line, &node));
    if (op_.written.empty() || op_.form == tpj_glue_form::out) return owner.release();

    const auto add_output = [&](int result, int target, const tpj_view *view) {
        tpj_output output{};
        output.value = {node, result};
        output.target = target;
        output.view = view;
        output.order_of_op = target < 0;
        tpj_glue_check(tpj_graph_add_output(graph, &output));
    };
    int result = 0;
    for (; result < op_.n_new_returns; result++) add_output(result, -1, nullptr);
    for (const int written : op_.written) {
        const auto [first, end] = spans[static_cast<size_t>(written)];
        if (first == end) result += !argument(written).isList(); /* None: its result is dropped */
        for (int operand = first; operand < end; operand++)
            add_output(result++, operand, tpj_graph_input(graph, operand)->view);
    }
    return owner.release();
}

tpj_graph *tpj_glue_operands::make_inputs() const {
    tpj_graph *graph = nullptr;
    tpj_glue_check(tpj_graph_create(&graph));
    std::unique_ptr<tpj_graph, decltype(&tpj_graph_destroy)> owner(graph, &tpj_graph_destroy);
    GraphWriter writer{graph, operands_, tensors_, aliases_};
    while (writer.next < n_operands()) writer.add_input();
    return owner.release();
}
