"""Graphs whose sizes are symbols, made for the sizes of a call.

A program of the device has fixed sizes. Dynamo captures such a graph once and guards on ranges; where its sizes
cannot be padded to buckets (padding/), it is made anew for those of a call, from the graph and not from the user's
program, and kept for the next call of these sizes.
"""

import collections
import logging
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

from torch_pjrt.compile import _graph, _values, _watch
from torch_pjrt.compile._options import Options

log = logging.getLogger("torch_pjrt.compile")
_MOST_KEPT = 128  # sets of sizes of one graph; the programs themselves are kept by the core


def is_symbolic(module: fx.GraphModule) -> bool:
    return any(_values.is_symbolic(node) for node in module.graph.nodes)


class Specialized:
    """Runs a graph by its form for the sizes and numbers of the call."""

    def __init__(self, module: fx.GraphModule, name: str, options: Options) -> None:
        self._module = module
        self._name = name
        self._options = options
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        symbolic = [i for i, node in enumerate(placeholders) if _values.is_symbolic(node)]
        self._floats = [i for i in symbolic if isinstance(placeholders[i].meta["val"], torch.SymFloat)]
        self._deciding = [i for i in symbolic if i not in self._floats]
        self._runners: collections.OrderedDict[tuple[Any, ...], _graph.Runner] = collections.OrderedDict()

    def __call__(self, args: list[Any]) -> list[Any]:
        key = self._key(args)
        runner = self._runners.get(key)
        if runner is None:
            runner = self._make(args)
            key = self._key(args)
            self._runners[key] = runner
            if len(self._runners) > _MOST_KEPT:
                self._runners.popitem(last=False)
            log.info("%s: form %d, for %s", self._name, len(self._runners), key)
        else:
            self._runners.move_to_end(key)
        return runner(args)

    def _key(self, args: list[Any]) -> tuple[Any, ...]:
        return tuple(args[i].shape if isinstance(args[i], torch.Tensor) else args[i] for i in self._deciding)

    def _make(self, args: list[Any]) -> _graph.Runner:
        name = f"{self._name}#{len(self._runners)}"
        with _disable_current_modes():
            try:
                made = specialize(self._module, args, keep_floats=bool(self._floats))
                if made is None:
                    self._deciding, self._floats = self._deciding + self._floats, []
                    made = specialize(self._module, args)
                assert made is not None
                return _graph.lower(made, name, self._options)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                text = "%s runs op by op: the sizes that %s gives are known only when it has run"
                _watch.note(text, name, error.func)
                return self._run_each

    def _run_each(self, args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        with torch.no_grad():
            return list(fx.Interpreter(self._module).run(*given, enable_io_processing=False))


def specialize(module: fx.GraphModule, args: list[Any], keep_floats: bool = False) -> fx.GraphModule | None:
    """The graph with the sizes of `args` in the place of symbols; numbers are constants in it.

    With `keep_floats`, floats and what is computed from them stay inputs and nodes: a number that changes (a learning
    rate) is not a new program. None where a size or a decision follows from one.
    """
    # Some ops ask the mode for symbols that stand for what only a run can tell: then it is the run that tells.
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)
    graph = fx.Graph()
    values: dict[fx.Node, Any] = {}  # fake tensors, and numbers
    made: dict[fx.Node, fx.Node] = {}
    changing: set[fx.Node] = set()  # floats that stay nodes
    given = iter(args)

    def argument(node: fx.Node) -> Any:
        return made[node] if node in made else values[node]

    for node in module.graph.nodes:
        if node.op == "output":
            graph.output(fx.node.map_arg(node.args[0], argument))
            break
        if node.op == "placeholder":
            value = next(given)
            values[node] = _fake(value, mode) if isinstance(value, torch.Tensor) else value
            kept = graph.placeholder(node.name)
            if _values.is_number(value) and not (keep_floats and isinstance(value, float)):
                continue
            made[node] = kept
        elif node.op == "get_attr":
            values[node] = getattr(module, node.target)
            made[node] = graph.get_attr(node.target)
        else:
            with mode, torch.no_grad():
                call_args, call_kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*call_args, **call_kwargs)
            if any(_is_unknown(value) for value in _values.leaves(values[node])):
                raise DynamicOutputShapeException(node.target)
            changes = not changing.isdisjoint(node.all_input_nodes)
            if not _has_tensors(values[node]):
                if changes and not isinstance(values[node], float):
                    return None
                if not changes:
                    continue
            made_args, made_kwargs = fx.node.map_arg((node.args, node.kwargs), argument)
            made[node] = graph.call_function(node.target, made_args, made_kwargs)
        if isinstance(values[node], float):
            changing.add(node)
        made[node].meta = {**node.meta, "val": values[node]}
    return fx.GraphModule(module, graph)


def _has_tensors(value: Any) -> bool:
    """Whether it stays a node: numbers become constants."""
    return not all(_values.is_number(leaf) or leaf is None for leaf in _values.leaves(value))


def _is_unknown(value: Any) -> bool:
    symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
    return isinstance(value, symbols) or (isinstance(value, torch.Tensor) and value._has_symbolic_sizes_strides)


def _fake(value: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
