/* The CPU as the last resort: counted, warned of once per op, and an error where the user asked for one. */
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <mutex>
#include <unordered_map>

#include "api.h"
#include "base/config.h"
#include "dispatch.h"
#include "trace.h"

namespace {

struct Fallbacks {
    std::mutex mutex;
    std::vector<const char *> names; /* static: ops are never unregistered, names are interned below */
    std::unordered_map<std::string, std::pair<const char *, int64_t>> calls;
};

Fallbacks &fallbacks() {
    static auto *all = new Fallbacks;
    return *all;
}

/* True the first time since the last reset. */
bool count_fallback(const std::string &name) {
    Fallbacks &all = fallbacks();
    const std::lock_guard<std::mutex> lock(all.mutex);
    auto [entry, fresh] = all.calls.try_emplace(name, nullptr, 0);
    if (fresh) {
        entry->second.first = strdup(name.c_str()); /* handed out as static: one per op and reset */
        all.names.push_back(entry->second.first);
    }
    entry->second.second++;
    return fresh;
}

void report(const tpj_glue_op &op) {
    const std::string mode = tpj_config_fallback();
    const std::string name = "aten::" + op.name;
    const auto &full = op.handle.operator_name();
    const std::string shown = full.name.rfind("aten::", 0) == 0
                                  ? name
                                  : full.name + (full.overload_name.empty() ? "" : "." + full.overload_name);
    TORCH_CHECK_NOT_IMPLEMENTED(
        mode != "error", shown,
        " has no kernel for the tpu device, and running it on the CPU is turned off "
        "(TORCH_PJRT_FALLBACK=error, torch.tpu.config.fallback). Set it to \"warn\" to let it run there");
    if (count_fallback(shown) && mode == "warn")
        TORCH_WARN(shown, " has no kernel for the tpu device and runs on the CPU: its operands are copied there and "
                          "its results back. "
                          "torch.tpu.fallbacks() counts such calls; TORCH_PJRT_FALLBACK=silent turns this warning off, "
                          "=error makes it an error.");
}

/* The arguments of a call as the CPU sees them, and the device to come back to. */
class OnCpu {
public:
    explicit OnCpu(torch::jit::Stack &stack, size_t base) : stack_(stack), base_(base) {}

    void move_arguments() {
        for (size_t i = base_; i < stack_.size(); i++) originals_.push_back(stack_[i]);
        for (size_t i = base_; i < stack_.size(); i++) move(stack_[i]);
    }

    /* Results that are written go back to where they came from. */
    void copy_back(const tpj_glue_op &op, const std::vector<c10::IValue> &moved) const {
        for (const int written : op.written) {
            const c10::IValue &before = originals_[static_cast<size_t>(written)],
                              &after = moved[static_cast<size_t>(written)];
            if (before.isTensor()) {
                write_back(before.toTensor(), after.toTensor());
            } else if (before.isList()) {
                for (size_t k = 0; k < before.toListRef().size(); k++)
                    if (before.toListRef()[k].isTensor())
                        write_back(before.toListRef()[k].toTensor(), after.toListRef()[k].toTensor());
            }
        }
    }

    c10::IValue bring_back(const c10::IValue &value) const {
        if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(value.toTensor().to(device())) : value;
        if (value.isTensorList()) {
            c10::List<at::Tensor> list;
            for (const at::Tensor &tensor : value.toTensorVector())
                list.push_back(tensor.defined() ? tensor.to(device()) : tensor);
            return list;
        }
        return value;
    }

    const c10::IValue &original(int i) const { return originals_[static_cast<size_t>(i)]; }

    /* The key of the CPU's kernel, after move_arguments. */
    c10::DispatchKey kernel() const { return kernel_; }

private:
    c10::Device device() const { return device_ ? *device_ : tpj_glue_device(tpj_glue_device_index(-1)); }

    static void write_back(const at::Tensor &to, const at::Tensor &from) {
        if (!to.defined() || !to.is_privateuseone()) return;
        if (at::sparse_csr::is_sparse_compressed(to)) {
            to.resize_as_sparse_(from);
        } else if (!to.is_sparse() && to.sizes() != from.sizes()) {
            to.resize_(from.sizes());
            if (to.strides() != from.strides()) to.as_strided_(from.sizes(), from.strides());
        }
        to.copy_(from);
    }

    at::Tensor to_cpu(const at::Tensor &tensor) {
        if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
        if (!device_) device_ = tensor.device();
        if (tensor.is_sparse() && kernel_ == c10::DispatchKey::CPU) kernel_ = c10::DispatchKey::SparseCPU;
        if (at::sparse_csr::is_sparse_compressed(tensor)) kernel_ = c10::DispatchKey::SparseCsrCPU;
        return tensor.to(at::kCPU);
    }

    void move(c10::IValue &value) {
        if (value.isTensor()) {
            value = to_cpu(value.toTensor());
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> list;
            for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(to_cpu(tensor));
            value = list;
        } else if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> list;
            for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
                list.push_back(tensor ? std::optional<at::Tensor>(to_cpu(*tensor)) : std::nullopt);
            value = list;
        } else if (value.isDevice()) {
            if (value.toDevice().is_privateuseone())
                device_ = tpj_glue_device(tpj_glue_device_index(value.toDevice().index()));
            value = c10::Device(at::kCPU);
        } else if (value.isGenerator()) {
            value = cpu_generator(value.toGenerator());
        }
    }

    /* A generator on the CPU that continues ours: seeded from its next numbers. */
    static at::Generator cpu_generator(const at::Generator &generator) {
        if (generator.device().is_cpu()) return generator;
        uint64_t state[2];
        tpj_generator_reserve(generator.unsafeGetGeneratorImpl(), generator.device().index(), 4, state);
        return at::make_generator<at::CPUGeneratorImpl>(state[0] ^ state[1] * 0x9E3779B97F4A7C15u);
    }

    torch::jit::Stack &stack_;
    const size_t base_;
    std::vector<c10::IValue> originals_;
    std::optional<c10::Device> device_;
    c10::DispatchKey kernel_ = c10::DispatchKey::CPU;
};

/* A result on the CPU of operands here would be written there, and nothing said. */
void check_out_devices(const tpj_glue_op &op, const torch::jit::Stack &stack) {
    const auto arguments = torch::jit::last(stack, static_cast<size_t>(op.n_arguments));
    for (const int written : op.written) {
        const c10::IValue &value = arguments[static_cast<size_t>(written)];
        if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().is_privateuseone()) continue;
        TORCH_CHECK(false, "Expected all tensors to be on the same device, but ", op.name,
                    " has operands on tpu and its out= tensor is on ", value.toTensor().device());
    }
}

/* PyTorch's CPU hands these numbers to LAPACK as they are, and MKL ends the process on those that are not finite. */
void check_finite(const tpj_glue_op &op, const c10::IValue &matrices) {
    const std::string &name = op.handle.operator_name().name;
    if (name != "aten::linalg_eig" && name != "aten::_linalg_eigvals" && name != "aten::linalg_eigvals") return;
    TORCH_CHECK_LINALG(
        at::isfinite(matrices.toTensor()).all().item<bool>(),
        "linalg.eig: The algorithm failed to converge because the input matrix contained non-finite values.");
}

} // namespace

void tpj_glue_run_on_cpu(const tpj_glue_op &op, torch::jit::Stack &stack) {
    report(op);
    const size_t base = stack.size() - static_cast<size_t>(op.n_arguments);
    OnCpu call(stack, base);
    call.move_arguments();
    if (op.n_arguments > 0) check_finite(op, stack[base]);
    const std::vector<c10::IValue> moved(stack.begin() + static_cast<std::ptrdiff_t>(base), stack.end());
    op.handle.redispatchBoxed(c10::DispatchKeySet(call.kernel()), &stack);
    call.copy_back(op, moved);
    for (size_t i = 0; i < op.return_alias.size(); i++) {
        c10::IValue &value = stack[base + i];
        value = op.return_alias[i] >= 0 ? call.original(op.return_alias[i]) : call.bring_back(value);
    }
}

void tpj_glue_fall_back(const tpj_glue_op &op, torch::jit::Stack &stack) {
    if (op.form == tpj_glue_form::out) check_out_devices(op, stack);
    if (!tpj_glue_run_traced(op, stack)) tpj_glue_run_on_cpu(op, stack);
}

int tpj_glue_fallbacks_count(void) {
    const std::lock_guard<std::mutex> lock(fallbacks().mutex);
    return static_cast<int>(fallbacks().names.size());
}

const char *tpj_glue_fallbacks_name(int i) {
    const std::lock_guard<std::mutex> lock(fallbacks().mutex);
    return i >= 0 && static_cast<size_t>(i) < fallbacks().names.size() ? fallbacks().names[static_cast<size_t>(i)]
                                                                       : nullptr;
}

int64_t tpj_glue_fallbacks_calls(int i) {
    const char *name = tpj_glue_fallbacks_name(i);
    const std::lock_guard<std::mutex> lock(fallbacks().mutex);
    const auto found = name != nullptr ? fallbacks().calls.find(name) : fallbacks().calls.end();
    return found != fallbacks().calls.end() ? found->second.second : 0;
}

void tpj_glue_fallbacks_reset(void) {
    const std::lock_guard<std::mutex> lock(fallbacks().mutex);
    fallbacks().names.clear();
    fallbacks().calls.clear();
}
