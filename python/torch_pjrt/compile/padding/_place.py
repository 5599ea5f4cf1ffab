"""Tensors into padded memory and out of it, without a program for each size.

A tensor of [5, 4] in a storage of [8, 4] is a view: taking the true elements of a program's result costs nothing, and
giving such a result to the next program neither. What is not in padded memory is copied: through the host where the
device's memory is the host's, elsewhere by a program of its own.
"""

import functools
import math
from collections.abc import Sequence

import torch

from torch_pjrt import _C

Parts = Sequence[Sequence[int]]  # the sizes of the parts of each dimension
_lay = torch.ops.torch_pjrt.lay.default._op


def widen(value: torch.Tensor, true: Parts, wide: Parts) -> torch.Tensor:
    """The tensor with padding of any content. One that has the padded sizes already is taken as it is."""
    sizes = [math.prod(dim) for dim in wide]
    if list(value.shape) == sizes:
        return value
    if all(len(dim) == 1 for dim in wide):
        return _widen(value, sizes)
    parts = value.reshape([n for dim in true for n in dim])
    return _widen(parts, [n for dim in wide for n in dim]).reshape(sizes)


def cut(value: torch.Tensor, true: Parts, wide: Parts) -> torch.Tensor:
    """The true elements, in memory as PyTorch would have them."""
    sizes = [math.prod(dim) for dim in true]
    if list(value.shape) == sizes:
        return value
    if all(len(dim) == 1 for dim in wide):
        return _compact(_lay(value, sizes, value.stride()), value)
    whole = value.reshape([n for dim in wide for n in dim])
    return _compact(_lay(whole, [n for dim in true for n in dim], whole.stride()), whole).reshape(sizes)


def view(base: torch.Tensor, sizes: list[int], strides: list[int], offset: int) -> torch.Tensor:
    """A view that autograd does not see: PyTorch makes it one of the user's tensor."""
    return _lay(base, sizes, strides) if offset == base.storage_offset() else base.as_strided(sizes, strides, offset)


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _widen(value: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    strides = _dense_strides(sizes, value.stride())
    n_bytes = math.prod(sizes) * value.element_size()
    if value.stride() == strides and value.storage_offset() == 0 and value.untyped_storage().nbytes() == n_bytes:
        return _lay(value, sizes, strides)
    if value.is_cpu or _host_memory():
        host = torch.zeros(sizes, dtype=value.dtype)
        host[tuple(slice(n) for n in value.shape)] = value.cpu()
        return host.to(value.device)
    missing = [n for old, new in zip(reversed(value.shape), reversed(sizes), strict=True) for n in (0, new - old)]
    return torch.nn.functional.pad(value, missing)


def _compact(value: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """A part of `whole` as a tensor without holes, its dimensions in the same order in memory."""
    strides = value.stride()
    if strides == _dense_strides(value.shape, strides):
        return value
    order = sorted(range(value.dim()), key=lambda d: (-strides[d], d))
    back = [order.index(d) for d in range(value.dim())]
    if value.is_cpu or not _host_memory():
        return value.permute(order).contiguous().permute(back)
    host = whole.cpu()[tuple(slice(n) for n in value.shape)]
    return host.permute(order).contiguous().permute(back).to(value.device)


def _dense_strides(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides without holes, the dimensions ordered as by those given; a dimension of size 1 keeps its own."""
    result = list(strides)
    step = 1
    for d in sorted(range(len(sizes)), key=lambda d: (strides[d], -d)):
        if sizes[d] != 1:
            result[d] = step
            step *= sizes[d]
    return tuple(result)


@functools.cache
def _host_memory() -> bool:
    """Whether the device computes in the host's memory."""
    return bool(_C.client_info()["platform"] == "cpu")
