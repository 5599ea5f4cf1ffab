"""A graph whose sizes are symbols as a graph of fixed, larger sizes: what lies behind the true sizes is padding.

The padded graph is the captured one, run again with a bucket in the place of each symbol. True sizes are operands of
it, so that one program serves every size of a bucket. Where padding would reach a value that counts (a sum, a
maximum, a product of matrices), it is overwritten first by what does not change the result. What each op needs is in
the rules (_rule.py); an op without a rule and without a decomposition raises Unfit.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from torch_pjrt import _trace
from torch_pjrt.compile import _values
from torch_pjrt.compile.padding._parts import (
    Dim,
    Dims,
    Fill,
    Part,
    Size,
    Symbols,
    Unfit,
    Value,
    expression,
    grows,
    is_equal,
    is_prefix,
    normal,
    padded_size,
    part,
    same_dim,
    true_size,
    unfilled,
)

aten = torch.ops.aten
Rule = Callable[..., Any]


class Builder:
    """The padded graph while it grows: `apply` writes each node, with (builder, node, args, kwargs, values by node).

    `true`, `padded`: the sizes of a call, and their buckets, by symbol. `saved`: the dimensions of values that the
    forward graph hands to the backward graph, by name; what there is a None for, is found from the symbols alone.
    """

    def __init__(
        self, module: fx.GraphModule, apply: Rule, true: Symbols, padded: Symbols, saved: Mapping[str, Any]
    ) -> None:
        self._apply = apply
        self._module = module
        self._true, self._padded = dict(true), dict(padded)
        self._saved = saved
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._operands: dict[sympy.Expr, fx.Node] = {}
        self._last_input: fx.Node | None = None
        self._memo: dict[Any, Any] = {}
        self._meta: dict[str, Any] = {}
        self.graph = fx.Graph()
        self.placeholders: list[Value | None] = []  # None for those that are no part of the graph
        self.outputs: list[Any] = []  # Value, Size, number or None
        self._build()

    def module(self) -> fx.GraphModule:
        """The graph; its results are those of `outputs` that are Values."""
        self.graph.output(tuple(out.node if isinstance(out, Value) else None for out in self.outputs))
        self.graph.eliminate_dead_code(is_impure_node=_is_kept)
        return fx.GraphModule(self._module, self.graph)

    @property
    def operands(self) -> list[sympy.Expr]:
        """True sizes that the program is given, in the order of its last placeholders."""
        return list(self._operands)

    # ---- the walk ----

    def _build(self) -> None:
        env: dict[fx.Node, Any] = {}
        for node in self._module.graph.nodes:
            self._meta = {k: v for k, v in node.meta.items() if k in ("stack_trace", "nn_module_stack", "seq_nr")}
            if node.op == "placeholder":
                env[node] = self._input(node)
            elif node.op == "get_attr":
                env[node] = self._constant(node)
            elif node.op == "call_function":
                env[node] = self.call_node(node, env)
            elif node.op == "output":
                self.outputs = [
                    env[leaf] if isinstance(leaf, fx.Node) else leaf for leaf in _values.leaves(node.args[0])
                ]

    def _input(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            self.placeholders.append(None)
            return Size(expression(value))
        if not isinstance(value, torch.Tensor):
            self.placeholders.append(None)
            return value
        self._last_input = made = self.graph.placeholder(node.name)
        dims = self._input_dims(node.name, value)
        sizes = [padded_size(dim) for dim in dims]
        with self._mode:
            fake = torch.empty(sizes, dtype=value.dtype, device=value.device)
            order = sorted(range(len(sizes)), key=lambda d: -self._evaluate(value.stride(d)))
            fake = fake.permute(order).contiguous().permute([order.index(d) for d in range(len(sizes))])
        made.meta = {**self._meta, "val": fake}
        self.placeholders.append(Value(made, dims))
        return self.placeholders[-1]

    def _input_dims(self, name: str, value: torch.Tensor) -> Dims:
        described = self._saved.get(name)
        if described is None:
            described = [[expression(size)] for size in value.shape]
        return tuple(normal(Part(e, self._bucket(e)) for e in dim) for dim in described)

    def _evaluate(self, value: Any) -> int:
        return int(expression(value).subs(self._true))

    def _bucket(self, expr: sympy.Expr) -> int:
        if not expr.is_Integer and not grows(expr):
            raise Unfit(f"a size of {expr} does not grow with its symbols")
        padded, true = expr.subs(self._padded), expr.subs(self._true)
        if not padded.is_Integer or not true.is_Integer or padded < true:
            raise Unfit(f"a size of {expr} does not follow from the sizes of the inputs")
        return int(padded)

    def _constant(self, node: fx.Node) -> Any:
        value = getattr(self._module, str(node.target))
        made = self.graph.get_attr(str(node.target))
        made.meta = {**self._meta, "val": value}
        if not isinstance(value, torch.Tensor):
            return made
        return Value(made, tuple(part(size, size) for size in value.shape))

    def call_node(self, node: fx.Node, env: Mapping[fx.Node, Any]) -> Any:
        known = node.meta.get("val")
        if isinstance(known, (torch.SymInt, torch.SymFloat)):
            return Size(expression(known))
        if isinstance(known, torch.SymBool):
            raise Unfit(f"{node.target} decides by a size")
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), env.__getitem__)
        result = self._apply(self, node, args, kwargs, env)
        self._verify(node, result, known)
        return result

    def _verify(self, node: fx.Node, result: Any, known: Any) -> None:
        """What a rule says of its results is compared with what the captured graph knows of them."""
        for value, expected in zip(_values.leaves(result), _values.leaves(known), strict=False):
            if not isinstance(value, Value) or not isinstance(expected, torch.Tensor):
                continue
            fits = (
                len(value.dims) == expected.dim() == value.fake.dim()
                and value.fake.dtype == expected.dtype
                and all(padded_size(d) == s for d, s in zip(value.dims, value.fake.shape, strict=True))
                and all(is_equal(true_size(d), expression(s)) for d, s in zip(value.dims, expected.shape, strict=True))
            )
            if not fits:
                got = [true_size(dim) for dim in value.dims]
                raise Unfit(f"{node.target} gives sizes {got} of {list(value.fake.shape)}, not {list(expected.shape)}")

    # ---- what rules build with ----

    def operand(self, expr: sympy.Expr) -> Any:
        """A number of the true sizes, given to the program at each run; a plain number where it is one."""
        expr = sympy.sympify(expr)
        if expr.is_number:
            return int(expr) if expr.is_Integer else float(expr)
        if expr not in self._operands:
            if not expr.free_symbols <= set(self._true):
                raise Unfit(f"{expr} does not follow from the sizes of the inputs")
            last = next(reversed(self._operands.values()), self._last_input)
            with self.graph.inserting_after(last):  # None: at the beginning
                made = self.graph.placeholder(f"size_{len(self._operands)}")
            value = expr.subs(self._true)
            made.meta = {"val": int(value) if value.is_integer else float(value)}
            self._operands[expr] = made
        return self._operands[expr]

    def bucket(self, size: Any) -> int:
        """The padded size for a size among the arguments of an op."""
        if isinstance(size, Size):
            return -1 if size.expr == -1 else self._bucket(size.expr)
        return int(size)

    def node(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A node of the padded graph; its arguments are nodes and plain values."""
        args, kwargs = pytree.tree_map_only(Value, lambda value: value.node, (args, kwargs))
        with self._mode, torch.no_grad():
            given, given_kwargs = fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
            try:
                value = target(*given, **given_kwargs)
            except Exception as error:
                raise Unfit(f"{target} does not take the padded sizes: {error}") from error
        made = self.graph.call_function(target, args, kwargs)
        made.meta = {**self._meta, "val": value}
        return made

    def emit(self, target: Any, args: Any, kwargs: Any, dims: Any, sizes: str = "bucket") -> Any:
        """An op on padded values, with results of `dims` (one Dims, or a list of them with None for what is no tensor).
        Sizes among its arguments are their buckets, or operands."""
        convert = self.bucket if sizes == "bucket" else lambda size: self.operand(size.expr)
        args, kwargs = pytree.tree_map_only(Size, convert, (args, kwargs))
        made = self.node(target, *args, **kwargs)
        if isinstance(made.meta["val"], torch.Tensor):
            return Value(made, dims)
        if not isinstance(made.meta["val"], (list, tuple)):
            return made
        parts: list[Value | None] = []
        for i, value in enumerate(made.meta["val"]):
            if not isinstance(value, torch.Tensor):
                parts.append(None)
                continue
            got = self.graph.call_function(operator.getitem, (made, i))
            got.meta = {**self._meta, "val": value}
            parts.append(Value(got, dims[i]))
        return parts

    def reshape(self, x: Any, sizes: Sequence[int]) -> fx.Node:
        """A view, of a copy where the strides allow none."""
        node: fx.Node = x.node if isinstance(x, Value) else x
        value = node.meta["val"]
        with self._mode, torch.no_grad():
            if value.reshape(sizes).untyped_storage()._cdata != value.untyped_storage()._cdata:
                node = self.node(aten.clone.default, node, memory_format=torch.contiguous_format)
        return self.node(aten.view.default, node, list(sizes))

    def number(self, value: Any, like: torch.Tensor) -> fx.Node:
        """A number as a tensor of rank 0."""
        return self.node(aten.full.default, [], value, dtype=like.dtype, device=like.device)

    def iota(self, n: int, device: torch.device) -> fx.Node:
        key = ("iota", n, device)
        if key not in self._memo:
            self._memo[key] = self.node(aten.arange.start_step, 0, n, 1, dtype=torch.int64, device=device)
        return self._memo[key]

    def validity(self, dim: Dim, device: torch.device) -> fx.Node:
        """bool[padded size]: where a dimension has true elements."""
        result: fx.Node | None = None
        inner = padded_size(dim)
        key = ("validity", tuple((p.true, p.padded) for p in dim), device)
        if key in self._memo:
            return self._memo[key]
        shape = [p.padded for p in dim]
        for i, p in enumerate(dim):
            if not p.is_padded:
                continue
            one = self.node(aten.lt.Scalar, self.iota(p.padded, device), self.operand(p.true))
            if len(dim) > 1:
                one = self.node(aten.view.default, one, [p.padded if k == i else 1 for k in range(len(dim))])
                one = self.node(aten.expand.default, one, shape)
            result = one if result is None else self.node(aten.logical_and.default, result, one)
        assert result is not None
        self._memo[key] = self.node(aten.view.default, result, [inner]) if len(dim) > 1 else result
        return self._memo[key]

    def mask(self, dims: Dims, chosen: Sequence[int], device: torch.device) -> fx.Node:
        """Where all the chosen dimensions have true elements, of a shape that broadcasts to `dims`."""
        result: fx.Node | None = None
        for d in chosen:
            one = self.validity(dims[d], device)
            one = self.node(aten.view.default, one, [padded_size(dims[d]) if k == d else 1 for k in range(len(dims))])
            result = one if result is None else self.node(aten.logical_and.default, result, one)
        assert result is not None
        return result

    def filled(self, value: Value, fill: Fill, among: Iterable[int] | None = None) -> Value:
        """The value with `fill` in the padding of some dimensions, by default of all."""
        chosen = value.padded_dims(among)
        if all(p.fill == fill for d in chosen for p in value.dims[d] if p.is_padded):
            return value
        key = ("filled", value.node, tuple(chosen), fill, str(fill))
        if key not in self._memo:
            mask = self.mask(value.dims, chosen, value.fake.device)
            node = self.node(aten.where.self, mask, value.node, self.number(fill, value.fake))
            dims = [
                tuple(replace(p, fill=fill if p.is_padded else None) if d in chosen else p for p in dim)
                for d, dim in enumerate(value.dims)
            ]
            self._memo[key] = Value(node, tuple(dims))
        return self._memo[key]

    def slice(self, value: Value, dim: int, start: sympy.Expr, length: sympy.Expr, step: int = 1) -> Value:
        """Elements start, start + step, .. of a dimension whose true elements are the first ones."""
        old = value.dims[dim]
        if not is_prefix(old):
            raise Unfit("a slice of a dimension that merges padded ones")
        n, n_in = self._bucket(length), padded_size(old)
        dims = (*value.dims[:dim], part(length, n), *value.dims[dim + 1 :])
        if is_equal(start, sympy.Integer(0)) and step == 1 and n == n_in:
            return Value(value.node, dims) if same_dim(old, dims[dim]) else replace(value, dims=dims)
        if start.is_Integer and start + (n - 1) * step < n_in and n > 0:
            end = int(start) + (n - 1) * step + 1
            return Value(self.node(aten.slice.Tensor, value.node, dim, int(start), end, step), unfilled(dims))
        index = self.places(n, start, n_in, value.fake.device, step)
        return Value(self.node(aten.index_select.default, value.node, dim, index), unfilled(dims))

    def places(self, n: int, start: sympy.Expr, n_in: int, device: torch.device, step: int = 1) -> fx.Node:
        """i64[n]: start + i step, no further than the last of n_in."""
        index = self.iota(n, device)
        if step != 1:
            index = self.node(aten.mul.Scalar, index, step)
        index = self.node(aten.add.Scalar, index, self.operand(start))
        return self.node(aten.clamp.default, index, 0, n_in - 1)

    def broadcast(self, values: Sequence[Value]) -> Dims:
        """The dimensions of an elementwise result."""
        rank = max((len(value.dims) for value in values), default=0)
        result: list[Dim] = [()] * rank
        for value in values:
            for d, dim in enumerate(value.dims, rank - len(value.dims)):
                if dim and not result[d]:
                    result[d] = dim
                elif dim and not same_dim(dim, result[d]):
                    sizes = [true_size(dim), true_size(result[d])]
                    raise Unfit(f"sizes {sizes} are padded in ways that do not fit each other")
        return unfilled(result)

    def decomposed(self, node: fx.Node, env: Mapping[fx.Node, Any], table: Mapping[Any, Any]) -> Any:
        """The op by PyTorch's decomposition, traced on the symbolic values and then padded node by node."""
        from torch.fx.experimental.proxy_tensor import make_fx

        flat, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
        places = [i for i, leaf in enumerate(flat) if isinstance(leaf, fx.Node)]
        nodes = [flat[i] for i in places]
        given = [n.meta.get("val") for n in nodes]
        mode = next((value.fake_mode for value in given if isinstance(value, FakeTensor)), None)
        if mode is None:
            raise Unfit(f"there is no rule for {node.target}")

        def call(*values: Any) -> Any:
            leaves = list(flat)
            for place, value in zip(places, values, strict=True):
                leaves[place] = value
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            return table[node.target](*args, **kwargs)

        shapes = mode.shape_env
        n_guards = len(shapes.guards) if shapes is not None else 0
        with torch.no_grad(), mode:
            inner = make_fx(call, decomposition_table=_trace.decompositions())(*given)
        if shapes is not None and len(shapes.guards) != n_guards:
            raise Unfit(f"the decomposition of {node.target} depends on sizes")
        inside: dict[fx.Node, Any] = {}
        given_nodes = iter(nodes)
        for n in inner.graph.nodes:
            if n.op == "placeholder":
                inside[n] = env[next(given_nodes)]
            elif n.op == "get_attr":
                raise Unfit(f"the decomposition of {node.target} has constants")
            elif n.op == "output":
                return fx.node.map_arg(n.args[0], inside.__getitem__)
            else:
                inside[n] = self.call_node(n, inside)
        raise AssertionError


def _is_kept(node: fx.Node) -> bool:
    return node.op in ("placeholder", "output") or node.target is aten.copy_.default
