"""Rules of ops that read and write by indices, and of losses by labels."""

from typing import Any

import torch
from torch import fx

from torch_pjrt.compile.padding._builder import Builder
from torch_pjrt.compile.padding._parts import (
    Dim,
    Dims,
    Unfit,
    Value,
    is_padded,
    is_prefix,
    padded_size,
    part,
    same_dim,
    true_size,
    unfilled,
)
from torch_pjrt.compile.padding._rule import (
    Call,
    named,
    plain_int,
    require_static,
    rule,
)

aten = torch.ops.aten


# ---- indices ----


def _index(b: Builder, index: Value, into: Dim, always: bool = False) -> Value:
    """Indices that name the same elements of a padded dimension, or of one that is made longer (`always`); those in the
    padding are 0. What is out of the true range is moved out of the padded one, so that it is found."""
    index = b.filled(index, 0)
    if not is_padded(into) and not always:
        return index
    if not is_prefix(into):
        raise Unfit("an index along a dimension that merges padded ones")
    n, size = b.operand(true_size(into)), padded_size(into) + always
    gap = b.operand(size - true_size(into))
    node = index.node
    wrapped = b.node(aten.where.self, b.node(aten.lt.Scalar, node, 0), b.node(aten.add.Scalar, node, n), node)
    behind = b.node(aten.where.self, b.node(aten.ge.Scalar, node, n), b.node(aten.add.Scalar, node, gap), wrapped)
    low = b.node(aten.sub.Scalar, wrapped, size)
    return Value(b.node(aten.where.self, b.node(aten.lt.Scalar, wrapped, 0), low, behind), index.dims)


def _longer(b: Builder, x: Value, dim: int) -> Value:
    """With one element more along a dimension: where writes go that come from padding."""
    n = padded_size(x.dims[dim])
    widths = [0] * (2 * (len(x.dims) - 1 - dim) + 1) + [1]
    longer = b.node(aten.constant_pad_nd.default, x, widths, 0)
    return Value(longer, (*x.dims[:dim], part(n + 1, n + 1), *x.dims[dim + 1 :]))


def _shorter(b: Builder, node: fx.Node, x: Value, dim: int) -> Value:
    return Value(b.node(aten.slice.Tensor, node, dim, 0, padded_size(x.dims[dim]), 1), unfilled(x.dims))


@rule("embedding")
def embedding(b: Builder, call: Call) -> Any:
    require_static(call["weight"], "the weight of an embedding")
    index = b.filled(call["indices"], 0)
    return named(b, call, unfilled((*index.dims, call["weight"].dims[1])), "operand", indices=index)


@rule("embedding_dense_backward")
def embedding_backward(b: Builder, call: Call) -> Any:
    if call["scale_grad_by_freq"]:
        raise Unfit("gradients scaled by how often padded indices occur")
    gradient, index = b.filled(call["grad_output"], 0), b.filled(call["indices"], 0)
    n = plain_int(call["num_weights"])
    return named(b, call, (part(n, n), gradient.dims[-1]), grad_output=gradient, indices=index)


@rule("index_select")
def index_select(b: Builder, call: Call) -> Any:
    x = call["self"]
    dim = x.wrap(call["dim"])
    index = _index(b, call["index"], x.dims[dim])
    dims = (*x.dims[:dim], *(index.dims or ((),)), *x.dims[dim + 1 :])
    return named(b, call, unfilled(dims), index=index)


@rule("gather")
def gather(b: Builder, call: Call) -> Any:
    x = call["self"]
    dim = x.wrap(call["dim"])
    index = _index(b, call["index"], x.dims[dim])
    _aligned(index, x, dim)
    return named(b, call, unfilled(index.dims), index=index)


@rule("scatter_add", "scatter.src", "scatter.value", "scatter_reduce.two", "scatter.reduce", "scatter.value_reduce")
def scatter(b: Builder, call: Call) -> Any:
    """What comes from padding is written behind the end."""
    x, given = call["self"], call["index"]
    dim = x.wrap(call["dim"])
    _aligned(given, x, dim)
    source = call.given.get("src")
    for d, size in enumerate(source.dims if isinstance(source, Value) else ()):
        if len(size) > 1 and not same_dim(size, given.dims[d]):
            raise Unfit(f"dimension {d} of the source of a scatter is padded in another way than its index")
    if not given.padded_dims():
        return named(b, call, unfilled(x.dims), index=_index(b, given, x.dims[dim]))
    longer = _longer(b, x, dim)
    index = _index(b, given, x.dims[dim], always=True)
    mask = b.mask(given.dims, given.padded_dims(), given.fake.device)
    n = padded_size(x.dims[dim])
    index_node = b.node(aten.where.self, mask, index, b.number(n, given.fake))
    changed = {"self": longer, "index": Value(index_node, given.dims)}
    return _shorter(b, named(b, call, longer.dims, "operand", **changed).node, x, dim)


def _aligned(index: Value, x: Value, dim: int) -> None:
    for d, (i, s) in enumerate(zip(index.dims, x.dims, strict=True)):
        if d != dim and len(i) > 1 and not same_dim(i, s):
            raise Unfit(f"dimension {d} of an index is padded in another way than what it reads")


def _indices(b: Builder, call: Call, longer: int | None = None) -> tuple[list[Any], list[int], Dims]:
    """The indices of an advanced index, and the dimensions of the result, with those that the indices make together.
    `longer`: a dimension that gets an element more, for what comes from padding."""
    x = call["self"]
    given = list(call["indices"])
    places = [d for d, index in enumerate(given) if index is not None]
    if any(given[d].fake.dtype in (torch.bool, torch.uint8) for d in places):
        raise Unfit("an index by a mask")
    made: list[Any] = [None] * len(given)
    for d in places:
        made[d] = _index(b, given[d], x.dims[d], always=d == longer)
    together = b.broadcast([made[d] for d in places])
    if longer is not None:
        chosen = [d for d, dim in enumerate(together) if is_padded(dim)]
        mask = b.mask(together, chosen, x.fake.device)
        behind = b.number(padded_size(x.dims[longer]), made[longer].fake)
        made[longer] = Value(b.node(aten.where.self, mask, made[longer], behind), together)
    adjacent = places == list(range(places[0], places[-1] + 1))
    rest = [dim for d, dim in enumerate(x.dims) if d not in places]
    at = places[0] if adjacent else 0
    return made, list(range(at, at + len(together))), unfilled([*rest[:at], *together, *rest[at:]])


@rule("index.Tensor", "_unsafe_index.Tensor")
def index(b: Builder, call: Call) -> Any:
    made, _, dims = _indices(b, call)
    return named(b, call, dims, indices=made)


@rule("index_put", "_unsafe_index_put")
def index_put(b: Builder, call: Call) -> Any:
    x = call["self"]
    made, together, dims = _indices(b, call)
    if not any(is_padded(dims[d]) for d in together):
        return named(b, call, unfilled(x.dims), indices=made)
    first = next(d for d, index in enumerate(made) if index is not None)
    made, _, _ = _indices(b, call, longer=first)
    longer = _longer(b, x, first)
    return _shorter(b, named(b, call, longer.dims, self=longer, indices=made).node, x, first)


# ---- losses ----


@rule("nll_loss_forward", "nll_loss_backward")
def nll_loss(b: Builder, call: Call) -> Any:
    """Labels in the padding are ones to ignore."""
    x, target = call["self"], call["target"]
    ignored = plain_int(call["ignore_index"])
    classes = x.dims[-1]
    if is_padded(classes):
        require_static(call["weight"], "the weight of classes")
        moved = _index(b, target, classes)
        kept = b.node(aten.eq.Scalar, target, ignored)
        target = Value(b.node(aten.where.self, kept, target, moved), target.dims)
    changed: dict[str, Any] = {"target": b.filled(target, ignored)}
    if "grad_output" in call.given:
        return named(b, call, unfilled(x.dims), **changed)
    dims = unfilled(target.dims) if call["reduction"] == 0 else ()
    return named(b, call, [dims, ()], **changed)
