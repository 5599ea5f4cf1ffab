"""ops: every operator in nine dtypes, forward; in float32 the gradients too."""

from collections.abc import Iterator
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import GRADIENT_TOLERANCE, agree, tensors, to_device
from conformance.harness import Case, Mismatch, NoSample


def gradients(outputs: Any, inputs: Any) -> tuple[torch.Tensor | None, ...] | None:
    """Of the sum of all outputs' magnitudes; None where nothing is differentiable."""
    outs = [t for t in tensors(outputs) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    ins = [t for t in tensors(inputs) if t.requires_grad]
    if not outs or not ins:
        return None
    return torch.autograd.grad([t.abs().sum() for t in outs], ins, allow_unused=True)


def agree_gradients(want: Any, inputs: Any, got: Any, device_inputs: Any) -> None:
    try:
        wanted = gradients(want, inputs)
    except Exception:
        return  # the CPU has none
    if wanted is None:
        return
    try:
        found = gradients(got, device_inputs)
    except TimeoutError:
        raise
    except Exception as e:
        raise Mismatch("GRAD_ERROR", f"{type(e).__name__}: {e}") from None
    if found is None:
        raise Mismatch("GRAD_MISSING", "no gradient on the device")
    for a, b in zip(wanted, found, strict=True):
        if (a is None) != (b is None):
            raise Mismatch("GRAD_MISSING", "gradient is None on one side")
        try:
            if a is not None:
                agree(a, b, GRADIENT_TOLERANCE)
        except Mismatch as e:
            raise Mismatch("GRAD_" + e.state, e.detail) from None


def run(op: Any, dtype: torch.dtype) -> str:
    values = opinfos.name_of(op) not in opinfos.RANDOM
    differentiate = dtype == torch.float32 and op.supports_autograd
    n = 0
    for sample in opinfos.samples(op, dtype, requires_grad=differentiate):
        case = opinfos.arguments(sample)
        try:
            want = op.op(case[0], *case[1], **case[2])
        except Exception:
            continue  # the CPU refuses this sample
        n += 1
        if op.name in opinfos.CPU_ARGUMENTS:
            twin = (to_device(case[0]), case[1], case[2])
        else:
            twin = to_device(case)
        got = op.op(twin[0], *twin[1], **twin[2])
        agree(*opinfos.determined(op, sample, want, got), values=values)
        if differentiate and values:
            agree_gradients(want, case, got, twin)
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    return opinfos.each(run, opinfos.ALL_DTYPES)
