"""gradgrad: second derivatives of every operator that has them, in float64 (float32 where that is all there is)."""

from collections.abc import Iterator
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import agree_gradients, random_like, tensors
from conformance.harness import Case, Mismatch, NoSample

Gradients = list[torch.Tensor | None]
TOLERANCE = {torch.float64: 1e-6, torch.complex128: 1e-6, torch.float32: 1e-3, torch.complex64: 1e-3}


def weighted(given: list[torch.Tensor]) -> torch.Tensor:
    """Each element counts with a random weight, and by the square of its magnitude: sign and phase are free in some."""
    weights = random_like([t.detach().real for t in given])
    return torch.stack([(t.abs().square() * w).sum() for t, w in zip(given, weights, strict=True)]).sum()


def derivatives(op: Any, call: opinfos.Call) -> tuple[Gradients, Gradients]:
    """The gradients of a function of the results, and those of a function of these. None where nothing depends."""
    inputs = [t for t in call.tensors if t.requires_grad]
    out = [t for t in tensors(call(op.op)) if t.requires_grad and t.numel()]
    if not inputs or not out:
        raise NoSample
    first = torch.autograd.grad(weighted(out), inputs, create_graph=True, allow_unused=True)
    curved = [t for t in first if t is not None and t.requires_grad]
    if not curved:
        return list(first), [None] * len(inputs)
    return list(first), list(torch.autograd.grad(weighted(curved), inputs, allow_unused=True))


def run(op: Any, dtype: torch.dtype) -> str:
    n = 0
    for call in opinfos.samples(op, dtype, requires_grad=True, at_most=2):
        try:
            wanted = derivatives(op, call)
        except Exception:
            continue  # the CPU refuses this sample, or has no second derivative of it
        n += 1
        found = derivatives(op, opinfos.on_device(op, call))
        for order, want, got in zip(("first", "second"), wanted, found, strict=True):
            try:
                agree_gradients(want, got, TOLERANCE)
            except Mismatch as e:
                raise Mismatch(e.state, f"{order}: {e.detail}") from None
    if not n:
        raise NoSample
    return f"{n} samples"


def has_double(op: Any) -> bool:
    return torch.float64 in op.supported_backward_dtypes("cpu")


def is_twice_differentiable(op: Any) -> bool:
    return bool(op.supports_autograd and op.supports_gradgrad) and not opinfos.is_random(op)


def cases() -> Iterator[Case]:
    yield from opinfos.cases_of(run, (torch.float64,), where=lambda op: is_twice_differentiable(op) and has_double(op))
    yield from opinfos.cases_of(
        run, (torch.float32,), where=lambda op: is_twice_differentiable(op) and not has_double(op)
    )
