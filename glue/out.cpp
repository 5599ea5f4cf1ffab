#include "out.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>

#include <string_view>
#include <unordered_set>

namespace {

template <typename Visit> void for_each_out(const tpj_glue_call &call, const Visit &visit) {
    for (const int written : call.op().written) {
        const c10::IValue &value = call.argument(written);
        if (value.isTensor())
            visit(value.toTensor());
        else if (value.isList())
            for (const c10::IValue &element : value.toListRef()) visit(element.toTensor());
    }
}

c10::ArrayRef<c10::IValue> arguments_of(const tpj_glue_call &call) {
    return torch::jit::last(call.stack(), static_cast<size_t>(call.op().n_arguments));
}

at::Tensor without_memory(const at::Tensor &tensor) {
    if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

c10::IValue without_memory(const c10::IValue &value) {
    if (value.isTensor()) return without_memory(value.toTensor());
    if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(without_memory(tensor));
        return list;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
            list.push_back(tensor ? std::optional<at::Tensor>(without_memory(*tensor)) : std::nullopt);
        return list;
    }
    if (value.isDevice()) return c10::Device(at::kMeta);
    return value.isGenerator() ? c10::IValue() : value;
}

/* Ops whose CPU kernels want out= tensors of the result's dtype, which PyTorch's kernels for tensors without memory do not
 * check: those that are written in Python convert whatever can be converted. */
bool converts_nothing(const tpj_glue_op &op) {
    static const std::unordered_set<std::string_view> exact = {"aten::_softmax",
                                                               "aten::abs",
                                                               "aten::all",
                                                               "aten::amax",
                                                               "aten::amin",
                                                               "aten::aminmax",
                                                               "aten::any",
                                                               "aten::bucketize",
                                                               "aten::complex",
                                                               "aten::conj_physical",
                                                               "aten::cross",
                                                               "aten::cummax",
                                                               "aten::cummin",
                                                               "aten::frexp",
                                                               "aten::hardshrink",
                                                               "aten::heaviside",
                                                               "aten::histc",
                                                               "aten::index_add",
                                                               "aten::index_copy",
                                                               "aten::index_select",
                                                               "aten::isin",
                                                               "aten::kthvalue",
                                                               "aten::linalg_cross",
                                                               "aten::_linalg_det",
                                                               "aten::_linalg_eigh",
                                                               "aten::linalg_lu",
                                                               "aten::linalg_lu_factor",
                                                               "aten::linalg_lu_factor_ex",
                                                               "aten::linalg_lu_solve",
                                                               "aten::linalg_qr",
                                                               "aten::_linalg_slogdet",
                                                               "aten::_linalg_solve_ex",
                                                               "aten::linalg_solve_triangular",
                                                               "aten::log_sigmoid_forward",
                                                               "aten::logcumsumexp",
                                                               "aten::lu_unpack",
                                                               "aten::median",
                                                               "aten::mode",
                                                               "aten::multinomial",
                                                               "aten::nan_to_num",
                                                               "aten::nanmedian",
                                                               "aten::neg",
                                                               "aten::nonzero",
                                                               "aten::ormqr",
                                                               "aten::polar",
                                                               "aten::renorm",
                                                               "aten::round",
                                                               "aten::scatter_reduce",
                                                               "aten::searchsorted",
                                                               "aten::softmax",
                                                               "aten::softplus",
                                                               "aten::softshrink",
                                                               "aten::sort",
                                                               "aten::take",
                                                               "aten::tril",
                                                               "aten::triu"};
    return !op.handle.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
           exact.count(op.handle.operator_name().name) != 0;
}

/* What the CPU's factories do: a row of the right length in any shape is filled, another one resized, without a warning. */
void resize_for_factory(const at::Tensor &out, at::Tensor &value) {
    if (value.dim() == 1 && out.numel() == value.numel())
        value = value.view(out.sizes());
    else
        out.resize_(value.sizes());
}

/* By moving the storage's contents where layouts agree, else by a copy. */
void take_result(const at::Tensor &out, at::Tensor value, const tpj_glue_op &op) {
    if (!value.defined()) return;
    if (tpj_op_is_factory(op.row))
        resize_for_factory(out, value);
    else if (at::native::resize_output(out, value.sizes()) && out.strides() != value.strides())
        out.as_strided_(value.sizes(), value.strides());
    const bool same = out.scalar_type() == value.scalar_type() && out.storage_offset() == 0 &&
                      out.strides() == value.strides() && out.storage().nbytes() == value.storage().nbytes() &&
                      !out.is_conj() && !out.is_neg();
    if (!same) {
        out.copy_(value);
        return;
    }
    tpj_storage *storage = storage_of(value);
    /* the value's own storage object is left empty */
    value.storage().set_data_ptr(c10::DataPtr(nullptr, out.device())).release_context();
    tpj_glue_check(tpj_storage_adopt(storage_of(out), storage));
}

/* Runs PyTorch's kernel for tensors without memory, if there is one: it checks arguments as the CPU's does. */
void run_without_memory(const tpj_glue_op &op, c10::ArrayRef<c10::IValue> arguments) {
    if (!op.handle.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return;
    torch::jit::Stack stack;
    for (const c10::IValue &argument : arguments) stack.push_back(without_memory(argument));
    op.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
}

} // namespace

/* Results are converted where PyTorch does that, which differs from op to op: its kernel for tensors without memory
 * checks it as its CPU kernel does. An op that has none converts nothing. */
void tpj_glue_check_conversion(const tpj_glue_op &op, c10::ArrayRef<c10::IValue> arguments, c10::ScalarType result,
                               c10::ScalarType out) {
    TORCH_CHECK_TYPE(c10::canCast(result, out) || op.handle.operator_name().name != "aten::cat",
                     "torch.cat(): input types can't be cast to the desired output type ", out);
    TORCH_CHECK(c10::canCast(result, out), "result type ", result, " can't be cast to the desired output type ", out,
                " (", op.name, ")");
    run_without_memory(op, arguments);
    TORCH_CHECK(!converts_nothing(op), "Expected out tensor to have dtype ", result, ", but got ", out, " instead (",
                op.name, ")");
}

void tpj_glue_check_out(const tpj_glue_call &call, const tpj_program *program) {
    const c10::Device device = tpj_glue_device(call.device());
    int next = 0;
    for_each_out(call, [&](const at::Tensor &out) {
        const tpj_result *result = tpj_program_result(program, next++);
        if (!out.defined()) return;
        TORCH_CHECK(out.device() == device, "Expected all tensors to be on the same device, but ", call.op().name,
                    " has operands on ", device, " and its out= tensor is on ", out.device());
        if (C10_UNLIKELY(!result->none && dtype_of(out) != result->type.dtype))
            tpj_glue_check_conversion(call.op(), arguments_of(call), scalar_type_of(result->type.dtype),
                                      out.scalar_type());
    });
}

void tpj_glue_take_results(tpj_glue_call &call, const c10::SmallVectorImpl<at::Tensor> &results) {
    size_t next = 0;
    for_each_out(call, [&](const at::Tensor &out) {
        if (out.defined()) take_result(out, results[next], call.op());
        next++;
    });
    c10::SmallVector<c10::IValue, 4> values;
    for (const int alias : call.op().return_alias) values.emplace_back(call.argument(alias));
    call.stack().resize(call.base());
    for (c10::IValue &value : values) call.stack().push_back(std::move(value));
}
