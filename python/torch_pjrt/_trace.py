"""Ops without a row, by PyTorch's own decompositions: traced once per call signature into a graph whose ops have rows.

The glue asks (glue/api.h says how). The answer is the graph's text, or None when no decomposition ends in rows: the op
runs on the CPU then.
"""

import functools
import json
import logging
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from torch_pjrt import _pack

_log = logging.getLogger("torch_pjrt.trace")
_DTYPES = {name: dtype for dtype, name in _pack.DTYPES.items()}
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def trace(request: str) -> str | None:
    """Answer one request of the glue. Does not raise: what cannot be traced runs on the CPU, which reports errors."""
    name = ""
    try:
        call = json.loads(request)
        name = call["op"]
        op = _overload(name)
        if op is None or op._schema.is_mutable or op not in decompositions():
            return None
        return _Call(op, call).trace()
    except Exception as error:
        _log.debug("%s is not decomposed: %s: %s", name, type(error).__name__, error)
        return None


def _overload(name: str) -> OpOverload | None:
    """The op of "aten::foo.bar"."""
    namespace, _, full = name.partition("::")
    base, _, overload = full.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


# Ops whose rows know indices and no masks: their decomposition is for masks alone.
BY_MASK = (torch.ops.aten.index_put.default, torch.ops.aten._unsafe_index_put.default)


@functools.cache
def decompositions() -> dict[OpOverload, Any]:
    """A decomposition for each op without a row: PyTorch's core ones first, which end in ATen ops, then the rest, whose
    `prims` are led back to ATen."""
    import torch._prims as prims
    from torch._decomp import core_aten_decompositions, decomposition_table

    table: dict[OpOverload, Any] = {}
    for source in (core_aten_decompositions(), decomposition_table):
        for op, decomposition in source.items():
            if isinstance(op, OpOverload) and op not in table and not _pack.has_row(op):
                table[op] = decomposition
    for name in prims.__all__:
        prim = getattr(prims, name, None)  # the list names some that are not there
        if isinstance(prim, OpOverload) and getattr(prim, "impl_aten", None) is not None:
            table[prim] = prim.impl_aten  # type: ignore[attr-defined]
    # Memory whose values are not given has some: zeros will do.
    table[torch.ops.aten.empty.memory_format] = _zeros
    table[torch.ops.aten.empty_like.default] = torch.zeros_like
    table[torch.ops.aten.empty_strided.default] = lambda size, stride, **options: _zeros(size, **options)
    table[torch.ops.aten.new_empty.default] = lambda self, size, **options: self.new_zeros(size, **options)
    table.update(dict.fromkeys(BY_MASK, _put_by_mask))
    return {op: _bounded(op, decomposition) for op, decomposition in table.items()}


def _put_by_mask(self: torch.Tensor, indices: list[Any], values: torch.Tensor, accumulate: bool = False) -> Any:
    """A write by one mask over the first dimensions, of values that are the same for each of its elements."""
    mask, *rest = indices
    if mask is None or mask.dtype != torch.bool or any(index is not None for index in rest):
        return NotImplemented
    n_behind = self.dim() - mask.dim()
    if values.dim() > n_behind:
        if any(size != 1 for size in values.shape[: values.dim() - n_behind]):
            return NotImplemented
        values = values.reshape(values.shape[values.dim() - n_behind :])
    mask = mask.reshape(*mask.shape, *[1] * n_behind)
    return torch.where(mask, self + values if accumulate else values, self)


def _zeros(size: list[int], **options: Any) -> torch.Tensor:
    options.pop("memory_format", None)
    return torch.zeros(size, **options)


def _bounded(op: OpOverload, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Stops a decomposition that leads back to its own op, as a few do, before Python's stack ends."""
    depth = 0

    @functools.wraps(decomposition)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth >= 4:
            raise _pack.Unpackable(f"the decomposition of {op} leads back to it")
        depth += 1
        try:
            return decomposition(*args, **kwargs)
        finally:
            depth -= 1

    return decompose


class _Call:
    """One call that is traced: its arguments, the tensors among them as fake ones."""

    def __init__(self, op: OpOverload, call: dict[str, Any]) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self._op = op
        self._input_statements: str = call["inputs"]
        self._mode = FakeTensorMode()
        self._tensors: list[torch.Tensor] = []  # in the order of the arguments
        self._inputs: list[int] = []  # the graph input behind each
        self._n_inputs = sum(" = " in line for line in self._input_statements.splitlines())
        with self._mode:
            self._arguments = [
                _enumerations(argument.name, self._argument(value))
                for argument, value in zip(op._schema.arguments, call["args"], strict=True)
            ]

    def _argument(self, value: Any) -> Any:
        """The Python value of an argument; a tensor becomes a function that picks it from the traced ones."""
        if isinstance(value, list):
            return [self._argument(element) for element in value]
        if not isinstance(value, dict):
            return value
        if "input" in value:
            return self._tensor(value)
        if "float" in value:
            return _SPECIAL[value["float"]]
        if "complex" in value:
            return complex(*(self._argument(part) for part in value["complex"]))
        if "dtype" in value:
            return _DTYPES[value["dtype"]]
        if "device" in value:
            return torch.device("tpu")
        raise _pack.Unpackable(f"argument {value}")

    def _tensor(self, value: dict[str, Any]) -> "_Pick":
        dtype = _DTYPES[value["dtype"]]
        number = value.get("number", False)
        if number and dtype == torch.float64:
            dtype = torch.get_default_dtype()  # a Python number has no precision of its own
        device = "cpu" if number else "tpu"
        tensor = torch.empty_strided(value["sizes"], value["strides"], dtype=dtype, device=device)
        self._tensors.append(tensor)
        self._inputs.append(value["input"])
        return _Pick(len(self._tensors) - 1)

    def _run(self, *tensors: torch.Tensor) -> Any:
        values = _fill(self._arguments, tensors)
        schema = self._op._schema.arguments
        positional = [value for value, argument in zip(values, schema, strict=True) if not argument.kwarg_only]
        named = {argument.name: value for value, argument in zip(values, schema, strict=True) if argument.kwarg_only}
        return self._op(*positional, **named)

    def trace(self) -> str:
        from torch.func import functionalize
        from torch.fx.experimental.proxy_tensor import make_fx

        table = decompositions()
        with torch.no_grad(), self._mode:
            module = make_fx(self._run, decomposition_table=table)(*self._tensors)
            # Decompositions may write into tensors that they made; a second pass turns that into values.
            if any(isinstance(n.target, OpOverload) and n.target._schema.is_mutable for n in module.graph.nodes):
                module = make_fx(functionalize(module, remove="mutations"), decomposition_table=table)(*self._tensors)
        module.graph.eliminate_dead_code()
        return _pack.Packer(self._input_statements, self._n_inputs).pack(module.graph, self._inputs, module)


def _enumerations(name: str, value: Any) -> Any:
    """Memory formats and layouts come as the numbers that the dispatcher knows them by."""
    if name == "memory_format" and isinstance(value, int):
        return {number: format for format, number in _pack.MEMORY_FORMATS.items()}[value]
    if name == "layout" and isinstance(value, int):
        return torch.strided
    return value


class _Pick:
    """Stands for a tensor among the arguments."""

    def __init__(self, index: int) -> None:
        self.index = index


def _fill(value: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    if isinstance(value, list):
        return [_fill(element, tensors) for element in value]
    return tensors[value.index] if isinstance(value, _Pick) else value
