/* Registration: one boxed kernel an ATen overload, in a loop over what PyTorch's dispatcher knows. */
#include <torch/library.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "api.h"
#include "dispatch.h"
#include "trace.h"

namespace {

/* The kernel of every overload. PyTorch keeps it, and with it the op's facts, for the life of the process. */
struct Kernel final : c10::OperatorKernel {
    explicit Kernel(const tpj_glue_op *facts) : op(facts) {}
    void operator()(const c10::OperatorHandle &, c10::DispatchKeySet, torch::jit::Stack *stack) const {
        if (C10_LIKELY(op->row != nullptr))
            tpj_glue_run(*op, *stack);
        else
            tpj_glue_fall_back(*op, *stack);
    }
    const tpj_glue_op *op;
};

std::unordered_map<std::string, const tpj_glue_op *> &registered_ops() {
    static auto *ops = new std::unordered_map<std::string, const tpj_glue_op *>;
    return *ops;
}

/* Returns that alias an argument without writing it: a view. The fallback would copy and lose writes through it. */
bool is_view(const c10::FunctionSchema &schema) {
    for (const c10::Argument &result : schema.returns())
        if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
    return false;
}

/* Ops that move between devices: PyTorch's composites end in _copy_from (copy.cpp), which knows both sides. Their rows serve
 * captured graphs. */
bool moves_between_devices(const c10::OperatorName &name) {
    return name.name == "aten::_to_copy" || name.name == "aten::copy_" || name.name == "aten::copy";
}

/* Their results are views that autograd does not know as such: PyTorch's composites make them, the rows serve graphs. */
bool is_unsafe_view(const c10::OperatorName &name) {
    return name.name == "aten::unsafe_split" || name.name == "aten::unsafe_split_with_sizes" ||
           name.name == "aten::_unsafe_view";
}

/* out= forms that PyTorch makes of the functional form, with rules of their own on dtypes and sizes. A few of those that
 * are written by hand need kernels which only the CPU has. */
bool is_composite_out(const c10::OperatorHandle &op, tpj_glue_form form) {
    static const std::unordered_set<std::string_view> for_the_cpu = {
        "aten::cummax", "aten::cummin", "aten::logcumsumexp", "aten::mode", "aten::cholesky_solve"};
    return form == tpj_glue_form::out && op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
           for_the_cpu.count(op.operator_name().name) == 0;
}

bool wants_kernel(const c10::OperatorHandle &op, const tpj_op_def *row, tpj_glue_form form) {
    if (is_composite_out(op, form)) return false;
    if (moves_between_devices(op.operator_name()) || is_unsafe_view(op.operator_name())) return false;
    if (op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return false; /* written by hand */
    /* what PyTorch composes for autograd too may be replaced only where it has a formula of its own (silu_backward) */
    if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
        (row == nullptr || !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd)))
        return false;
    if (op.hasTag(at::Tag::inplace_view)) return false; /* t_, squeeze_: metadata, never a write */
    if (is_view(op.schema())) return false;
    return row != nullptr || op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

void register_all(torch::Library &library) {
    for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
        if (name.name.rfind("aten::", 0) != 0) continue;
        const auto op = c10::Dispatcher::singleton().findSchema(name);
        if (!op) continue;
        tpj_glue_form form;
        const tpj_op_def *row = tpj_glue_find_row(*op, &form);
        if (!wants_kernel(*op, row, form)) continue;
        const auto *facts = new tpj_glue_op(*op, row, form);
        registered_ops().emplace(facts->name, facts);
        library.impl(facts->name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(facts)));
    }
}

/* Ops of other libraries, and ATen ops that came after the loop. */
void fall_back(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !is_view(op.schema()) && op.hasKernelForDispatchKey(c10::DispatchKey::CPU), op.operator_name(),
        " has no kernel for the tpu device, and none for the CPU that could stand in. Register one with "
        "torch.library for the dispatch key PrivateUse1 or CompositeExplicitAutograd");
    const tpj_glue_op facts(op, nullptr, tpj_glue_form::functional);
    tpj_glue_fall_back(facts, *stack);
}

} // namespace

const tpj_glue_op &tpj_glue_registered(const char *name, const char *overload) {
    const std::string full = *overload == '\0' ? name : std::string(name) + "." + overload;
    const auto found = registered_ops().find(full);
    TORCH_INTERNAL_ASSERT(found != registered_ops().end() && found->second->row != nullptr, full, " has no row");
    return *found->second;
}

/* The letters of a row's parameter for an argument of this type; NULL for what StableHLO text cannot have. */
const char *kind_of(c10::TypePtr type, std::string *suffix) {
    if (const auto optional = type->cast<c10::OptionalType>()) {
        const char *kind = kind_of(optional->getElementType(), suffix);
        *suffix += "?";
        return kind;
    }
    if (const auto list = type->cast<c10::ListType>()) {
        const char *kind = kind_of(list->getElementType(), suffix);
        *suffix += "[]";
        return kind;
    }
    switch (type->kind()) {
        case c10::TypeKind::TensorType: return "T";
        case c10::TypeKind::IntType:
        case c10::TypeKind::SymIntType: return "I";
        case c10::TypeKind::FloatType:
        case c10::TypeKind::SymFloatType: return "F";
        case c10::TypeKind::BoolType:
        case c10::TypeKind::SymBoolType: return "B";
        case c10::TypeKind::StringType: return "Str";
        default: return nullptr;
    }
}

/* "T x, I k": the parameters of a row for an op whose StableHLO is text. */
tpj_status *params_of(const c10::FunctionSchema &schema, std::string *out_params) {
    for (const c10::Argument &argument : schema.arguments()) {
        std::string suffix;
        const std::string real = argument.real_type()->str();
        const char *kind = real == "ScalarType"    ? "D"
                           : real == "ScalarType?" ? "D?"
                                                   : kind_of(argument.type(), &suffix);
        const std::string type = argument.type()->str();
        if (kind == nullptr)
            TPJ_ERROR(TPJ_VALUE, "%s: the argument %s is of type %s, which StableHLO text cannot have",
                      schema.name().c_str(), argument.name().c_str(), type.c_str());
        if (argument.alias_info() != nullptr)
            TPJ_ERROR(TPJ_VALUE,
                      "%s: the argument %s is written or returned, and StableHLO text is a function of values",
                      schema.name().c_str(), argument.name().c_str());
        *out_params += (out_params->empty() ? "" : ", ") + (kind + suffix) + " " + argument.name();
    }
    return nullptr;
}

/* After the kernels that are written by hand: this runs when Python's part of the package is loaded, not at static
 * initialisation, so that their registrations have all happened. */
extern "C" TPJ_API void tpj_glue_register(void) {
    static torch::Library *library = nullptr;
    if (library != nullptr) return;
    library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    register_all(*library);
}

tpj_status *tpj_glue_register_kernel(const char *name, const char *overload) {
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    const std::string full = *overload == '\0' ? name : std::string(name) + "." + overload;
    if (!op) TPJ_ERROR(TPJ_VALUE, "there is no op %s", full.c_str());
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
        TPJ_ERROR(TPJ_RUNTIME, "the op %s has a kernel for the tpu device already", full.c_str());
    std::string params;
    TPJ_TRY(params_of(op->schema(), &params));
    const tpj_op_def *row = nullptr;
    TPJ_TRY(tpj_op_register(full.c_str(), params.c_str(), &tpj_glue_write_kernel, nullptr, &row));
    const auto *facts = new tpj_glue_op(*op, row, tpj_glue_form::functional);
    const std::string space = full.substr(0, full.find("::"));
    auto *library = new torch::Library(torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(facts)));
    return nullptr;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}
