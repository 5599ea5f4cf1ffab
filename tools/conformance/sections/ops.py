"""ops: every operator in nine dtypes, forward; in float32 the gradients too."""

from collections.abc import Iterator
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import GRADIENT_TOLERANCE, agree_gradients, tensors, to_device
from conformance.harness import Case, Mismatch, NoSample


def gradients(outputs: Any, inputs: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...] | None:
    """Of the sum of all outputs' magnitudes; None where nothing is differentiable."""
    outs = [t for t in tensors(outputs) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    ins = [t for t in inputs if t.requires_grad]
    if not outs or not ins:
        return None
    return torch.autograd.grad([t.abs().sum() for t in outs], ins, allow_unused=True)


def check_gradients(want: Any, inputs: list[torch.Tensor], got: Any, device_inputs: list[torch.Tensor]) -> None:
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
    agree_gradients(wanted, found, GRADIENT_TOLERANCE)


def run(op: Any, dtype: torch.dtype) -> str:
    differentiate = dtype == torch.float32 and op.supports_autograd
    n = 0
    for call in opinfos.samples(op, dtype, requires_grad=differentiate):
        try:
            want = call(op.op)
        except Exception:
            continue  # the CPU refuses this sample
        n += 1
        device_call = opinfos.on_device(op, call, to_device)
        got = device_call(op.op)
        opinfos.agree_results(op, call, want, got)
        if differentiate and opinfos.name_of(op) not in opinfos.RANDOM:
            check_gradients(want, call.tensors, got, device_call.tensors)
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, opinfos.ALL_DTYPES)
