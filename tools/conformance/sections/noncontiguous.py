"""noncontiguous: operands whose memory is permuted, has gaps or is shared give the CPU's results, strides included."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import all_of
from conformance.harness import Case, NoSample

# A matrix of equal rows is singular, and rounding decides what these make of it.
OF_REGULAR_MATRICES = {
    "linalg.cholesky_ex",
    "linalg.cond",
    "linalg.inv_ex",
    "linalg.ldl_solve",
    "linalg.lstsq",
    "linalg.lu",
    "linalg.lu_factor_ex",
    "linalg.qr",
    "pinverse",
}


def plain(t: torch.Tensor) -> torch.Tensor:
    return t.detach().clone()


def permuted(t: torch.Tensor) -> torch.Tensor:
    """Equal values, in the other order of dimensions."""
    order = tuple(reversed(range(t.dim())))
    return t.detach().permute(order).contiguous().permute(order)


def sliced(t: torch.Tensor) -> torch.Tensor:
    """Equal values, with gaps between them and before the first."""
    base = torch.zeros([*t.shape[:-1], 2 * t.size(-1)] if t.dim() else [2], dtype=t.dtype)
    view = base[..., 1::2] if t.dim() else base[1]
    return view.copy_(t.detach())


def expanded(t: torch.Tensor) -> torch.Tensor:
    """The first index along the first dimension, again and again, in one place in memory."""
    return t.detach().narrow(0, 0, 1).expand_as(t) if t.dim() and t.numel() else plain(t)


FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": plain,
    "permuted": permuted,
    "sliced": sliced,
    "expanded": expanded,
}


def is_strided(t: torch.Tensor) -> bool:
    return t.layout == torch.strided and not t.is_nested


def makes_sense(op: Any, call: opinfos.Call, form: str) -> bool:
    """The form differs from the plain one, and the result of it is determined."""
    return form != "plain" and not (form == "expanded" and op.name in OF_REGULAR_MATRICES and call.input.dim() == 2)


def run(op: Any, dtype: torch.dtype) -> str:
    calls = [call for call in opinfos.samples(op, dtype, at_most=2) if all(map(is_strided, call.tensors))]
    checks = [
        (f"{i} {name}", partial(opinfos.check_call, op, call.map_tensors(form), strides=True))
        for i, call in enumerate(calls)
        for name, form in FORMS.items()
        if makes_sense(op, call, name)
    ]
    if not checks:
        raise NoSample
    return all_of(checks)


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run)
