/* The fast path of nn.MultiheadAttention and nn.TransformerEncoderLayer in inference, which PyTorch takes on this device
 * too: composed of ops that have rows, with the same results as the modules' other path. */
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>

#include "glue.h"

namespace tpj {
namespace {

using Optional = std::optional<at::Tensor>;

/* The kinds of mask of torch.nn.functional: true hides. */
enum MaskKind { SOURCE, KEY_PADDING, PER_HEAD }; /* [T, S], [N, S], [N, heads, T, S] */

/* Broadcastable to [N, heads, T, S]. */
at::Tensor hidden_places(const at::Tensor &mask, std::optional<int64_t> kind) {
    TORCH_CHECK(kind.has_value(), "mask_type must be given with a mask");
    at::Tensor hidden = mask.to(at::kBool);
    if (*kind == KEY_PADDING) return hidden.unsqueeze(1).unsqueeze(1);
    TORCH_CHECK(*kind == SOURCE || *kind == PER_HEAD,
                "mask_type should be 0 (src_mask), 1 (src_key_padding_mask) or 2, not ", *kind);
    return hidden;
}

/* [N, T, D] to [N, heads, T, D / heads] */
at::Tensor split_heads(const at::Tensor &x, int64_t heads) {
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/* The three projections of [N, T, D], each [N, heads, T, D / heads]. */
std::array<at::Tensor, 3> project(const std::array<at::Tensor, 3> &inputs, int64_t width, int64_t heads,
                                  const at::Tensor &weight, const at::Tensor &bias) {
    std::array<at::Tensor, 3> out;
    if (inputs[0].is_same(inputs[1]) && inputs[0].is_same(inputs[2])) {
        auto all = at::linear(inputs[0], weight, bias).chunk(3, -1);
        for (size_t i = 0; i < 3; i++) out[i] = split_heads(all[i].contiguous(), heads);
        return out;
    }
    for (size_t i = 0; i < 3; i++) {
        auto start = static_cast<int64_t>(i) * width;
        out[i] =
            split_heads(at::linear(inputs[i], weight.narrow(0, start, width), bias.narrow(0, start, width)), heads);
    }
    return out;
}

std::tuple<at::Tensor, at::Tensor> multi_head_attention(const at::Tensor &query, const at::Tensor &key,
                                                        const at::Tensor &value, int64_t embed_dim, int64_t num_head,
                                                        const at::Tensor &qkv_weight, const at::Tensor &qkv_bias,
                                                        const at::Tensor &proj_weight, const at::Tensor &proj_bias,
                                                        const Optional &mask, bool need_weights,
                                                        bool average_attn_weights, std::optional<int64_t> mask_type) {
    for (const at::Tensor *x : {&query, &key, &value})
        TORCH_CHECK(x->dim() == 3, "expected 3-D query, key and value, got ", x->dim(), "-D tensor");
    TORCH_CHECK(num_head > 0 && embed_dim % num_head == 0, "embed_dim must divide evenly by num_head");
    TORCH_CHECK(query.size(2) == embed_dim, "passed-in embed_dim ", embed_dim, " didn't match last dim of query ",
                query.size(2));
    auto [q, k, v] = project({query, key, value}, embed_dim, num_head, qkv_weight, qkv_bias);
    at::Tensor attended, weights, hidden;
    if (mask.has_value() && mask->defined()) hidden = hidden_places(*mask, mask_type);
    if (!need_weights && !hidden.defined()) {
        attended = at::scaled_dot_product_attention(q, k, v);
    } else {
        double scale = 1 / std::sqrt(static_cast<double>(embed_dim / num_head));
        at::Tensor scores = at::matmul(q.mul(scale), k.transpose(-2, -1));
        if (hidden.defined()) scores = scores.masked_fill(hidden, -INFINITY);
        weights = at::softmax(scores, -1);
        if (hidden.defined()) weights = weights.masked_fill(hidden, 0); /* rows that are hidden as a whole, too */
        attended = at::matmul(weights, v);
    }
    attended = attended.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim});
    if (!need_weights)
        weights = at::Tensor();
    else if (average_attn_weights)
        weights = weights.mean(1);
    return {at::linear(attended, proj_weight, proj_bias), weights};
}

at::Tensor encoder_layer(const at::Tensor &src, int64_t embed_dim, int64_t num_heads, const at::Tensor &qkv_weight,
                         const at::Tensor &qkv_bias, const at::Tensor &proj_weight, const at::Tensor &proj_bias,
                         bool use_gelu, bool norm_first, double eps, const at::Tensor &norm_weight_1,
                         const at::Tensor &norm_bias_1, const at::Tensor &norm_weight_2, const at::Tensor &norm_bias_2,
                         const at::Tensor &ffn_weight_1, const at::Tensor &ffn_bias_1, const at::Tensor &ffn_weight_2,
                         const at::Tensor &ffn_bias_2, const Optional &mask, std::optional<int64_t> mask_type) {
    auto norm = [&](const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias) {
        return at::layer_norm(x, {embed_dim}, weight, bias, eps);
    };
    at::Tensor x = norm_first ? norm(src, norm_weight_1, norm_bias_1) : src;
    x = src.add(std::get<0>(multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
                                                 proj_bias, mask, false, true, mask_type)));
    if (!norm_first) x = norm(x, norm_weight_1, norm_bias_1);
    at::Tensor inner = at::linear(norm_first ? norm(x, norm_weight_2, norm_bias_2) : x, ffn_weight_1, ffn_bias_1);
    x = x.add(at::linear(use_gelu ? at::gelu(inner) : at::relu(inner), ffn_weight_2, ffn_bias_2));
    return norm_first ? x : norm(x, norm_weight_2, norm_bias_2);
}

/* nn.TransformerEncoder asks whether padding may be left out by way of a nested tensor of the old layout: there is none on
 * this device, and it then goes on with the mask. */
bool may_be_nested(const at::Tensor & /*t*/, const at::Tensor & /*mask*/) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_native_multi_head_attention", TORCH_FN(multi_head_attention));
    library.impl("_transformer_encoder_layer_fwd", TORCH_FN(encoder_layer));
    library.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(may_be_nested));
}

} // namespace
} // namespace tpj
