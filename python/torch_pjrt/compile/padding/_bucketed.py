"""Runs of a graph whose sizes are padded: which program, what it is given, and what the user gets of its results."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from torch_pjrt.compile import _graph, _sizes, _values, _watch
from torch_pjrt.compile._options import Options
from torch_pjrt.compile.padding import _indices, _place, _sums, _views
from torch_pjrt.compile.padding._builder import Builder
from torch_pjrt.compile.padding._parts import Size, Unfit, Value, expression
from torch_pjrt.compile.padding._rule import apply

log = logging.getLogger("torch_pjrt.compile")
_FAMILIES = (_views, _sums, _indices)  # importing them fills the table


class Bucketed:
    """Runs a graph by its form for the buckets of a call's sizes.

    `saved`: what the forward graph knows of the dimensions of values that it hands to the backward graph, by name; it
    puts them in, and the backward graph reads them. `n_returned`: how many results are the user's; those behind are for
    the backward graph and stay padded. None: all.
    """

    def __init__(
        self, module: fx.GraphModule, name: str, options: Options, saved: dict[str, Any], n_returned: int | None
    ) -> None:
        self._module, self._name, self._options = module, name, options
        self._saved, self._n_returned = saved, n_returned
        self._exact = _sizes.Specialized(module, name, options)
        self._forms: dict[tuple[int, ...], _Padded] = {}
        self._symbols, why = _symbols(module, saved)
        self._why = why if options.buckets != "exact" else "the option 'buckets' is 'exact'"
        self._sizes = [i for i, (symbol, *_) in enumerate(self._symbols) if symbol in _sizes_of(module)]
        self._placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        if self._why:
            self._say()

    def _say(self) -> None:
        _watch.note("%s is made for each set of sizes: %s", self._name, self._why)

    def __call__(self, args: list[Any]) -> list[Any]:
        if self._why is None:
            true = [args[i] if dim is None else args[i].shape[dim] for _, i, dim in self._symbols]
            key = tuple(self._options.bucket(true[i]) for i in self._sizes)
            form = self._forms.get(key)
            if form is None:
                form = self._make(key, true)
            if form is not None:
                return form(args, true)
        return self._exact(self._without_padding(args))

    def _make(self, key: tuple[int, ...], true: list[Any]) -> "_Padded | None":
        symbols = [symbol for symbol, *_ in self._symbols]
        padded = {symbols[i]: bucket for i, bucket in zip(self._sizes, key, strict=True)}
        name = f"{self._name}#{len(self._forms)}"
        try:
            with _disable_current_modes():
                values = dict(zip(symbols, true, strict=True))
                builder = Builder(self._module, apply, values, padded, self._saved)
                views = self._views_of_inputs()
                form = _Padded(builder, name, self._options, symbols, self._n_returned, views)
        except Unfit as error:
            self._why = str(error)
            self._say()
            return None
        self._keep_saved(builder)
        self._forms[key] = form
        log.info("%s: form %d, for sizes up to %s", self._name, len(self._forms), padded)
        return form

    def _views_of_inputs(self) -> dict[int, tuple[int, torch.Tensor]]:
        """Results that are views of an input: which one, and how they lie in it."""
        found: dict[int, tuple[int, torch.Tensor]] = {}
        leaves = list(_values.leaves(self._module.graph.output_node().args[0]))
        for at, node in enumerate(leaves[: self._n_returned]):
            value = node.meta.get("val") if isinstance(node, fx.Node) else None
            if not isinstance(value, torch.Tensor) or node in self._placeholders:
                continue
            for i, source in enumerate(self._placeholders):
                known = source.meta.get("val")
                if isinstance(known, torch.Tensor) and _values.shares_memory(value, known):
                    found[at] = (i, value)
        return found

    def _keep_saved(self, builder: Builder) -> None:
        if self._n_returned is None:
            return
        leaves = list(_values.leaves(self._module.graph.output_node().args[0]))
        for node, value in list(zip(leaves, builder.outputs, strict=True))[self._n_returned :]:
            if isinstance(value, Value) and value.padded_dims():
                self._saved[node.name] = [[p.true for p in dim] or [sympy.Integer(1)] for dim in value.dims]

    def _without_padding(self, args: list[Any]) -> list[Any]:
        """Values that the forward graph left padded are cut to their true sizes."""
        if not self._saved or self._n_returned is not None:
            return args
        true = [args[i] if dim is None else args[i].shape[dim] for _, i, dim in self._symbols]
        values = dict(zip((symbol for symbol, *_ in self._symbols), true, strict=True))
        buckets = {symbol: self._options.bucket(v) for symbol, v in values.items() if isinstance(v, int)}
        cut = list(args)
        for i, node in enumerate(self._placeholders):
            parts = self._saved.get(node.name)
            if parts is not None and isinstance(args[i], torch.Tensor):
                sizes = [[int(e.subs(values)) for e in dim] for dim in parts]
                wide = [[int(e.subs(buckets)) for e in dim] for dim in parts]
                if list(args[i].shape) == [math.prod(dim) for dim in wide]:
                    cut[i] = _place.cut(args[i], sizes, wide)
        return cut


class _Padded:
    """The program of a graph for one set of buckets."""

    def __init__(
        self,
        builder: Builder,
        name: str,
        options: Options,
        symbols: Sequence[sympy.Symbol],
        n_returned: int | None,
        views: dict[int, tuple[int, torch.Tensor]],
    ) -> None:
        builder.outputs = [_View(*views[i]) if i in views else value for i, value in enumerate(builder.outputs)]
        self._run = _graph.lower(builder.module(), name, options)
        expressions: dict[sympy.Expr, int] = {}

        def number(expr: sympy.Expr) -> int:
            return expressions.setdefault(expr, len(expressions))

        operands = [number(expr) for expr in builder.operands]
        self._n_operands = len(operands)
        self._inputs: list[tuple[int, _Sizes | None]] = []  # the argument, and how it is padded
        for i, value in enumerate(builder.placeholders):
            if value is not None:
                self._inputs.append((i, _sizes_in(value, number) if value.padded_dims() else None))
        of_input = {v.node: i for i, v in enumerate(builder.placeholders) if v is not None}
        self._outputs: list[tuple[Any, ...]] = []  # see _finish
        for i, value in enumerate(builder.outputs):
            if isinstance(value, Size):
                self._outputs.append(("size", number(value.expr)))
            elif isinstance(value, _View):
                self._outputs.append(("view", value.source, *value.places(number)))
            elif not isinstance(value, Value):
                self._outputs.append(("number", value))
            elif not value.padded_dims():
                self._outputs.append(("whole",))
            elif n_returned is not None and i >= n_returned:
                self._outputs.append(("saved", of_input.get(value.node)))
            elif value.node in of_input:
                self._outputs.append(("input", of_input[value.node]))
            else:
                self._outputs.append(("cut", _sizes_in(value, number)))
        self._evaluate = _function(symbols, list(expressions))

    def __call__(self, args: list[Any], true: Sequence[int]) -> list[Any]:
        numbers = self._evaluate(*true)
        given = []
        for i, sizes in self._inputs:
            value = args[i]
            given.append(value if sizes is None else _place.widen(value, sizes.true(numbers), sizes.wide))
        results = self._run(given + list(numbers[: self._n_operands]))
        widened = dict(zip((i for i, _ in self._inputs), given, strict=True))
        pairs = zip(self._outputs, results, strict=True)
        return [self._finish(how, result, args, widened, numbers) for how, result in pairs]

    @staticmethod
    def _finish(how: tuple[Any, ...], result: Any, args: list[Any], given: dict[int, Any], numbers: Any) -> Any:
        match how:
            case ("whole",):
                return result
            case ("size", at):
                return numbers[at]
            case ("number", value):
                return value
            case ("input", at):
                return args[at]
            case ("view", at, sizes, strides, offset):
                size, stride = [numbers[i] for i in sizes], [numbers[i] for i in strides]
                return _place.view(args[at], size, stride, numbers[offset])
            case ("saved", at):
                # An input that was padded in place is given back as it is: PyTorch sees where it is written.
                shares = at is not None and _place.shares_memory(args[at], given[at])
                return args[at] if shares else result
            case (_, sizes):
                return _place.cut(result, sizes.true(numbers), sizes.wide)


class _View:
    """A result that is a view of an input, as the captured graph knows it."""

    def __init__(self, source: int, value: torch.Tensor) -> None:
        self.source, self._value = source, value

    def places(self, number: Callable[[sympy.Expr], int]) -> tuple[list[int], list[int], int]:
        """Where sizes, strides and offset are among a run's numbers."""
        sizes, strides = ([number(expression(n)) for n in ns] for ns in (self._value.shape, self._value.stride()))
        return sizes, strides, number(expression(self._value.storage_offset()))


class _Sizes:
    """The sizes of a tensor's parts by dimension: padded ones, and where the true ones are among a run's numbers."""

    def __init__(self, wide: list[list[int]], places: list[list[int]]) -> None:
        self.wide, self._places = wide, places

    def true(self, numbers: Sequence[int]) -> list[list[int]]:
        return [[numbers[i] for i in dim] for dim in self._places]


def _sizes_in(value: Value, number: Callable[[sympy.Expr], int]) -> _Sizes:
    wide = [[p.padded for p in dim] or [1] for dim in value.dims]
    return _Sizes(wide, [[number(p.true) for p in dim] or [number(sympy.Integer(1))] for dim in value.dims])


def _function(symbols: Sequence[sympy.Symbol], expressions: Sequence[sympy.Expr]) -> Callable[..., tuple[Any, ...]]:
    """The values of expressions, from those of the symbols."""
    from torch.utils._sympy.printers import PythonPrinter

    printed = "".join(f"{PythonPrinter().doprint(expr)}, " for expr in expressions)
    text = f"lambda {', '.join(map(str, symbols))}: ({printed})"
    return eval(text, {"math": math, "torch": torch})


def _symbols(
    module: fx.GraphModule, saved: dict[str, Any]
) -> tuple[list[tuple[sympy.Symbol, int, int | None]], str | None]:
    """Each symbol, and which argument it is (the size of which dimension); and why a graph cannot be padded."""
    found: dict[sympy.Symbol, tuple[int, int | None]] = {}
    wanted: set[sympy.Symbol] = set()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for i, node in enumerate(placeholders):
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            expr = expression(value)
            wanted |= expr.free_symbols
            if expr.is_Symbol:
                found[expr] = (i, None)
    for i, node in enumerate(placeholders):
        value = node.meta.get("val")
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            expr = expression(size)
            wanted |= expr.free_symbols
            if expr.is_Symbol and expr not in found and not _is_saved(node):
                found[expr] = (i, dim)
    missing = sorted(map(str, wanted - set(found)))
    why = f"the sizes {', '.join(missing)} are no size of an input" if missing else None
    return [(symbol, *place) for symbol, place in found.items()], why


def _is_saved(node: fx.Node) -> bool:
    """Whether an input of a backward graph comes from the forward graph, and may be padded."""
    names = {n.name for n in node.graph.nodes if n.op == "placeholder"}
    return any(name.startswith("tangents_") for name in names) and not node.name.startswith("tangents_")


def _sizes_of(module: fx.GraphModule) -> set[sympy.Symbol]:
    """The symbols in sizes of tensors; others are numbers."""
    found: set[sympy.Symbol] = set()
    for node in module.graph.nodes:
        for value in _values.tensors(node):
            for size in value.shape:
                found |= expression(size).free_symbols
    return found
