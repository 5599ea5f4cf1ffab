/* One call of an op: its arguments read off PyTorch's stack once into a key and operands (every call), and a second time
 * into a graph (a miss only). Both walks follow the row's parameters, so operand i of the launch is input i of the graph.
 *
 * A call belongs to one thread and lives on its stack. */
#ifndef TPJ_GLUE_CALL_H
#define TPJ_GLUE_CALL_H

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "op.h"

class tpj_glue_call {
public:
    /* `stack`'s last op.n_arguments values are the arguments; they may be replaced (indices moved to the device). */
    tpj_glue_call(const tpj_glue_op &op, torch::jit::Stack &stack);

    /* Reads the arguments: fills the key, operands and device. Raises for operands on different devices. */
    void read();
    /* The one-node graph of the call, with written arguments as targets. */
    tpj_graph *make_graph(const char *file, int line) const;

    /* What may change from call to call and is baked at first: offsets of views, and parameters of kind I~ and S~
     * (tpj_eager_find_floating). */
    bool can_float() const { return !changing_.empty(); }
    /* The key of the family: those values struck out, and room for one more word. */
    c10::SmallVector<uint64_t, 96> family_key() const;
    /* Gives them as operands behind the call's own, to the launch and to the graph, or takes them away again. */
    void float_values(bool floating);

    /* The graph's inputs alone, for a call whose op has no row: the tracer fills in the rest. */
    tpj_graph *make_inputs() const;
    int n_operands() const { return static_cast<int>(operands_.size()); }

    /* The settings of PyTorch that the program depends on; they are in the key. */
    tpj_lower_options options() const;

    const c10::IValue &argument(int index) const { return stack_[base_ + static_cast<size_t>(index)]; }
    c10::IValue &argument(int index) { return stack_[base_ + static_cast<size_t>(index)]; }
    const c10::SmallVectorImpl<uint64_t> &key() const { return key_; }
    c10::SmallVectorImpl<uint64_t> &key() { return key_; }
    const c10::SmallVectorImpl<tpj_operand> &operands() const { return operands_; }
    c10::DeviceIndex device() const { return device_; }
    size_t base() const { return base_; }
    torch::jit::Stack &stack() const { return stack_; }
    const tpj_glue_op &op() const { return op_; }

private:
    void read_tensor(const at::Tensor &tensor, const tpj_param &parameter);
    void read_number(const c10::IValue &value);
    void read_baked(const c10::IValue &value);
    void read_parameter(const tpj_glue_parameter &parameter);
    c10::IValue dtype_or_that_of_out(const tpj_glue_parameter &parameter) const;
    void use_device(c10::DeviceIndex index);
    void decide_device();
    void read_aliases();

    const tpj_glue_op &op_;
    torch::jit::Stack &stack_;
    const size_t base_;
    c10::DeviceIndex device_ = -1;
    c10::SmallVector<uint64_t, 96> key_;
    c10::SmallVector<tpj_operand, 8> operands_;
    c10::SmallVector<const at::Tensor *, 8> tensors_; /* per operand; NULL for numbers */
    c10::SmallVector<int, 4> aliases_; /* per operand, as tpj_input.alias; empty when nothing is written */
    struct Changing {
        int at; /* where the value stands in the key */
        tpj_number_kind kind;
    };
    c10::SmallVector<Changing, 4> changing_; /* in the order in which they are read */
    int n_floating_ = 0;                     /* of them, those at the end of operands_ */
    std::vector<at::Tensor> kept_;           /* index tensors that were moved to the device */
};

/* The number in a CPU tensor of rank 0. */
tpj_operand tpj_glue_number_of(const at::Tensor &tensor);
tpj_operand tpj_glue_number_of(const c10::Scalar &scalar);

#endif
