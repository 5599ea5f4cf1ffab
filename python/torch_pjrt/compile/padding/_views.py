"""Rules of elementwise ops, of tensors made from sizes, and of views."""

from typing import Any

import sympy
import torch
from torch import fx

from torch_pjrt.compile.padding._builder import Builder
from torch_pjrt.compile.padding._parts import (
    Dim,
    Dims,
    Size,
    Unfit,
    Value,
    is_padded,
    is_prefix,
    normal,
    padded_size,
    part,
    regroup,
    true_size,
    unfilled,
)
from torch_pjrt.compile.padding._rule import (
    POINTWISE,
    RULES,
    Call,
    dims_of,
    named,
    plain_int,
    rule,
    tensors_of,
)

aten = torch.ops.aten


# ---- elementwise ----

_KEEP_FILL = {aten.clone.default, aten._to_copy.default, aten.alias.default, aten.detach.default}
_INTEGER_DIVISION = {aten.div.Tensor_mode, aten.remainder.Tensor, aten.fmod.Tensor, aten.floor_divide.default}


@rule(
    "_to_copy",
    "alias",
    "detach",
    "lift_fresh_copy",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "randint_like.low_dtype",
    "empty_like",
    "native_dropout",
    "bernoulli.p",
    "where.ScalarOther",
    "where.ScalarSelf",
    "where.Scalar",
    "masked_fill.Tensor",
    "fill.Scalar",
    "fill.Tensor",
    "_conj",
    "_conj_physical",
    "polar",
    "complex",
    "log_sigmoid_forward",
    "log_sigmoid_backward",
    "isin.Tensor_Tensor",
    "contiguous",
    "_prelu_kernel",
)
def elementwise(b: Builder, call: Call) -> Any:
    tensors = tensors_of(call)
    if call.op in (aten.isin.Tensor_Tensor,) and call["test_elements"].padded_dims():
        raise Unfit("elements to look for that are padded")
    dims = b.broadcast([call["elements"]] if call.op is aten.isin.Tensor_Tensor else tensors)
    if len(tensors) == 1 and call.op in _KEEP_FILL:
        dims = tensors[0].dims
    if call.op in _INTEGER_DIVISION and isinstance(call["other"], Value):  # a division by zero would be an error
        return named(b, call, dims, "operand", other=b.filled(call["other"], 1))
    n = len(call.op._schema.returns)
    return b.emit(call.op, call.args, call.kwargs, dims if n == 1 else [dims] * n, "operand")


@rule("copy")
def copy(b: Builder, call: Call) -> Any:
    return b.emit(call.op, call.args, call.kwargs, unfilled(call["self"].dims))


@rule("copy_")
def write(b: Builder, call: Call) -> Any:
    if call["self"].padded_dims():
        raise Unfit("an input whose size changes is written")
    return b.emit(call.op, call.args, call.kwargs, call["self"].dims)


@rule("view_as_real", "view_as_complex", "real", "imag", "view_as_real_copy")
def complex_parts(b: Builder, call: Call) -> Any:
    dims = call["self"].dims
    n = len(call.true_sizes())
    dims = (*dims, part(2, 2)) if n > len(dims) else dims[:n]
    return b.emit(call.op, call.args, call.kwargs, unfilled(dims))


RULES[POINTWISE] = elementwise


# ---- made from sizes ----


@rule(
    "full",
    "zeros",
    "ones",
    "empty.memory_format",
    "rand",
    "randn",
    "randint",
    "randint.low",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "scalar_tensor",
)
def made(b: Builder, call: Call) -> Any:
    """Sizes are buckets; a number to fill with is an operand."""
    changed = {name: Size(v.expr) if isinstance(v, Size) else v for name, v in call.given.items()}
    for name in ("fill_value", "s"):
        if isinstance(changed.get(name), Size):
            changed[name] = b.operand(changed[name].expr)
    for name in ("low", "high"):
        if isinstance(changed.get(name), Size):
            raise Unfit("random numbers in a range that follows from sizes")
    return named(b, call, dims_of(call, b), **changed)


@rule("arange", "arange.start", "arange.start_step")
def arange(b: Builder, call: Call) -> Any:
    start = call.given.get("start") or 0
    step = call.given.get("step")
    step = 1 if step is None else step
    known = call.known
    dims = dims_of(call, b)
    n = padded_size(dims[0])
    integers = (Size, int)
    if known.dtype.is_floating_point or not isinstance(start, integers) or not isinstance(step, int):
        raise Unfit("a range of floats whose size follows from sizes")
    node = b.iota(n, known.device)
    if step != 1:
        node = b.node(aten.mul.Scalar, node, step)
    if start != 0:
        node = b.node(aten.add.Scalar, node, b.operand(start.expr) if isinstance(start, Size) else start)
    if known.dtype != torch.int64:
        node = b.node(aten._to_copy.default, node, dtype=known.dtype)
    return Value(node, dims)


# ---- views ----


@rule("view", "_unsafe_view", "reshape", "view_copy", "_reshape_copy")
def view(b: Builder, call: Call) -> Any:
    x = call["self"]
    dims = regroup(x.dims, [(e, b.bucket(Size(e))) for e in call.true_sizes()])
    return Value(b.reshape(x, [padded_size(dim) for dim in dims]), dims)


@rule("permute", "permute_copy")
def permute(b: Builder, call: Call) -> Any:
    x = call["self"]
    return b.emit(call.op, call.args, call.kwargs, tuple(x.dims[x.wrap(d)] for d in call["dims"]))


@rule("t", "transpose.int", "numpy_T", "mT", "t_copy", "transpose_copy.int")
def transpose(b: Builder, call: Call) -> Any:
    x = call["self"]
    dims = list(x.dims)
    if len(dims) > 1:
        i, j = x.wrap(call.given.get("dim0", -1)), x.wrap(call.given.get("dim1", -2))
        dims[i], dims[j] = dims[j], dims[i]
    return b.emit(call.op, call.args, call.kwargs, tuple(dims))


@rule("unsqueeze", "unsqueeze_copy")
def unsqueeze(b: Builder, call: Call) -> Any:
    dims = list(call["self"].dims)
    dims.insert(call["dim"] % (len(dims) + 1), ())
    return b.emit(call.op, call.args, call.kwargs, tuple(dims))


@rule("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dim")
def squeeze(b: Builder, call: Call) -> Any:
    """To the sizes that the captured graph has: a padded dimension is none of 1."""
    return view(b, call)


@rule("expand", "expand_copy")
def expand(b: Builder, call: Call) -> Any:
    x = call["self"]
    sizes = call.true_sizes()
    before = len(sizes) - len(x.dims)
    dims = [part(e, b.bucket(Size(e))) for e in sizes]
    for d, dim in enumerate(x.dims, before):
        dims[d] = dim or dims[d]
    return Value(b.node(aten.expand.default, x, [padded_size(dim) for dim in dims]), tuple(dims))


@rule("repeat")
def repeat(b: Builder, call: Call) -> Any:
    x, counts = call["self"], call["repeats"]
    dims: list[Dim] = []
    for d, count in enumerate(counts, len(x.dims) - len(counts)):
        n = b.bucket(count)
        true = count.expr if isinstance(count, Size) else sympy.Integer(count)
        dims.append(normal([*part(true, n), *(x.dims[d] if d >= 0 else ())]))
    return b.emit(call.op, call.args, call.kwargs, unfilled(dims))


@rule("slice.Tensor")
def slice_(b: Builder, call: Call) -> Any:
    x = call["self"]
    dim = x.wrap(call["dim"])
    length = call.true_sizes()[dim]
    return b.slice(x, dim, start_of(call["start"], x.dims[dim]), length, plain_int(call["step"]))


def start_of(start: Any, dim: Dim) -> sympy.Expr:
    """Where a slice begins, from 0; what is negative counts from the true end."""
    n = true_size(dim)
    expr = start.expr if isinstance(start, Size) else sympy.Integer(0 if start is None else start)
    if expr.is_nonnegative:
        return expr if n.is_Integer is False or not expr.is_Integer else sympy.Min(expr, n)
    if expr.is_negative:
        return sympy.Max(0, n + expr) if n.is_Integer else sympy.expand(n + expr)
    raise Unfit(f"a slice that begins at {expr}, before or behind the end")


@rule("split.Tensor", "split_with_sizes", "chunk", "split_with_sizes_copy", "unbind.int")
def split(b: Builder, call: Call) -> Any:
    x = call["self"]
    dim = x.wrap(call["dim"])
    if call.op is aten.unbind.int:
        if is_padded(x.dims[dim]):
            raise Unfit("a padded dimension is taken apart")
        dims = [x.dims[:dim] + x.dims[dim + 1 :]] * len(call.known)
        return b.emit(call.op, call.args, call.kwargs, dims)
    start: sympy.Expr = sympy.Integer(0)
    parts = []
    for i in range(len(call.known)):
        length = call.true_sizes(i)[dim]
        parts.append(b.slice(x, dim, start, length))
        start = sympy.expand(start + length)
    return parts


def place_of(b: Builder, index: Any, dim: Dim) -> Any:
    """An index from 0 along a dimension: an int, or a node for one that is known at run time."""
    if not is_prefix(dim):
        raise Unfit("an index along a dimension that merges padded ones")
    expr = index.expr if isinstance(index, Size) else sympy.Integer(index)
    if expr.is_negative:
        expr = expr + true_size(dim)
    elif not expr.is_nonnegative:
        raise Unfit(f"an index {expr}, before or behind the end")
    return b.operand(expr)


@rule("select.int", "select_copy.int")
def select(b: Builder, call: Call) -> Any:
    x = call["self"]
    dim = x.wrap(call["dim"])
    dims = unfilled(x.dims[:dim] + x.dims[dim + 1 :])
    place = place_of(b, call["index"], x.dims[dim])
    if isinstance(place, int):
        return Value(b.node(aten.select.int, x, dim, place), dims)
    index = b.node(aten.full.default, [1], place, dtype=torch.int64, device=x.fake.device)
    taken = b.node(aten.index_select.default, x, dim, index)
    return Value(b.reshape(taken, [padded_size(d) for d in dims]), dims)


@rule("select_scatter", "select_backward")
def select_scatter(b: Builder, call: Call) -> Any:
    into, source, dims = _scatter_operands(b, call)
    dim = call["dim"] % len(dims)
    if not is_padded(dims[dim]) and isinstance(call["index"], int):
        return Value(b.node(aten.select_scatter.default, into, source, dim, call["index"]), dims)
    place = place_of(b, call["index"], dims[dim])
    here = b.node(aten.eq.Scalar, b.iota(padded_size(dims[dim]), into.meta["val"].device), place)
    return Value(_choose(b, here, b.node(aten.unsqueeze.default, source, dim), into, dim, len(dims)), dims)


@rule("slice_scatter", "slice_backward")
def slice_scatter(b: Builder, call: Call) -> Any:
    into, source, dims = _scatter_operands(b, call)
    dim = call["dim"] % len(dims)
    if plain_int(call["step"]) != 1:
        if is_padded(dims[dim]):
            raise Unfit("a write with steps along a padded dimension")
        return named(b, call, dims)
    start, length = start_of(call["start"], dims[dim]), true_size(source.dims[dim])
    device, n = into.meta["val"].device, padded_size(dims[dim])
    if not (is_prefix(dims[dim]) and is_prefix(source.dims[dim])):
        raise Unfit("a write along a dimension that merges padded ones")
    at = b.node(aten.sub.Scalar, b.iota(n, device), b.operand(start))
    inside = b.node(
        aten.logical_and.default, b.node(aten.ge.Scalar, at, 0), b.node(aten.lt.Scalar, at, b.operand(length))
    )
    index = b.node(aten.clamp.default, at, 0, padded_size(source.dims[dim]) - 1)
    placed = b.node(aten.index_select.default, source, dim, index)
    return Value(_choose(b, inside, placed, into, dim, len(dims)), dims)


def _scatter_operands(b: Builder, call: Call) -> tuple[fx.Node, Value, Dims]:
    """What is written into (zeros, for a backward op), what is written, and the dimensions of the result."""
    if "src" in call.given:
        return call["self"].node, call["src"], unfilled(call["self"].dims)
    source = call["grad_output"]
    dims = list(dims_of(call, b))
    for d, old in enumerate(source.dims):  # dimensions that merge others come from the gradient
        at = d + 1 if "index" in call.given and d >= call["dim"] % len(dims) else d
        if at != call["dim"] % len(dims):
            dims[at] = old
    like = source.fake
    zeros = b.node(aten.full.default, [padded_size(d) for d in dims], 0, dtype=like.dtype, device=like.device)
    return zeros, source, unfilled(dims)


def _choose(b: Builder, condition: fx.Node, x: Any, y: Any, dim: int, rank: int) -> fx.Node:
    """x where a condition along one dimension holds, else y."""
    n = condition.meta["val"].shape[0]
    shaped = b.node(aten.view.default, condition, [n if k == dim else 1 for k in range(rank)])
    return b.node(aten.where.self, shaped, x, y)


@rule("cat")
def cat(b: Builder, call: Call) -> Any:
    """Along a padded dimension: the true elements move together, by one gather."""
    tensors: list[Value] = [x for x in call["tensors"] if x.fake.shape != (0,)]
    dim = tensors[0].wrap(call["dim"])
    rest = b.broadcast([Value(x.node, (*x.dims[:dim], (), *x.dims[dim + 1 :])) for x in tensors])
    joined = b.node(aten.cat.default, [x.node for x in tensors], dim)
    lengths = [x.dims[dim] for x in tensors]
    if not any(map(is_padded, lengths)):
        n = joined.meta["val"].shape[dim]
        return Value(joined, (*rest[:dim], part(n, n), *rest[dim + 1 :]))
    if not all(map(is_prefix, lengths)):
        raise Unfit("a concatenation along a dimension that merges padded ones")
    total = sympy.expand(sum(map(true_size, lengths)))
    n = sum(map(padded_size, lengths))
    dims = (*rest[:dim], part(total, n), *rest[dim + 1 :])
    if not any(map(is_padded, lengths[:-1])):
        return Value(joined, dims)
    device = tensors[0].fake.device
    iota = b.iota(n, device)
    index = iota
    true, padded = sympy.Integer(0), 0
    for length in lengths[:-1]:
        true, padded = true + true_size(length), padded + padded_size(length)
        behind = b.node(aten.ge.Scalar, iota, b.operand(true))
        gap = b.operand(padded - true)
        moved = b.node(aten.add.Scalar, iota, gap)
        index = b.node(aten.where.self, behind, moved, index)
    index = b.node(aten.clamp.default, index, 0, n - 1)
    return Value(b.node(aten.index_select.default, joined, dim, index), dims)


@rule("stack")
def stack(b: Builder, call: Call) -> Any:
    tensors = call["tensors"]
    dims = list(b.broadcast(tensors))
    dims.insert(call["dim"] % (len(dims) + 1), part(len(tensors), len(tensors)))
    return b.emit(call.op, call.args, call.kwargs, tuple(dims))


@rule("flip")
def flip(b: Builder, call: Call) -> Any:
    x = call["self"]
    flipped = sorted({x.wrap(d) for d in call["dims"]})
    node = b.node(aten.flip.default, x, [d for d in flipped if not is_padded(x.dims[d])])
    for d in x.padded_dims(flipped):
        if not is_prefix(x.dims[d]):
            raise Unfit("a dimension that merges padded ones is flipped")
        n = padded_size(x.dims[d])
        back = b.node(aten.neg.default, b.iota(n, x.fake.device))
        back = b.node(aten.add.Scalar, back, b.operand(true_size(x.dims[d]) - 1))
        node = b.node(aten.index_select.default, node, d, b.node(aten.clamp.default, back, 0, n - 1))
    return Value(node, unfilled(x.dims))


@rule("constant_pad_nd")
def pad(b: Builder, call: Call) -> Any:
    x, widths, value = call["self"], call["pad"], call["value"]
    if not all(isinstance(width, int) for width in widths) or isinstance(value, Size):
        raise Unfit("the widths of a pad follow from sizes")
    padded = [len(x.dims) - 1 - i // 2 for i, width in enumerate(widths) if width]
    if not all(is_prefix(x.dims[d]) for d in padded):
        raise Unfit("a pad of a dimension that merges padded ones")
    sizes = call.true_sizes()
    dims = tuple(part(e, b.bucket(Size(e))) if d in padded else x.dims[d] for d, e in enumerate(sizes))
    return named(b, call, unfilled(dims), self=b.filled(x, value, padded))


@rule("tril", "triu")
def triangle(b: Builder, call: Call) -> Any:
    x = call["self"]
    plain_int(call["diagonal"])
    if not all(map(is_prefix, x.dims[-2:])):
        raise Unfit("a triangle of dimensions that merge padded ones")
    return b.emit(call.op, call.args, call.kwargs, unfilled(x.dims))
