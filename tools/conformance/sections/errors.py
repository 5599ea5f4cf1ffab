"""errors: OpInfo.error_inputs raise on the device what they raise on the CPU, the same type.

Where PyTorch has other error inputs for a device than for the CPU, the CPU's are moved to the device, and those of the
device raise the type that PyTorch names. The message is not compared: the remark of a case counts those of which
PyTorch's pattern holds.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import ErrorInput, SampleInput

from conformance import opinfos
from conformance.compare import DEVICE, Attempt, all_of, one_line, same_exception, twins
from conformance.harness import Case, Mismatch, NoSample


def error_inputs(op: Any, device: str) -> list[ErrorInput]:
    torch.manual_seed(0)
    return list(op.error_inputs(device))


def moved(given: ErrorInput) -> ErrorInput:
    sample = given.sample_input
    tensor, args, kwargs = twins((sample.input, sample.args, sample.kwargs))
    made = SampleInput(tensor, args=args, kwargs=kwargs)
    return ErrorInput(made, error_type=given.error_type, error_regex=given.error_regex)


def attempt(op: Any, given: ErrorInput) -> Attempt:
    sample = given.sample_input
    return Attempt(lambda: op.op(sample.input, *sample.args, **sample.kwargs))


def run(op: Any) -> str:
    on_cpu, on_device = error_inputs(op, "cpu"), error_inputs(op, DEVICE)
    own: list[ErrorInput] = []
    if len(on_cpu) != len(on_device):
        own, on_device = on_device, [moved(given) for given in on_cpu]
    n = n_words = 0

    def as_on_cpu(a: ErrorInput, b: ErrorInput) -> None:
        nonlocal n, n_words
        want = attempt(op, a)
        if want.exception is None:
            return  # what PyTorch says of the CPU does not hold
        n += 1
        got = attempt(op, b)
        same_exception(want, got)
        n_words += re.search(b.error_regex, str(got.exception)) is not None

    def as_named(given: ErrorInput) -> None:
        nonlocal n, n_words
        n += 1
        got = attempt(op, given)
        if type(got.exception) is not given.error_type:
            raise Mismatch("OTHER_ERROR", f"{given.error_type.__name__} vs {one_line(repr(got.exception))[:160]}")
        n_words += re.search(given.error_regex, str(got.exception)) is not None

    pairs = enumerate(zip(on_cpu, on_device, strict=True))
    checks = [(str(i), partial(as_on_cpu, a, b)) for i, (a, b) in pairs]
    checks += [(f"{DEVICE} {i}", partial(as_named, given)) for i, given in enumerate(own)]
    all_of(checks)
    if not n:
        raise NoSample
    return f"{n} errors, {n_words} of them in PyTorch's words"


def cases() -> Iterator[Case]:
    for op in op_db:
        if op.error_inputs_func is not None:
            yield Case(opinfos.name_of(op), "", partial(run, op), group=op.name)
