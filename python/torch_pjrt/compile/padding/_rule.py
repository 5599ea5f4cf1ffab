"""What each op needs so that padding never reaches a true element of its results: the table of rules.

A rule takes the builder and a call whose tensors are Values and whose sizes are Sizes, writes nodes, and returns
Values. One that cannot keep padding out raises Unfit. Ops are in classes by what they do with dimensions:

    elementwise   nothing: padding stays in its place
    views         dimensions are grouped and ordered anew
    reductions    padding is overwritten by what does not count: 0 of a sum, -inf of a maximum
    contractions  padding is 0 in both operands (0 in one would make NaN of an infinity in the other)
    by the last   the last dimensions are one thing (an image, a matrix) and must not be padded; those before are free
    indices       those in the padding name element 0 to read, and one behind the end to write

The rules are in _views.py, _sums.py and _indices.py.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_pjrt import _trace
from torch_pjrt.compile.padding._builder import Builder, Rule
from torch_pjrt.compile.padding._parts import (
    Dims,
    Size,
    Unfit,
    Value,
    expression,
    part,
)

aten = torch.ops.aten
RULES: dict[Any, Rule] = {}  # all rules, by op
POINTWISE = torch.Tag.pointwise  # in RULES: what PyTorch says is elementwise


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Registers a function for ops of aten ("sum.dim_IntList"); those that this PyTorch does not have are left out."""

    def register(function: Rule) -> Rule:
        for name in ops:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(aten, packet, None), overload or "default", None)
            if op is not None:
                RULES[op] = function
        return function

    return register


class Call:
    """A node's call: arguments by the names of its schema, with defaults filled in."""

    def __init__(self, node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.op: Any = node.target
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self.known: Any = node.meta.get("val")
        op: OpOverload = node.target  # type: ignore[assignment]
        schema = op._schema.arguments
        self.given: dict[str, Any] = {a.name: a.default_value for a in schema}
        self.given |= dict(zip(self.given, args, strict=False))
        self.given |= kwargs

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def true_sizes(self, result: int | None = None) -> list[sympy.Expr]:
        """The sizes of a result, as the captured graph knows them."""
        known = self.known if result is None else self.known[result]
        return [expression(size) for size in known.shape]


def apply(b: Builder, node: fx.Node, args: Any, kwargs: Any, env: Mapping[fx.Node, Any]) -> Any:
    """The node's results in the padded graph."""
    if node.target is operator.getitem:
        return args[0][args[1]]
    leaves = list(pytree.tree_leaves((args, kwargs)))
    changes = any(isinstance(x, Size) or (isinstance(x, Value) and x.padded_dims()) for x in leaves)
    if not changes:
        return b.emit(node.target, args, kwargs, fixed_dims(node.meta.get("val")))
    if not isinstance(node.target, OpOverload):
        raise Unfit(f"there is no rule for {node.target}")
    found = RULES.get(node.target)
    if found is None and POINTWISE in node.target.tags:
        found = RULES[POINTWISE]
    if found is not None:
        return found(b, Call(node, args, kwargs))
    table = _decompositions()
    if node.target not in table:
        raise Unfit(f"there is no rule for {node.target}")
    return b.decomposed(node, env, table)


def _decompositions() -> Mapping[Any, Any]:
    """Those of ops that have rows too."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    return {**decomposition_table, **core_aten_decompositions(), **_trace.decompositions()}


def fixed_dims(known: Any) -> Any:
    """The dimensions of results without symbols."""
    if isinstance(known, torch.Tensor):
        return tuple(part(size, size) for size in known.shape)
    if isinstance(known, (list, tuple)):
        return [fixed_dims(value) for value in known]
    return None


def tensors_of(call: Call) -> list[Value]:
    return [x for x in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(x, Value)]


def dims_of(call: Call, b: Builder, result: int | None = None) -> Dims:
    """Dimensions of one part each, by the captured graph's sizes."""
    return tuple(part(e, b.bucket(Size(e))) for e in call.true_sizes(result))


def named(b: Builder, call: Call, dims: Any, sizes: str = "bucket", /, **changed: Any) -> Any:
    """The call with other arguments."""
    given = {**call.given, **changed}
    schema = call.op._schema.arguments
    args = [given[a.name] for a in schema if not a.kwarg_only]
    kwargs = {a.name: given[a.name] for a in schema if a.kwarg_only}
    return b.emit(call.op, args, kwargs, dims, sizes)


def plain_int(value: Any) -> int:
    if not isinstance(value, int):
        raise Unfit(f"an argument of {value} follows from sizes")
    return value


def require_static(x: Any, what: str) -> None:
    if isinstance(x, Value) and x.padded_dims():
        raise Unfit(f"{what} is padded")
