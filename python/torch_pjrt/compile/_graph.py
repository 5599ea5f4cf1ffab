"""A graph of ATen ops as something that runs: programs of the device, and between them what has to run on the host.

Most graphs are one program. A graph is cut where it computes on CPU tensors (an optimizer's counters), moves values to
the host, or has an op that no row means: those nodes run as they would without a compiler.
"""

import logging
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from torch_pjrt import _loader, _pack
from torch_pjrt.compile import _values
from torch_pjrt.compile._program import Program, draws

log = logging.getLogger("torch_pjrt.compile")
_COPY = torch.ops.aten.copy_.default
Runner = Callable[[list[Any]], list[Any]]


def lower(module: fx.GraphModule, name: str) -> Runner:
    """What runs a graph of known sizes. It takes its inputs in a list, which it empties, and returns its outputs so."""
    unpackable: dict[fx.Node, str] = {}
    while True:
        try:
            with _disable_current_modes(), torch.no_grad():  # constants are real tensors, and no part of a capture
                return _Plan(module, name, unpackable).runner()
        except _pack.Unpackable as error:
            if len(error.args) == 1:
                raise
            reason, node = error.args
            log.info("%s: %s runs by itself: %s", name, node.format_node(), reason)
            unpackable[node] = reason


class _Plan:
    """In which stage each node runs. Even stages are the host's, odd ones the device's; a stage reads what earlier ones
    made."""

    def __init__(self, module: fx.GraphModule, name: str, by_itself: dict[fx.Node, str]) -> None:
        self._module = module
        self._name = name
        self._by_itself = by_itself
        self._placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._outputs = list(_values.leaves(module.graph.output_node().args[0]))
        self._stages: dict[fx.Node, int] = {}
        self._writes: list[tuple[fx.Node, fx.Node]] = []  # value, placeholder
        self._copies: dict[fx.Node, fx.Node] = {}  # what stands for a placeholder after it was written
        self._constants: dict[fx.Node, Any] = {}
        random_stage = 0  # draws stay in their order
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._add_constant(node, getattr(module, node.target))
            if node.op != "call_function" or self._is_folded(node):
                continue
            if node.target is _COPY and node.args[0].op == "placeholder":
                self._writes.append((node.args[1], node.args[0]))
                self._copies[node] = node.args[0]
                continue
            least = max((self._stages.get(source, 0) for source in node.all_input_nodes), default=0)
            if node.target is not operator.getitem:
                random = draws(node)
                least = max(least, random_stage if random else 0)
                least += least % 2 != self._on_device(node)
                random_stage = least if random else random_stage
            self._stages[node] = least

    def _on_device(self, node: fx.Node) -> bool:
        return node not in self._by_itself and _pack.has_form(node.target) and _values.on_device(node)

    def _add_constant(self, node: fx.Node, value: Any) -> None:
        self._constants[node] = value
        node.meta.setdefault("val", value)

    def _is_folded(self, node: fx.Node) -> bool:
        """What the host computes from constants alone is one: torch.tensor([..]) is a constant that is copied."""
        folds = (
            isinstance(node.target, OpOverload)
            and torch.Tag.nondeterministic_seeded not in node.target.tags
            and bool(node.all_input_nodes)
            and all(source in self._constants for source in node.all_input_nodes)
            and all(value.device.type == "cpu" for value in _values.tensors(node))
            and isinstance(node.meta.get("val"), torch.Tensor)
            and node not in self._outputs
        )
        if folds:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._constants.__getitem__)
            self._add_constant(node, node.target(*args, **kwargs))  # type: ignore[operator]
        return folds

    def runner(self) -> Runner:
        kinds = set(self._stages.values())
        outputs = [node for node in self._outputs if isinstance(node, fx.Node)]
        if any(user.op != "output" for node in self._copies for user in node.users):
            raise NotImplementedError(f"{self._name}: a value that is used after it was written to an input")
        fits = (
            kinds <= {1}
            and all(_values.on_device(node) for node in [*outputs, *(target for _, target in self._writes)])
            and all(_fits(node) for node in self._placeholders if node.users)
        )
        return self._single() if fits and (kinds or self._writes) else self._several()

    def _single(self) -> Runner:
        used = [node for node in self._placeholders if node.users]
        numbers = {i: value for i, value in enumerate(self._outputs) if _values.is_number(value)}
        inline, constants = self._sort_constants(self._constants)
        outputs = [node if isinstance(node, fx.Node) else None for node in self._outputs]
        program = Program(self._name, used + constants, list(self._stages), outputs, self._writes, self._copies, inline)
        held = [_on_device(self._constants[node]) for node in constants]
        positions = [i for i, node in enumerate(self._placeholders) if node.users]
        every = positions == list(range(len(self._placeholders)))

        def run(args: list[Any]) -> list[Any]:
            results = program(args if every and not held else [args[i] for i in positions] + held)
            args.clear()
            for i, value in numbers.items():
                results[i] = value
            return results

        return run

    def _several(self) -> Runner:
        steps: list[_Step] = []
        last = max(self._stages.values(), default=0)
        needed_later = self._last_uses(last)
        for stage in range(last + 1):
            nodes = [node for node, at in self._stages.items() if at == stage]
            if stage % 2 == 0:
                steps += [_HostStep(node) for node in nodes]
            elif nodes:
                outputs = [node for node in nodes if needed_later.get(node, -1) > stage]
                sources = {source for node in nodes for source in node.all_input_nodes}
                inline, _ = self._sort_constants(node for node in self._constants if node in sources)
                steps.append(_DeviceStep(f"{self._name}.{stage // 2}", nodes, outputs, inline))
        log.info("%s is cut into %d programs", self._name, sum(isinstance(step, _DeviceStep) for step in steps))
        constants = {
            node: _on_device(value) if isinstance(value, torch.Tensor) and _is_uploaded(node) else value
            for node, value in self._constants.items()
        }

        def run(args: list[Any]) -> list[Any]:
            values = dict(constants)
            values.update(zip(self._placeholders, args, strict=True))
            args.clear()
            for step in steps:
                step(values)
            written = [(values[target], values[value]) for value, target in self._writes]
            for target, value in written:
                target.copy_(value)
            return [
                values[self._copies.get(node, node)] if isinstance(node, fx.Node) else node for node in self._outputs
            ]

        return run

    def _sort_constants(self, nodes: Iterable[fx.Node]) -> tuple[dict[fx.Node, torch.Tensor], list[fx.Node]]:
        """Those that the text of a program holds, and those that are inputs."""
        used = [node for node in nodes if node.users and isinstance(self._constants[node], torch.Tensor)]
        inline = {node: self._constants[node] for node in used if _fits(node) and self._constants[node].is_cpu}
        return inline, [node for node in used if node not in inline and not _is_for_folded(node, self._constants)]

    def _last_uses(self, last: int) -> dict[fx.Node, int]:
        """The last stage that reads a value; results and written values are read behind the last one."""
        uses: dict[fx.Node, int] = {}
        for node, stage in self._stages.items():
            for source in node.all_input_nodes:
                uses[source] = max(uses.get(source, -1), stage)
        for node in [*self._outputs, *(value for value, _ in self._writes)]:
            if isinstance(node, fx.Node):
                uses[node] = last + 1
        return uses


_Step = Callable[[dict[fx.Node, Any]], None]


class _HostStep:
    """One node that runs as it would without a compiler."""

    def __init__(self, node: fx.Node) -> None:
        self._node = node

    def __call__(self, values: dict[fx.Node, Any]) -> None:
        node = self._node
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        with torch.no_grad():
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]


class _DeviceStep:
    """The nodes of one stage as a program."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[fx.Node],
        outputs: Sequence[fx.Node],
        constants: dict[fx.Node, torch.Tensor],
    ) -> None:
        inside = {*nodes, *constants}
        sources = (source for node in nodes for source in node.all_input_nodes if source not in inside)
        self._inputs = list(dict.fromkeys(sources))
        self._outputs = [node for node in outputs if isinstance(node.meta.get("val"), torch.Tensor)]
        self._program = Program(name, self._inputs, nodes, self._outputs, constants=constants)

    def __call__(self, values: dict[fx.Node, Any]) -> None:
        results = self._program([_feed(values[node]) for node in self._inputs])
        values.update(zip(self._outputs, results, strict=True))


def _fits(node: fx.Node) -> bool:
    """Whether a program takes the input as it is: it is on the device, or a number in a CPU tensor."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (
        _values.on_device(node) or (value.device.type == "cpu" and value.dim() == 0)
    )


def _feed(value: torch.Tensor) -> torch.Tensor:
    return value if value.dim() == 0 or value.device.type != "cpu" else value.to(_loader.BACKEND)


def _on_device(value: torch.Tensor) -> torch.Tensor:
    """A constant of the graph, kept on the device."""
    return value.detach().to(_loader.BACKEND)


def _is_uploaded(node: fx.Node) -> bool:
    return bool(node.users) and all(_values.on_device(user) for user in node.users)


def _is_for_folded(node: fx.Node, constants: dict[fx.Node, Any]) -> bool:
    """Whether a constant is there only for others that were computed from it."""
    return all(user in constants for user in node.users)
