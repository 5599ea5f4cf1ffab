"""How the dimensions of a padded tensor are described.

A padded dimension has parts, outermost first: [batch, length] merged by a view is one dimension of two parts, and an
index is in the padding where any of its parts is. Most dimensions are one part, and those of size 1 none. The padded
size of a part is its symbolic size with the buckets put in, so that shapes fit wherever they did.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min

Fill = int | float | bool
Symbols = Mapping[sympy.Symbol, int]


class Unfit(Exception):
    """Why a graph cannot be padded."""


@dataclass(frozen=True)
class Part:
    """`true` elements of `padded`; `fill`: what every element in the padding holds, None where that is not known."""

    true: sympy.Expr
    padded: int
    fill: Fill | None = None

    @property
    def is_padded(self) -> bool:
        return not self.true.is_Integer

    def same(self, other: "Part") -> bool:
        return self.padded == other.padded and is_equal(self.true, other.true)


Dim = tuple[Part, ...]
Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Size:
    """A number that follows from sizes: what stands in the graph for a SymInt or SymFloat."""

    expr: sympy.Expr


@dataclass(frozen=True)
class Value:
    """A tensor of the padded graph."""

    node: fx.Node
    dims: Dims

    @property
    def fake(self) -> torch.Tensor:
        return self.node.meta["val"]

    def wrap(self, dim: int) -> int:
        return dim % max(len(self.dims), 1)

    def padded_dims(self, among: Iterable[int] | None = None) -> list[int]:
        chosen = range(len(self.dims)) if among is None else among
        return [d for d in chosen if is_padded(self.dims[d])]


def is_equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    return a == b or sympy.expand(a - b) == 0


def is_padded(dim: Dim) -> bool:
    return any(part.is_padded for part in dim)


def is_prefix(dim: Dim) -> bool:
    """Whether the true elements are the first ones: an index then is the same with and without padding."""
    return len(dim) <= 1


def true_size(dim: Dim) -> sympy.Expr:
    return sympy.Mul(*(part.true for part in dim))


def padded_size(dim: Dim) -> int:
    return math.prod(part.padded for part in dim)


def part(true: Any, padded: int) -> Dim:
    """A dimension of one part."""
    true = sympy.sympify(true)
    return () if true == 1 and padded == 1 else (Part(true, padded),)


def normal(parts: Iterable[Part]) -> Dim:
    """What lies under a part that is not padded is one with it: true elements stay the first ones."""
    result: list[Part] = []
    for p in parts:
        if p.true == 1 and p.padded == 1:
            continue
        if result and not p.is_padded:
            outer = result[-1]
            result[-1] = Part(sympy.expand(outer.true * p.true), outer.padded * p.padded, outer.fill)
        else:
            result.append(p)
    return tuple(result)


def same_dim(a: Dim, b: Dim) -> bool:
    return len(a) == len(b) and all(x.same(y) for x, y in zip(a, b, strict=True))


def unfilled(dims: Iterable[Dim]) -> Dims:
    return tuple(tuple(replace(p, fill=None) for p in dim) for dim in dims)


def grows(expr: sympy.Expr) -> bool:
    """Whether a size never falls when a symbol rises, so that it fits where buckets are put in."""
    if expr.is_Symbol or expr.is_Integer:
        return True
    if expr.is_Add:
        return all(term.is_Integer or grows(term) for term in expr.args)
    if expr.is_Mul or isinstance(expr, (Max, Min)):
        return all(grows(factor) and factor.is_nonnegative is not False for factor in expr.args)
    if isinstance(expr, (FloorDiv, CleanDiv)):
        return grows(expr.args[0]) and bool(expr.args[1].is_Integer) and expr.args[1] > 0
    return bool(expr.is_Pow and expr.args[1].is_Integer and expr.args[1] > 0 and grows(expr.args[0]))


def expression(value: Any) -> sympy.Expr:
    """Of a size or number, a symbol or not."""
    return value.node.expr if isinstance(value, (torch.SymInt, torch.SymFloat)) else sympy.sympify(value)


def identity(kind: str, dtype: torch.dtype) -> Fill:
    """What changes no maximum ("max") or minimum ("min")."""
    if dtype == torch.bool:
        return kind == "min"
    if dtype.is_floating_point:
        return -math.inf if kind == "max" else math.inf
    if dtype.is_complex:
        raise Unfit(f"{dtype} has no order")
    return torch.iinfo(dtype).min if kind == "max" else torch.iinfo(dtype).max


def regroup(dims: Dims, sizes: Sequence[tuple[sympy.Expr, int]]) -> Dims:
    """The dimensions behind a view with these (true, padded) sizes: the parts stay, and are grouped anew."""
    parts = [p for dim in dims for p in dim]
    result = [_take(parts, true, padded) for true, padded in reversed(sizes)]
    if any(p.padded != 1 for p in parts):
        raise Unfit("a view that splits a padded dimension")
    return tuple(reversed(result))


def _take(parts: list[Part], true: sympy.Expr, padded: int) -> Dim:
    """Parts for one dimension, taken from the end of a list; the last one may be split."""
    taken: list[Part] = []
    while padded != 1 or true != 1:
        if not parts:
            raise Unfit("a view that splits a padded dimension")
        last = parts.pop()
        if not last.is_padded and padded % last.padded == 0:
            taken.append(last)
            padded //= last.padded
            true = sympy.expand(true / last.true)
        elif last.is_padded and padded % last.padded == 0 and is_equal(true, last.true) is (padded == last.padded):
            taken.append(last)
            padded //= last.padded
            true = sympy.cancel(true / last.true)
        elif true.is_Integer and true == padded and last.padded % padded == 0:
            rest = sympy.expand(last.true / true)
            parts.append(Part(rest, last.padded // padded, last.fill))
            taken.append(Part(true, padded))
            padded, true = 1, sympy.Integer(1)
        else:
            raise Unfit("a view that splits a padded dimension")
    return normal(reversed(taken))
