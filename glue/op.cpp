#include "op.h"

#include <algorithm>
#include <string_view>

namespace {

std::string full_name(const c10::OperatorName &name) {
    std::string base = name.name.substr(name.name.find("::") + 2);
    return name.overload_name.empty() ? base : base + "." + name.overload_name;
}

const tpj_op_def *row_of(std::string_view name) { return tpj_op_find(name.data(), name.size()); }

bool is_written(const c10::Argument &argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/* All overload names of an ATen op, read once: the out= forms are matched against them. */
const std::unordered_map<std::string, std::vector<std::string>> &overloads_by_base() {
    static const auto *found = [] {
        auto *map = new std::unordered_map<std::string, std::vector<std::string>>;
        for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames())
            if (name.name.rfind("aten::", 0) == 0) (*map)[name.name.substr(6)].push_back(name.overload_name);
        return map;
    }();
    return *found;
}

/* The functional overloads whose arguments are those of an out= overload without the outputs, tried in turn. */
template <typename Visit>
void for_each_functional_of_out(const c10::FunctionSchema &schema, const std::string &base, const Visit &visit) {
    std::vector<const c10::Argument *> inputs;
    for (const c10::Argument &argument : schema.arguments())
        if (!(argument.kwarg_only() && is_written(argument))) inputs.push_back(&argument);
    const auto found = overloads_by_base().find(base);
    if (found == overloads_by_base().end()) return;
    for (const std::string &overload : found->second) {
        const auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + base, overload});
        if (!handle) continue;
        const auto &arguments = handle->schema().arguments();
        bool same = std::none_of(arguments.begin(), arguments.end(), is_written);
        size_t next = 0;
        for (size_t i = 0; same && i < arguments.size(); i++) {
            const std::string &name = arguments[i].name();
            if (next < inputs.size() && name == inputs[next]->name() && *arguments[i].type() == *inputs[next]->type())
                next++;
            else /* factories take these where out= takes them from the output */
                same = arguments[i].kwarg_only() &&
                       (name == "dtype" || name == "layout" || name == "device" || name == "pin_memory");
        }
        if (same && next == inputs.size() && visit(*handle)) return;
    }
}

const tpj_op_def *row_of_out(const c10::FunctionSchema &schema, const std::string &base) {
    const tpj_op_def *row = nullptr;
    for_each_functional_of_out(schema, base, [&](const c10::OperatorHandle &handle) {
        row = row_of(full_name(handle.operator_name()));
        return row != nullptr;
    });
    return row;
}

/* "add_.Tensor" -> "add.Tensor", "__ior__.Scalar" -> "__or__.Scalar". */
std::string functional_base(const std::string &base) {
    if (base.size() > 4 && base.rfind("__i", 0) == 0 && base.compare(base.size() - 2, 2, "__") == 0)
        return "__" + base.substr(3);
    if (!base.empty() && base.back() == '_') return base.substr(0, base.size() - 1);
    return base;
}

} // namespace

const tpj_op_def *tpj_glue_find_row(const c10::OperatorHandle &handle, tpj_glue_form *out_form) {
    const c10::FunctionSchema &schema = handle.schema();
    const std::string base = schema.name().substr(schema.name().find("::") + 2), &overload = schema.overload_name();
    bool writes = false, out = false;
    for (const c10::Argument &argument : schema.arguments()) {
        writes = writes || is_written(argument);
        out = out || (is_written(argument) && argument.is_out());
    }
    *out_form = out ? tpj_glue_form::out : writes ? tpj_glue_form::inplace : tpj_glue_form::functional;
    const std::string suffix = overload.empty() ? "" : "." + overload;
    if (!writes) return row_of(base + suffix);
    if (out) return row_of_out(schema, base);
    /* An in-place overload has its functional twin's name; the few that are written under one name say "_functional",
     * conj_physical_ has a twin with an underscore in front, floor_divide_.Tensor one without an overload's name, and where
     * a number may stand on either side the twin says both ("pow_.Scalar" is pow.Tensor_Scalar, not pow.Scalar). */
    const std::string functional = functional_base(base);
    for (const std::string &candidate : {functional + ".Tensor_" + overload, functional + suffix, base + suffix,
                                         functional + "_functional" + suffix, "_" + functional + suffix})
        if (const tpj_op_def *row = row_of(candidate)) return row;
    return overload == "Tensor" ? row_of(functional) : nullptr;
}

std::optional<c10::OperatorHandle> tpj_glue_functional_twin(const c10::OperatorHandle &handle) {
    const c10::FunctionSchema &schema = handle.schema();
    const std::string base = schema.name().substr(schema.name().find("::") + 2);
    std::optional<c10::OperatorHandle> twin;
    if (std::none_of(schema.arguments().begin(), schema.arguments().end(), is_written)) return handle;
    if (std::any_of(schema.arguments().begin(), schema.arguments().end(),
                    [](const c10::Argument &a) { return is_written(a) && a.is_out(); }))
        for_each_functional_of_out(schema, base, [&](const c10::OperatorHandle &found) {
            twin = found;
            return true;
        });
    else if (const auto found =
                 c10::Dispatcher::singleton().findSchema({"aten::" + functional_base(base), schema.overload_name()}))
        twin = *found;
    return twin;
}

namespace {

/* Whether an out= tensor may say the dtype of the result: norms are in the dtype of their operand. */
bool row_says_dtype(const tpj_op_def &row) {
    return std::string_view(tpj_op_name(&row)).find("norm") == std::string_view::npos;
}

/* How an argument of an op without a row is read: tensors as operands, everything else into the key. */
tpj_param param_of(const c10::Argument &argument) {
    tpj_param param{};
    param.name = argument.name().c_str();
    param.name_length = argument.name().size();
    param.baked = true;
    param.kind = TPJ_PARAM_INT;
    c10::TypePtr type = argument.type();
    for (bool more = true; more;) {
        more = false;
        if (const auto optional = type->cast<c10::OptionalType>()) {
            type = optional->getElementType();
            more = true;
        } else if (const auto list = type->cast<c10::ListType>()) {
            param.list = true;
            type = list->getElementType();
            more = true;
        }
    }
    if (type->kind() == c10::TypeKind::TensorType) {
        param.kind = TPJ_PARAM_TENSOR;
        param.baked = false;
    }
    return param;
}

} // namespace

tpj_glue_op::tpj_glue_op(const c10::OperatorHandle &op, const tpj_op_def *op_row, tpj_glue_form op_form)
    : handle(op), row(op_row), form(op_form), name(full_name(op.operator_name())) {
    const c10::FunctionSchema &schema = op.schema();
    n_arguments = static_cast<int>(schema.arguments().size());
    generator_argument = schema.argumentIndexWithName("generator").value_or(-1);
    device_argument = schema.argumentIndexWithName("device").value_or(-1);
    check_errors_argument = schema.argumentIndexWithName("check_errors").value_or(-1);
    for (int i = 0; i < n_arguments; i++)
        if (is_written(schema.arguments()[i])) written.push_back(i);
    n_new_returns = 0;
    for (const c10::Argument &result : schema.returns()) {
        int alias = -1;
        for (int i = 0; i < n_arguments && result.alias_info() != nullptr; i++) {
            const auto *info = schema.arguments()[i].alias_info();
            if (info != nullptr && info->beforeSets() == result.alias_info()->beforeSets()) alias = i;
        }
        return_alias.push_back(alias);
        n_new_returns += alias < 0;
    }
    writes_lists = form == tpj_glue_form::inplace && std::any_of(written.begin(), written.end(), [&](int i) {
                       return schema.arguments()[static_cast<size_t>(i)].type()->kind() == c10::TypeKind::ListType;
                   });
    const std::string &base_name = op.operator_name().name;
    makes_alike = base_name.size() > 5 && base_name.compare(base_name.size() - 5, 5, "_like") == 0;
    uses_precision = true; /* until it is known what an op without a row is made of */
    prepares_indices = false;
    if (row == nullptr) {
        for (int i = 0; i < n_arguments; i++) parameters.push_back({param_of(schema.arguments()[i]), i, false});
        return;
    }
    const char *cursor = tpj_op_params(row);
    for (tpj_param param; tpj_param_next(&cursor, &param);) {
        const std::string name_of_param(param.name, param.name_length);
        const auto index = schema.argumentIndexWithName(name_of_param);
        const bool from_out = form == tpj_glue_form::out && param.kind == TPJ_PARAM_DTYPE && name_of_param == "dtype" &&
                              row_says_dtype(*row);
        parameters.push_back({param, index.value_or(-1), from_out});
    }
    const std::string_view family = tpj_op_family(row);
    uses_precision =
        family == "matmul" || family == "conv" || family == "attention" || family == "rnn" || family == "linalg";
    const std::string base = schema.name().substr(schema.name().find("::") + 2);
    prepares_indices = base == "index" || base == "index_put" || base == "index_put_" || base == "_index_put_impl_" ||
                       base == "_index_put_impl" || base == "_unsafe_index" || base == "_unsafe_index_put";
    if (form == tpj_glue_form::functional && tpj_op_writes(row) != nullptr) {
        std::string_view rest = tpj_op_writes(row);
        while (!rest.empty()) {
            const size_t comma = std::min(rest.find(','), rest.size());
            std::string_view word = rest.substr(0, comma);
            while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
            const auto index = schema.argumentIndexWithName(std::string(word));
            TORCH_INTERNAL_ASSERT(index, "row ", name, " writes an argument that its schema does not have");
            written.push_back(*index);
            rest.remove_prefix(std::min(comma + 1, rest.size()));
        }
    }
}
