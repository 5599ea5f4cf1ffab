"""Rules of reductions, of contractions, and of ops that take the last dimensions as one thing."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import FloatTrueDiv, OpaqueUnaryFn_sqrt

from torch_pjrt.compile.padding._builder import Builder, Rule
from torch_pjrt.compile.padding._parts import (
    Dim,
    Dims,
    Size,
    Unfit,
    Value,
    expression,
    identity,
    is_equal,
    is_padded,
    is_prefix,
    normal,
    padded_size,
    part,
    same_dim,
    true_size,
    unfilled,
)
from torch_pjrt.compile.padding._rule import (
    Call,
    fixed_dims,
    named,
    plain_int,
    require_static,
    rule,
)

aten = torch.ops.aten


# ---- reductions ----


def _reduced(x: Value, dim: Any, keepdim: bool) -> tuple[list[int], Dims]:
    """The dimensions that a reduction takes away, and those of its result."""
    given = [dim] if isinstance(dim, int) else list(dim if dim is not None else [])
    chosen = sorted({x.wrap(d) for d in given}) or list(range(len(x.dims)))
    dims = [() if d in chosen else old for d, old in enumerate(x.dims) if keepdim or d not in chosen]
    return chosen, unfilled(dims)


def _reduce(b: Builder, call: Call, fill: Any) -> Any:
    x = call["self"]
    chosen, dims = _reduced(x, call.given.get("dim"), call.given.get("keepdim", False))
    n = len(call.op._schema.returns)
    return named(b, call, dims if n == 1 else [dims] * n, self=b.filled(x, fill, chosen))


@rule("sum", "sum.dim_IntList", "nansum", "count_nonzero", "count_nonzero.dim_IntList", "any", "any.dim", "any.dims")
def sum_(b: Builder, call: Call) -> Any:
    return _reduce(b, call, 0)


@rule("prod", "prod.dim_int", "all", "all.dim", "all.dims")
def product(b: Builder, call: Call) -> Any:
    return _reduce(b, call, 1)


@rule("amax", "max", "max.dim")
def maximum(b: Builder, call: Call) -> Any:
    return _extreme(b, call, "max")


@rule("amin", "min", "min.dim")
def minimum(b: Builder, call: Call) -> Any:
    return _extreme(b, call, "min")


@rule("argmax")
def argmax(b: Builder, call: Call) -> Any:
    return _extreme(b, call, "max")


@rule("argmin")
def argmin(b: Builder, call: Call) -> Any:
    return _extreme(b, call, "min")


def _extreme(b: Builder, call: Call, kind: str) -> Any:
    """Padding lies behind the true elements, so that the first of equal ones is a true one."""
    x = call["self"]
    chosen, _ = _reduced(x, call.given.get("dim"), False)
    finds = call.op in (aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmin.default)
    flat = normal(p for d in chosen for p in x.dims[d])
    if finds and not is_prefix(flat):
        return _found_among_several(b, call, kind, chosen)
    return _reduce(b, call, identity(kind, x.fake.dtype))


def _found_among_several(b: Builder, call: Call, kind: str, chosen: Sequence[int]) -> Any:
    """An index into padded dimensions that are flattened, led back to the true sizes part by part."""
    x = call["self"]
    parts = [p for d in chosen for p in x.dims[d]]
    made = _reduce(b, call, identity(kind, x.fake.dtype))
    value, found = (None, made) if isinstance(made, Value) else made
    rest, step, result = found.node, sympy.Integer(1), None
    for p in reversed(parts):
        digit = b.node(aten.remainder.Scalar, rest, p.padded)
        rest = b.node(aten.div.Scalar_mode, rest, p.padded, rounding_mode="floor")
        digit = b.node(aten.mul.Scalar, digit, b.operand(step))
        result = digit if result is None else b.node(aten.add.Tensor, result, digit)
        step = sympy.expand(step * p.true)
    assert result is not None
    found = Value(result, found.dims)
    return found if value is None else [value, found]


@rule("logsumexp")
def logsumexp(b: Builder, call: Call) -> Any:
    return _reduce(b, call, identity("max", call["self"].fake.dtype))


@rule("linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype")
def norm(b: Builder, call: Call) -> Any:
    order = call.given.get("ord", call.given.get("p"))
    if isinstance(order, Size):
        raise Unfit("the order of a norm follows from sizes")
    order = 2 if order is None else order
    return _reduce(b, call, math.inf if order < 0 else 0)


def _count(x: Value, chosen: Sequence[int]) -> sympy.Expr:
    return sympy.expand(sympy.Mul(*(true_size(x.dims[d]) for d in chosen)))


def _sum_dtype(x: Value) -> torch.dtype:
    return torch.float32 if x.fake.dtype in (torch.float16, torch.bfloat16) else x.fake.dtype


def _rounded(b: Builder, node: fx.Node, dtype: torch.dtype) -> fx.Node:
    return node if node.meta["val"].dtype == dtype else b.node(aten._to_copy.default, node, dtype=dtype)


@rule("mean", "mean.dim")
def mean(b: Builder, call: Call) -> Any:
    """The sum of the true elements by their number, which the program is given."""
    x = call["self"]
    dtype = call.known.dtype
    x = x if dtype == x.fake.dtype else Value(_rounded(b, x.node, dtype), x.dims)
    keepdim = call.given.get("keepdim", False)
    chosen, dims = _reduced(x, call.given.get("dim"), keepdim)
    total = b.node(aten.sum.dim_IntList, b.filled(x, 0, chosen), chosen, keepdim, dtype=_sum_dtype(x))
    return Value(_rounded(b, b.node(aten.div.Tensor, total, b.operand(_count(x, chosen))), dtype), dims)


@rule("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def moments(b: Builder, call: Call) -> Any:
    x, keepdim = call["self"], call["keepdim"]
    if x.fake.dtype.is_complex or isinstance(call["correction"], Size):
        raise Unfit("a variance of complex numbers")
    dtype, wide = x.fake.dtype, _sum_dtype(x)
    chosen, dims = _reduced(x, call["dim"], keepdim)
    n = _count(x, chosen)
    center = b.node(aten.sum.dim_IntList, b.filled(x, 0, chosen), chosen, True, dtype=wide)
    center = b.node(aten.div.Tensor, center, b.operand(n))
    off = b.node(aten.sub.Tensor, _rounded(b, x.node, wide), center)
    squares = b.filled(Value(b.node(aten.mul.Tensor, off, off), unfilled(x.dims)), 0, chosen)
    correction = 1 if call["correction"] is None else call["correction"]
    left = sympy.Max(0, n - sympy.sympify(correction))
    result = b.node(aten.sum.dim_IntList, squares, chosen, keepdim)
    result = b.node(aten.div.Tensor, result, b.operand(left))
    if "std" in str(call.op):
        result = b.node(aten.sqrt.default, result)
    first = Value(_rounded(b, result, dtype), dims)
    if len(call.op._schema.returns) == 1:
        return first
    shape = [padded_size(dim) for dim in dims]
    return [first, Value(_rounded(b, b.reshape(center, shape), dtype), dims)]


@rule("_softmax", "_log_softmax")
def softmax(b: Builder, call: Call) -> Any:
    x = call["self"]
    return named(b, call, unfilled(x.dims), self=b.filled(x, -math.inf, [x.wrap(call["dim"])]))


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(b: Builder, call: Call) -> Any:
    gradient, output = call["grad_output"], call["output"]
    dim = [output.wrap(call["dim"])]
    changed = {"grad_output": b.filled(gradient, 0, dim), "output": b.filled(output, 0, dim)}
    return named(b, call, unfilled(output.dims), **changed)


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
def scanned(b: Builder, call: Call) -> Any:
    """An element depends on those before it, and padding lies behind."""
    x = call["self"]
    if not is_prefix(x.dims[x.wrap(call["dim"])] if x.dims else ()):
        raise Unfit("a scan along a dimension that merges padded ones")
    n = len(call.op._schema.returns)
    dims = unfilled(x.dims)
    return b.emit(call.op, call.args, call.kwargs, dims if n == 1 else [dims] * n)


@rule("sort", "sort.stable", "argsort", "argsort.stable", "topk")
def sort(b: Builder, call: Call) -> Any:
    """Padding is last in the order; where it equals true elements, a stable sort leaves it behind them."""
    x = call["self"]
    dim = x.wrap(call["dim"])
    if is_padded(x.dims[dim]):
        if not is_prefix(x.dims[dim]):
            raise Unfit("a dimension that merges padded ones is sorted")
        if call.op is aten.topk.default and (x.fake.dtype == torch.bool or not x.fake.dtype.is_floating_point):
            raise Unfit("the largest of integers of a padded dimension")
        falls = call.given.get("descending", call.given.get("largest", False))
        last = identity("max" if falls else "min", x.fake.dtype)
        if not falls and x.fake.dtype.is_floating_point:
            last = math.nan  # the largest, in PyTorch's order
        x = b.filled(x, last, [dim])
    dims = list(unfilled(x.dims))
    if "k" in call.given:
        dims[dim] = part(plain_int(call["k"]), plain_int(call["k"]))
    n = len(call.op._schema.returns)
    return named(b, call, tuple(dims) if n == 1 else [tuple(dims)] * n, self=x)


# ---- contractions ----


def _same(a: Dim, b: Dim, what: str) -> Dim:
    if not same_dim(a, b):
        raise Unfit(f"{what} of {true_size(a)} and {true_size(b)} are padded in different ways")
    return a


@rule("mm", "bmm", "dot", "vdot", "mv")
def product_of_matrices(b: Builder, call: Call) -> Any:
    x, y = [value for value in call.given.values() if isinstance(value, Value)][:2]
    out, x, y = _contract(b, x, y)
    return b.emit(call.op, (x, y), {}, out)


def _contract(b: Builder, x: Value, y: Value) -> tuple[Dims, Value, Value]:
    """[*batch, m, k] or [k] by [*batch, k, n] or [k]."""
    inner_x, inner_y = len(x.dims) - 1, max(len(y.dims) - 2, 0)
    _same(x.dims[inner_x], y.dims[inner_y], "sizes to sum over")
    x, y = b.filled(x, 0, [inner_x]), b.filled(y, 0, [inner_y])
    batch = [_same(p, q, "batches") for p, q in zip(x.dims[:-2], y.dims[:-2], strict=False)]
    return unfilled([*batch, *x.dims[len(batch) : -1], *y.dims[inner_y + 1 :]]), x, y


@rule("addmm", "baddbmm", "addmv")
def added_product(b: Builder, call: Call) -> Any:
    names = [name for name, value in call.given.items() if isinstance(value, Value)]
    x, y = call[names[1]], call[names[2]]
    out, x, y = _contract(b, x, y)
    b.broadcast([call["self"], Value(x.node, out)])
    return named(b, call, out, "operand", **{names[1]: x, names[2]: y})


@rule("convolution")
def convolution(b: Builder, call: Call) -> Any:
    """Convolutions pad with zeros themselves: a padded size is a longer border of them."""
    x, weight = call["input"], call["weight"]
    require_static(weight, "the weight of a convolution")
    if x.padded_dims([1]) or not all(map(is_prefix, x.dims[2:])):
        raise Unfit("the channels of a convolution are padded")
    sizes = [part(e, b.bucket(Size(e))) for e in call.true_sizes()]
    return named(b, call, (x.dims[0], *sizes[1:]), input=b.filled(x, 0, range(2, len(x.dims))))


@rule("convolution_backward")
def convolution_backward(b: Builder, call: Call) -> Any:
    x, weight = call["input"], call["weight"]
    require_static(weight, "the weight of a convolution")
    if x.padded_dims([1]) or not all(map(is_prefix, x.dims[2:])):
        raise Unfit("the channels of a convolution are padded")
    changed = {"grad_output": b.filled(call["grad_output"], 0), "input": b.filled(x, 0)}
    dims = [unfilled(x.dims), weight.dims, (weight.dims[1] if call["transposed"] else weight.dims[0],)]
    if call["transposed"] and call["bias_sizes"]:
        dims[2] = (part(call["bias_sizes"][0], call["bias_sizes"][0]),)
    return named(b, call, dims, **changed)


@rule("_scaled_dot_product_fused_attention_overrideable")
def attention(b: Builder, call: Call) -> Any:
    changed, causal = _attention_operands(b, call)
    q, v = call["query"].dims, call["value"].dims
    known = call.known
    dims = [(*q[:3], v[3]), q[:3], *[fixed_dims(value) for value in known[2:]]]
    return named(b, call, [unfilled(d) if d else d for d in dims], **changed, is_causal=causal)


@rule("_scaled_dot_product_fused_attention_overrideable_backward")
def attention_backward(b: Builder, call: Call) -> Any:
    changed, causal = _attention_operands(b, call)
    for name in ("grad_out", "out", "logsumexp"):
        changed[name] = b.filled(call[name], 0)
    for name, operand in (("max_q", "query"), ("max_k", "key")):
        changed[name] = padded_size(call[operand].dims[2])
    bias = call["attn_bias"]
    dims = [unfilled(call[name].dims) for name in ("query", "key", "value")]
    dims.append(unfilled(bias.dims) if isinstance(bias, Value) else ())
    return named(b, call, dims, **changed, is_causal=causal)


def _attention_operands(b: Builder, call: Call) -> tuple[dict[str, Any], bool]:
    """Operands without padding, and a mask that hides keys which are padding. A causal mask does so by itself where
    queries and keys are as many: each query sees keys up to its own place."""
    q, k, v = call["query"], call["key"], call["value"]
    if not all(is_prefix(x.dims[2]) for x in (q, k, v)):
        raise Unfit("an attention over a dimension that merges padded ones")
    if (is_padded(q.dims[1]) or is_padded(k.dims[1])) and not same_dim(q.dims[1], k.dims[1]):
        raise Unfit("the heads of an attention are padded")
    changed: dict[str, Any] = {"query": b.filled(q, 0), "key": b.filled(k, 0), "value": b.filled(v, 0)}
    if is_padded(q.dims[3]) and call["scale"] is None:
        changed["scale"] = b.operand(FloatTrueDiv(sympy.Float(1.0), OpaqueUnaryFn_sqrt(true_size(q.dims[3]))))
    bias, causal = call["attn_bias"], call["is_causal"]
    rows, columns = q.dims[2], k.dims[2]
    if isinstance(bias, Value):
        hidden = False if bias.fake.dtype == torch.bool else -math.inf
        last = [len(bias.dims) - 1]
        bias = b.filled(bias, not hidden if hidden is False else 0, range(last[0]))
        changed["attn_bias"] = b.filled(bias, hidden, last)
        if is_padded(columns) and not bias.padded_dims(last):
            changed["attn_bias"] = _hide_keys(b, bias, hidden, columns)
    elif is_padded(columns) and not (causal and same_dim(rows, columns)):
        device = q.fake.device
        mask = b.node(aten.view.default, b.validity(columns, device), [1, padded_size(columns)])
        if causal:
            row = b.node(aten.view.default, b.iota(padded_size(rows), device), [padded_size(rows), 1])
            column = b.node(aten.view.default, b.iota(padded_size(columns), device), [1, padded_size(columns)])
            mask = b.node(aten.logical_and.default, mask, b.node(aten.le.Tensor, column, row))
        changed["attn_bias"] = mask
        causal = False
    return changed, causal


def _hide_keys(b: Builder, bias: Value, hidden: Any, columns: Dim) -> fx.Node:
    """A mask that is the same for all keys, for each key."""
    mask = b.node(aten.view.default, b.validity(columns, bias.fake.device), [1, padded_size(columns)])
    return b.node(aten.where.self, mask, bias, b.number(hidden, bias.fake))


# ---- by the last dimensions ----


def _by_last(n: Callable[[Call], int], operands: Sequence[str], zero: bool = False) -> Rule:
    """The last n dimensions of the operands are not padded, those before are free; `zero`: results sum over these."""

    def run(b: Builder, call: Call) -> Any:
        count = n(call)
        values = {name: call[name] for name in operands if isinstance(call[name], Value)}
        for value in values.values():
            if value.padded_dims(range(len(value.dims) - count, len(value.dims))):
                raise Unfit(f"{call.op} over padded dimensions")
        changed = {name: b.filled(value, 0) for name, value in values.items()} if zero else {}
        first = next(iter(values.values()))
        lead = first.dims[: len(first.dims) - count]
        known = call.known if isinstance(call.known, (list, tuple)) else [call.known]
        dims = [None if k is None else _after(lead, k, b) for k in known]
        return named(b, call, dims if isinstance(call.known, (list, tuple)) else dims[0], **changed)

    return run


def _after(lead: Dims, known: torch.Tensor, b: Builder) -> Dims:
    """The free dimensions where the result has them, and fixed ones."""
    sizes = [expression(size) for size in known.shape]
    has = len(sizes) >= len(lead) and all(is_equal(true_size(d), s) for d, s in zip(lead, sizes, strict=False))
    kept = len(lead) if has else 0
    return unfilled([*lead[:kept], *(part(e, b.bucket(Size(e))) for e in sizes[kept:])])


def _normalized(call: Call) -> int:
    return len(call["normalized_shape"])


rule("native_layer_norm", "_fused_rms_norm")(_by_last(_normalized, ["input"]))


@rule("native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm_backward(b: Builder, call: Call) -> Any:
    """The gradients of weight and bias are sums over the free dimensions."""
    n, x = _normalized(call), call["input"]
    if x.padded_dims(range(len(x.dims) - n, len(x.dims))):
        raise Unfit(f"{call.op} over padded dimensions")
    names = [name for name in ("grad_out", "input", "mean", "rstd") if isinstance(call.given.get(name), Value)]
    changed = {name: b.filled(call[name], 0) for name in names}
    inner = x.dims[len(x.dims) - n :]
    dims = [unfilled(x.dims), *[inner] * (len(call.op._schema.returns) - 1)]
    return named(b, call, dims, **changed)


def _image(n: int) -> Callable[[Call], int]:
    return lambda call: n


for _n, _ops in {
    1: [
        "max_pool1d_with_indices",
        "avg_pool1d",
        "adaptive_avg_pool1d",
        "glu",
        "upsample_linear1d",
        "upsample_nearest1d",
    ],
    2: ["max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d", "upsample_nearest2d"]
    + ["upsample_bilinear2d", "upsample_bicubic2d", "reflection_pad2d", "replication_pad2d", "pixel_shuffle"],
    3: ["max_pool3d_with_indices", "avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool3d", "upsample_nearest3d"]
    + ["upsample_trilinear3d"],
}.items():
    for _op in _ops:
        _first = "input" if _op in ("upsample_linear1d",) else "self"
        rule(_op)(_by_last(_image(_n), [_first]))
        _packet = getattr(aten, _op + "_backward", None)
        if _packet is not None:
            _names = [a.name for a in _packet.default._schema.arguments if "Tensor" in str(a.type)]
            rule(_op + "_backward")(_by_last(_image(_n), _names))
