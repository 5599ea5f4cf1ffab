"""Graphs whose sizes are symbols: a program for each set of sizes that occurs.

A program of the device has fixed sizes. Dynamo captures such a graph once and guards on ranges; here it is made anew
for the sizes of a call, from the graph and not from the user's program, and kept for the next call of these sizes.
"""

import collections
import logging
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from torch_pjrt.compile import _graph, _values

log = logging.getLogger("torch_pjrt.compile")
_MOST_KEPT = 128  # sets of sizes of one graph; the programs themselves are kept by the core


def is_symbolic(module: fx.GraphModule) -> bool:
    return any(_values.is_symbolic(node) for node in module.graph.nodes)


class Specialized:
    """Runs a graph by its form for the sizes and numbers of the call."""

    def __init__(self, module: fx.GraphModule, name: str) -> None:
        self._module = module
        self._name = name
        self._placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._deciding = [i for i, node in enumerate(self._placeholders) if _values.is_symbolic(node)]
        self._runners: collections.OrderedDict[tuple[Any, ...], _graph.Runner] = collections.OrderedDict()

    def __call__(self, args: list[Any]) -> list[Any]:
        key = tuple(args[i].shape if isinstance(args[i], torch.Tensor) else args[i] for i in self._deciding)
        runner = self._runners.get(key)
        if runner is None:
            runner = self._runners[key] = self._make(args)
            if len(self._runners) > _MOST_KEPT:
                self._runners.popitem(last=False)
            log.info("%s: form %d, for %s", self._name, len(self._runners), key)
        else:
            self._runners.move_to_end(key)
        return runner(args)

    def _make(self, args: list[Any]) -> _graph.Runner:
        name = f"{self._name}#{len(self._runners)}"
        with _disable_current_modes():
            try:
                return _graph.lower(specialize(self._module, args), name)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                log.warning(
                    "%s runs op by op: the sizes that %s gives are known only when it has run", name, error.func
                )
                return self._run_each

    def _run_each(self, args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        with torch.no_grad():
            return list(fx.Interpreter(self._module).run(*given, enable_io_processing=False))


def specialize(module: fx.GraphModule, args: list[Any]) -> fx.GraphModule:
    """The graph with the sizes of `args` in the place of symbols; numbers are constants in it."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    graph = fx.Graph()
    values: dict[fx.Node, Any] = {}  # fake tensors, and numbers
    made: dict[fx.Node, fx.Node] = {}
    given = iter(args)

    def argument(node: fx.Node) -> Any:
        return made[node] if _has_tensors(values[node]) else values[node]

    for node in module.graph.nodes:
        if node.op == "placeholder":
            value = next(given)
            values[node] = _fake(value, mode) if isinstance(value, torch.Tensor) else value
            made[node] = graph.placeholder(node.name)
        elif node.op == "get_attr":
            values[node] = getattr(module, node.target)
            made[node] = graph.get_attr(node.target)
        elif node.op == "output":
            graph.output(fx.node.map_arg(node.args[0], argument))
            continue
        else:
            with mode, torch.no_grad():
                call_args, call_kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*call_args, **call_kwargs)
            if not _has_tensors(values[node]):
                continue
            made[node] = graph.call_function(
                node.target, fx.node.map_arg(node.args, argument), fx.node.map_arg(node.kwargs, argument)
            )
        made[node].meta = {**node.meta, "val": values[node]}
    return fx.GraphModule(module, graph)


def _has_tensors(value: Any) -> bool:
    """Whether it stays a node: numbers become constants."""
    return not all(_values.is_number(leaf) or leaf is None for leaf in _values.leaves(value))


def _fake(value: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
