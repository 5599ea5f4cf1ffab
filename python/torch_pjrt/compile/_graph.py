"""A graph of ATen ops as something that runs: programs of the device, and between them what has to run on the host.

Most graphs are one program. A graph is cut where it computes on CPU tensors (an optimizer's counters), moves values to
the host, or has an op that no row means: those nodes run as they would without a compiler.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from torch_pjrt import _loader, _pack
from torch_pjrt.compile import _values, _watch
from torch_pjrt.compile._options import Options
from torch_pjrt.compile._program import Program, draws

_COPY = torch.ops.aten.copy_.default
Runner = Callable[[list[Any]], list[Any]]


def lower(module: fx.GraphModule, name: str, options: Options) -> Runner:
    """What runs a graph of known sizes: it takes its inputs in a list and returns its outputs in one."""
    _settle_writes(module.graph)
    unpackable: dict[fx.Node, str] = {}
    while True:
        try:
            with _disable_current_modes(), torch.no_grad():  # constants are real tensors, and no part of a capture
                return _Plan(module, name, options, unpackable).runner()
        except _pack.Unpackable as error:
            if len(error.args) == 1:
                raise
            reason, node = error.args
            unpackable[node] = reason


def _settle_writes(graph: fx.Graph) -> None:
    """What reads an input, or a copy into it, behind that copy gets the value that was copied: the writes can then all
    happen at the end, and the last one to an input is the one that counts."""
    current: dict[fx.Node, fx.Node] = {}
    last: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op == "output":
            break
        if node.target is not _COPY or node.args[0].op != "placeholder":
            for source in node.all_input_nodes:
                if source in current:
                    node.replace_input_with(source, current[source])
            continue
        target, value = node.args[0], current.get(node.args[1], node.args[1])
        if value.meta["val"].shape != target.meta["val"].shape or value.meta["val"].dtype != target.meta["val"].dtype:
            with graph.inserting_before(node):
                value = graph.call_function(torch.ops.aten.copy.default, (current.get(target, target), value))
            value.meta = dict(target.meta)
        node.args = (target, value)
        current[target] = current[node] = value
        if target in last:
            last[target].replace_all_uses_with(node)
            graph.erase_node(last[target])
        last[target] = node


class _Plan:
    """In which stage each node runs. Even stages are the host's, odd ones the device's; a stage reads what earlier ones
    made."""

    def __init__(self, module: fx.GraphModule, name: str, options: Options, by_itself: dict[fx.Node, str]) -> None:
        self._module = module
        self._name = name
        self._options = options
        self._by_itself = by_itself
        self._placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._outputs = list(_values.leaves(module.graph.output_node().args[0]))
        self._stages: dict[fx.Node, int] = {}
        self._writes: list[tuple[fx.Node, fx.Node]] = []  # value, placeholder
        self._copies: dict[fx.Node, fx.Node] = {}  # what stands for a placeholder after it was written
        self._constants: dict[fx.Node, Any] = {}
        self._scalars = self._scalars_for_programs(module.graph)
        random_stage = 0  # draws stay in their order
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._add_constant(node, getattr(module, node.target))
            if node.op != "call_function" or self._is_folded(node):
                continue
            if node.target is _COPY and node.args[0].op == "placeholder":
                self._add_write(node)
                continue
            least = max((self._stages.get(source, 0) for source in node.all_input_nodes), default=0)
            if node.target is not operator.getitem:
                random = draws(node)
                least = max(least, random_stage if random else 0)
                least += least % 2 != self._in_program(node)
                random_stage = least if random else random_stage
            self._stages[node] = least

    def _add_write(self, node: fx.Node) -> None:
        target, value = node.args[:2]
        assert isinstance(target, fx.Node) and isinstance(value, fx.Node)
        self._writes.append((value, target))
        self._copies[node] = target

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

    def _in_program(self, node: fx.Node) -> bool:
        fits = _values.on_device(node) or node in self._scalars
        return fits and node not in self._by_itself and _pack.has_form(node.target)

    def _scalars_for_programs(self, graph: fx.Graph) -> set[fx.Node]:
        """What is computed from numbers in CPU tensors, for the device alone (an optimizer's corrections of its rates):
        a part of the program that reads it."""
        found: set[fx.Node] = set()
        for node in reversed(graph.nodes):
            if node.op != "call_function" or node in self._by_itself or not node.users or draws(node):
                continue
            results = _values.tensors(node)
            if (
                results
                and all(value.device.type == "cpu" and value.dim() == 0 for value in results)
                and all(_fits(source) for source in node.all_input_nodes if source.op == "placeholder")
                and (node.target is operator.getitem or _pack.has_form(node.target))
                and all(user in found or (_values.on_device(user) and user.target is not _COPY) for user in node.users)
            ):
                found.add(node)
        return found

    def runner(self) -> Runner:
        kinds = set(self._stages.values())
        outputs = [node for node in self._outputs if isinstance(node, fx.Node)]
        fits = (
            kinds <= {1}
            and all(_values.on_device(node) for node in [*outputs, *(target for _, target in self._writes)])
            and all(_fits(node) for node in self._placeholders if node.users)
        )
        return self._single() if fits and (kinds or self._writes) else self._several()

    # ---- one program ----

    def _single(self) -> Runner:
        used = [node for node in self._placeholders if node.users and not _is_number(node)]
        given = [node for node in self._placeholders if node.users and _is_number(node)]
        numbers = {i: value for i, value in enumerate(self._outputs) if _values.is_number(value)}
        inline, constants = self._sort_constants(self._constants)
        outputs = [node if isinstance(node, fx.Node) else None for node in self._outputs]
        inputs, nodes = used + constants + given, list(self._stages)
        program = Program(self._name, self._options, inputs, nodes, outputs, self._writes, self._copies, inline)
        held = [_upload(self._constants[node]) for node in constants]
        positions = {node: i for i, node in enumerate(self._placeholders)}
        tensors_at, numbers_at = [positions[node] for node in used], [positions[node] for node in given]
        if tensors_at == list(range(len(self._placeholders))) and not held and not numbers:
            return program

        def run(args: list[Any]) -> list[Any]:
            results = program([args[i] for i in tensors_at] + held, [args[i] for i in numbers_at])
            for i, value in numbers.items():
                results[i] = value
            return results

        return run

    def _sort_constants(self, nodes: Iterable[fx.Node]) -> tuple[dict[fx.Node, torch.Tensor], list[fx.Node]]:
        """Those that the text of a program holds, and those that are inputs."""
        used = [node for node in nodes if isinstance(self._constants[node], torch.Tensor)]
        used = [node for node in used if any(user not in self._constants for user in node.users)]
        inline = {node: self._constants[node] for node in used if self._constants[node].is_cpu and _fits(node)}
        return inline, [node for node in used if node not in inline]

    # ---- several ----

    def _several(self) -> Runner:
        steps: list[_Step] = []
        last = max(self._stages.values(), default=0)
        written, written_after = self._sort_writes()
        needed_later = self._last_uses(last, written_after)
        for stage in range(last + 1):
            nodes = [node for node, at in self._stages.items() if at == stage]
            if stage % 2 == 0:
                for node in nodes:
                    self._allow_cut(node)
                    steps.append(_HostStep(node))
            elif nodes:
                outputs = [node for node in nodes if needed_later.get(node, -1) > stage]
                sources = {source for node in nodes for source in node.all_input_nodes}
                inline, _ = self._sort_constants(node for node in self._constants if node in sources)
                writes = written.get(stage, [])
                steps.append(_DeviceStep(f"{self._name}.{stage // 2}", self._options, nodes, outputs, writes, inline))
        _watch.note("%s is cut into %d programs", self._name, sum(isinstance(step, _DeviceStep) for step in steps))
        constants = {
            node: _upload(value) if isinstance(value, torch.Tensor) and _is_uploaded(node) else value
            for node, value in self._constants.items()
        }

        def run(args: list[Any]) -> list[Any]:
            values = dict(constants)
            values.update(zip(self._placeholders, args, strict=True))
            args.clear()
            for step in steps:
                step(values)
            for value, target in written_after:
                values[target].copy_(values[value])
            outputs = [self._copies.get(node, node) for node in self._outputs]
            return [values[node] if isinstance(node, fx.Node) else node for node in outputs]

        return run

    def _sort_writes(self) -> tuple[dict[int, list[tuple[fx.Node, fx.Node]]], list[tuple[fx.Node, fx.Node]]]:
        """Those that a program does, by stage, and those that are copies at the end: a program may write what no later
        stage reads."""
        on_device = {node for node in self._placeholders if _values.on_device(node)}
        reads = [stage for node, stage in self._stages.items() if not on_device.isdisjoint(node.all_input_nodes)]
        last_read = max(reads, default=0)
        written: dict[int, list[tuple[fx.Node, fx.Node]]] = {}
        after = []
        for value, target in self._writes:
            stage = self._stages.get(value, 0)
            if stage % 2 and stage >= last_read and target in on_device:
                written.setdefault(stage, []).append((value, target))
            else:
                after.append((value, target))
        return written, after

    def _last_uses(self, last: int, written_after: list[tuple[fx.Node, fx.Node]]) -> dict[fx.Node, int]:
        """The last stage that reads a value; results and values that are copied are read behind the last one."""
        uses: dict[fx.Node, int] = {}
        for node, stage in self._stages.items():
            for source in node.all_input_nodes:
                uses[source] = max(uses.get(source, -1), stage)
        for node in [*self._outputs, *(value for value, _ in written_after)]:
            if isinstance(node, fx.Node):
                uses[node] = last + 1
        return uses

    def _allow_cut(self, node: fx.Node) -> None:
        """Says that a node runs by itself, or refuses it where the user wants no cuts."""
        if node.target is operator.getitem or _is_number(node):
            return
        why = self._by_itself.get(node) or (
            "no row of the op table means it" if _values.on_device(node) else "its result is no tensor of the device"
        )
        what = f"{self._name}: {_values.spell(node)} runs by itself: {why}"
        line = _pack.user_line(node)
        if line is not None:
            what += f"\n  at {line[0]}:{line[1]}"
        if not self._options.cuts:
            file = _watch.graph_file(self._name, self._module.print_readable(print_output=False), self._options)
            raise NotImplementedError(f"{what}\n  the graph is in {file}")
        _watch.note("%s", what)


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
        options: Options,
        nodes: Sequence[fx.Node],
        outputs: Sequence[fx.Node],
        writes: Sequence[tuple[fx.Node, fx.Node]],
        constants: dict[fx.Node, torch.Tensor],
    ) -> None:
        inside = {*nodes, *constants}
        sources = dict.fromkeys(
            source
            for node in nodes
            for source in node.all_input_nodes
            if source not in inside and not _is_graph(source)
        )
        sources.update(dict.fromkeys(target for _, target in writes))
        self._tensors = [source for source in sources if not _is_number(source)]
        self._numbers = [source for source in sources if _is_number(source)]
        self._outputs = [node for node in outputs if isinstance(node.meta.get("val"), torch.Tensor)]
        inputs = [*self._tensors, *self._numbers]
        self._program = Program(name, options, inputs, nodes, self._outputs, writes, constants=constants)

    def __call__(self, values: dict[fx.Node, Any]) -> None:
        tensors = [_feed(values[node]) for node in self._tensors]
        results = self._program(tensors, [values[node] for node in self._numbers])
        values.update(zip(self._outputs, results, strict=True))


def _is_graph(node: fx.Node) -> bool:
    """A graph of control flow, which is a part of its op."""
    return isinstance(node.meta.get("val"), fx.GraphModule)


def _is_number(node: fx.Node) -> bool:
    return _values.is_number(node.meta.get("val"))


def _fits(node: fx.Node) -> bool:
    """Whether a program takes the input as it is: it is on the device, or a number, perhaps in a CPU tensor."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return isinstance(value, (int, float, torch.SymFloat))
    return _values.on_device(node) or (value.device.type == "cpu" and value.dim() == 0)


def _feed(value: torch.Tensor) -> torch.Tensor:
    return value if value.dim() == 0 or value.device.type != "cpu" else value.to(_loader.BACKEND)


def _upload(value: torch.Tensor) -> torch.Tensor:
    """A constant of the graph, kept on the device."""
    return value.detach().to(_loader.BACKEND)


def _is_uploaded(node: fx.Node) -> bool:
    return bool(node.users) and all(_values.on_device(user) for user in node.users)
