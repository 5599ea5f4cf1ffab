"""inplace: the in-place form writes its operand as on the CPU, and returns it; operands of all memory layouts."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import Attempt, agree, all_of, same_exception
from conformance.harness import Case, Mismatch, NoSample
from conformance.opinfos import Call
from conformance.sections.noncontiguous import FORMS


def check(op: Any, call: Call) -> None:
    function = op.get_inplace()
    device_call = opinfos.on_device(op, call)
    want, got = Attempt(lambda: call(function)), Attempt(lambda: device_call(function))
    if same_exception(want, got):
        return
    if (want.result is call.input) != (got.result is device_call.input):
        raise Mismatch("RETURN", "another tensor than the operand is returned")
    values = opinfos.name_of(op) not in opinfos.RANDOM
    agree(call.input, device_call.input, values=values, strides=True)


def run(op: Any, dtype: torch.dtype) -> str:
    checks = []
    for i, call in enumerate(opinfos.samples(op, dtype, at_most=2)):
        for name, form in FORMS.items():
            made = call.map_tensors(form) if i == 0 or name == "plain" else None
            if made is not None and isinstance(made.input, torch.Tensor):
                checks.append((f"{i} {name}", partial(check, op, made)))
    if not checks:
        raise NoSample
    return all_of(checks)


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, where=lambda op: op.get_inplace() is not None)
