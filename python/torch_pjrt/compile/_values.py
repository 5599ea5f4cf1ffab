"""What is known of a node's value before it has one."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from torch_pjrt import _loader, _pack


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from leaves(element)
    else:
        yield value


def tensors(node: fx.Node) -> list[torch.Tensor]:
    """The fake tensors among a node's results."""
    return [value for value in leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def on_device(node: fx.Node) -> bool:
    """Whether all results are dense tensors of the device, and there is one."""
    found = tensors(node)
    return bool(found) and all(
        value.device.type == _loader.BACKEND and value.layout == torch.strided for value in found
    )


def spell(node: fx.Node) -> str:
    """ "aten.mm.default(f32[2, 3], f32[3, 4])": the call with the tensors among its arguments."""
    sources = [value for source in node.all_input_nodes for value in tensors(source)]
    types = ", ".join(f"{_pack.DTYPES.get(value.dtype, value.dtype)}{list(value.shape)}" for value in sources)
    return f"{node.target}({types})"


def is_number(value: Any) -> bool:
    """Whether it is no tensor but a number, known or not."""
    return isinstance(value, (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool))


def is_symbolic(node: fx.Node) -> bool:
    """Whether a value or a size of the node is not known before the graph runs."""
    for value in leaves(node.meta.get("val")):
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        if isinstance(value, torch.Tensor) and value._has_symbolic_sizes_strides:
            return True
    return False


def shares_memory(value: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether two fake tensors are views of one storage that differ in sizes and strides only."""
    return (
        value.dtype == base.dtype
        and value.layout == base.layout == torch.strided
        and value.device == base.device
        and value.is_conj() == base.is_conj()
        and value.is_neg() == base.is_neg()
        and value.untyped_storage()._cdata == base.untyped_storage()._cdata
    )
