/* What a launch is told of its tensors, and one call of an op: its arguments read off PyTorch's stack once into a key and
 * operands (every call), and a second time into a graph (a miss only). Both walks follow the row's parameters, so operand i
 * of the launch is input i of the graph.
 *
 * Either belongs to one thread and lives on its stack. */
#ifndef TPJ_GLUE_CALL_H
#define TPJ_GLUE_CALL_H

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <string_view>
#include <vector>

#include "op.h"

/* Tensors as operands of a launch and words of its key: the dtype and sizes of each; strides, offset and base shape where it
 * is not its storage as it is. The tensors are borrowed. */
class tpj_glue_operands {
public:
    const c10::SmallVectorImpl<uint64_t> &key() const { return key_; }
    c10::SmallVectorImpl<uint64_t> &key() { return key_; }
    const c10::SmallVectorImpl<tpj_operand> &operands() const { return operands_; }
    /* Per operand; NULL for numbers. Borrowed from the call. */
    const c10::SmallVectorImpl<const at::Tensor *> &tensors() const { return tensors_; }
    int n_operands() const { return static_cast<int>(operands_.size()); }
    c10::DeviceIndex device() const { return device_; } /* -1: no tensor said one */

    /* A tensor of the device, a CPU tensor of rank 0 (a number), or an undefined one (a word of the key alone). Raises for
     * other tensors, and for devices that differ, in the words of `op` and `parameter`. */
    void read_tensor(const at::Tensor &tensor, std::string_view op, std::string_view parameter);
    void read_number(const c10::Scalar &number);
    /* Finds operands that are one buffer and puts that in the key: needed where something is written, because a buffer that
     * is donated must be given once. */
    void read_aliases();
    /* A graph of nothing but an input for each operand. */
    tpj_graph *make_inputs() const;

protected:
    void use_device(c10::DeviceIndex index, std::string_view op);

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
};

class tpj_glue_call : public tpj_glue_operands {
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

    /* The settings of PyTorch that the program depends on; they are in the key. */
    tpj_lower_options options() const;

    const c10::IValue &argument(int index) const { return stack_[base_ + static_cast<size_t>(index)]; }
    c10::IValue &argument(int index) { return stack_[base_ + static_cast<size_t>(index)]; }
    size_t base() const { return base_; }
    torch::jit::Stack &stack() const { return stack_; }
    const tpj_glue_op &op() const { return op_; }

private:
    void read_baked(const c10::IValue &value);
    void read_parameter(const tpj_glue_parameter &parameter);
    c10::IValue dtype_or_that_of_out(const tpj_glue_parameter &parameter) const;
    void decide_device();

    const tpj_glue_op &op_;
    torch::jit::Stack &stack_;
    const size_t base_;
    int n_floating_ = 0;           /* changing values that are operands now, at the end of operands_ */
    std::vector<at::Tensor> kept_; /* index tensors that were moved to the device */
};

/* The settings of PyTorch that every program depends on. `products`: the precision of float32 products, where it matters. */
tpj_lower_options tpj_glue_lower_options(bool products);
/* The same, and whether indices are checked, as a word for keys. */
uint64_t tpj_glue_options_word(bool products);

/* The number in a CPU tensor of rank 0. */
tpj_operand tpj_glue_number_of(const at::Tensor &tensor);
tpj_operand tpj_glue_number_of(const c10::Scalar &scalar);

#endif
