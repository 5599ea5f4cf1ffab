"""views: operands that are lazy conjugates or negatives (torch.conj, Tensor._neg_view) give the CPU's results."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import all_of
from conformance.harness import Case, NoSample
from conformance.sections import inplace


def conjugate(t: torch.Tensor) -> torch.Tensor:
    return t.detach().conj_physical().conj() if t.is_complex() else t.detach().clone()


def negative(t: torch.Tensor) -> torch.Tensor:
    return t.detach().neg()._neg_view() if t.is_floating_point() or t.is_complex() else t.detach().clone()


def both(t: torch.Tensor) -> torch.Tensor:
    return t.detach().neg().conj_physical().conj()._neg_view() if t.is_complex() else negative(t)


FORMS: dict[torch.dtype, dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    torch.float32: {"neg": negative},
    torch.complex64: {"conj": conjugate, "neg": negative, "conj and neg": both},
}


def run(op: Any, dtype: torch.dtype) -> str:
    checks = []
    for i, call in enumerate(opinfos.samples(op, dtype, at_most=2)):
        for name, form in FORMS[dtype].items():
            checks.append((f"{i} {name}", partial(opinfos.check_call, op, call.map_tensors(form))))
            if op.get_inplace() is not None and isinstance(call.input, torch.Tensor):
                checks.append((f"{i} {name}, in place", partial(inplace.check, op, call.map_tensors(form))))
    if not checks:
        raise NoSample
    return all_of(checks)


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, dtypes=tuple(FORMS), where=lambda op: op.test_conjugated_samples or op.test_neg_view)
