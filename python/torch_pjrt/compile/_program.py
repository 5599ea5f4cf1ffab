"""Nodes of a captured graph as one program of the device: packed to the core's text, run by one call of the glue."""

import collections
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torch_pjrt import _C, _pack
from torch_pjrt.compile import _values, _watch
from torch_pjrt.compile._options import Options

_NO_NUMBERS: list[Any] = []
_NONE, _NEW, _PART, _INPUT, _VIEW = range(5)  # tpj_glue_result_kind


def draws(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and _C.is_random(_pack.op_name(node.target))


class Program:
    """`outputs` of `nodes`, computed from `inputs`; None among the outputs stays None.

    Inputs are tensors of the device, numbers in CPU tensors of rank 0, and behind those plain numbers (symbols).
    `writes` are (value, input): what becomes of an input at the end. `copies`: outputs that are a written input.
    `constants`: numbers in CPU tensors. Raises Unpackable, with the node that has no form as its second argument.
    """

    def __init__(
        self,
        name: str,
        options: Options,
        inputs: Sequence[fx.Node],
        nodes: Sequence[fx.Node],
        outputs: Sequence[fx.Node | None],
        writes: Sequence[tuple[fx.Node, fx.Node]] = (),
        copies: Mapping[fx.Node, fx.Node] | None = None,
        constants: Mapping[fx.Node, torch.Tensor] | None = None,
    ) -> None:
        self.name = name
        self._numbers = {node: i for i, node in enumerate(inputs)}
        self._copies = copies or {}
        random = any(draws(node) for node in nodes)
        self._n_before = len(inputs) + random
        self._packer = _pack.Packer("", self._n_before, len(inputs) if random else None)
        for node, number in self._numbers.items():
            self._packer.add_input(node, number)
        for node, constant in (constants or {}).items():
            self._packer.add_constant(node, constant)
        for node in nodes:
            try:
                self._packer.add_call(node)
            except _pack.Unpackable as error:
                raise _pack.Unpackable(str(error), node) from None
        self._returned: dict[fx.Node, int] = {}
        self._bases = _bases([*nodes], [node for node in outputs if node is not None])
        results = [self._result(node) for node in outputs]
        written = [(*self._value(value), self._numbers[target]) for value, target in writes]
        description = [len(results), *(number for result in results for number in result)]
        description += [len(written), *(number for write in written for number in write)]
        self.text = "".join(line + "\n" for line in self._packer.lines)
        described = f"# inputs: {', '.join(map(str, inputs))}\n{self.text}"
        options.dump(name, ".graph", described)
        _watch.graph(name, described, options)
        n_numbers = sum(_values.is_number(node.meta["val"]) for node in inputs)
        handle = _C.graph_create(
            name,
            self.text,
            len(inputs) - n_numbers,
            n_numbers,
            random,
            _device_index(nodes),
            description,
            options.precision and options.precision.upper(),
            options.dump_dir,
            options.effort,
            dict(options.compiler_options),
            _watch.is_on(),
        )
        weakref.finalize(self, _C.graph_destroy, handle)
        self._handle = handle

    def __call__(self, tensors: list[torch.Tensor], numbers: list[Any] = _NO_NUMBERS) -> list[Any]:
        return _run(self._handle, tensors, numbers)

    def _value(self, node: fx.Node) -> tuple[int, int]:
        number, result = self._packer.reference(node)
        return (number - self._n_before, result) if number >= self._n_before else (-1, number)

    def _result(self, node: fx.Node | None) -> list[int]:
        if node is None:
            return [_NONE, 0]
        if node in self._copies:
            return [_INPUT, self._numbers[self._copies[node]]]
        shared = self._shared_with_input(node)
        if shared is not None:
            return shared
        value = node.meta["val"]
        base = self._bases.get(value.untyped_storage()._cdata)
        if base is None or base is node or not _values.shares_memory(value, base.meta["val"]):
            return [_NEW, self._return(node)]
        return [_PART, self._return(base), value.dim(), *value.shape, *value.stride(), value.storage_offset()]

    def _return(self, node: fx.Node) -> int:
        if node not in self._returned:
            self._returned[node] = len(self._returned)
            self._packer.add_return(node)
        return self._returned[node]

    def _shared_with_input(self, node: fx.Node) -> list[int] | None:
        """A value that is an input, or a view of one, is not computed."""
        value = node.meta["val"]
        for base, number in self._numbers.items():
            if not _values.on_device(base):
                continue
            if base is node:
                return [_INPUT, number]
            known = base.meta["val"]
            if _values.shares_memory(value, known):
                strides = [value.dim(), *value.shape, *value.stride(), value.storage_offset() - known.storage_offset()]
                return [_VIEW, number, known.dim(), *known.stride(), *strides]
        return None


def _bases(nodes: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> dict[int, fx.Node]:
    """For storages that several outputs share, or that an output does not fill: the node that does. The others are then
    views of it, as they would be without a compiler."""
    count: collections.Counter[int] = collections.Counter()
    for node in dict.fromkeys(outputs):
        value = node.meta["val"]
        count[value.untyped_storage()._cdata] += 1 if _fills(value) else 2
    found: dict[int, fx.Node] = {}
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and _values.on_device(node) and _fills(value):
            storage = value.untyped_storage()._cdata
            if count[storage] > 1:
                found.setdefault(storage, node)
    return found


def _fills(value: torch.Tensor) -> bool:
    """Whether the elements are those of the storage, in the order of some of its dimensions."""
    return (
        value.storage_offset() == 0
        and value.untyped_storage().nbytes() == value.numel() * value.element_size()
        and (_pack.row_major(value) or _pack.dimension_order(value) is not None)
    )


def _device_index(nodes: Sequence[fx.Node]) -> int:
    for node in nodes:
        for value in _values.tensors(node):
            if value.device.index is not None:
                return value.device.index
    return -1


# The operator itself: what torch.ops gives is a Python object around it, which costs as much again.
_run = torch.ops.torch_pjrt.run_graph.default._op
