"""forward_ad: the derivative along a direction (dual tensors of torch.autograd.forward_ad) of every operator that has
one, in float32."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.autograd.forward_ad as fwAD

from conformance import opinfos
from conformance.compare import GRADIENT_TOLERANCE, random_like, tensors
from conformance.harness import Case, NoSample


def derivative(op: Any, call: opinfos.Call, tangents: list[torch.Tensor]) -> tuple[Any, list[torch.Tensor | None]]:
    """The outputs, and their tangents (None: zero, known without computing it)."""
    left = iter(tangents)

    def dual(t: torch.Tensor) -> torch.Tensor:
        return fwAD.make_dual(t.detach(), next(left)) if t.requires_grad else t

    with fwAD.dual_level():
        out = call.map_tensors(dual)(op.op)
        parts = [fwAD.unpack_dual(t) for t in tensors(out)]
        return opinfos.detached(out), [part.tangent for part in parts]


def zeros_for_none(tangents: list[torch.Tensor | None], out: Any) -> list[torch.Tensor]:
    return [torch.zeros_like(o) if t is None else t for t, o in zip(tangents, tensors(out), strict=True)]


def run(op: Any, dtype: torch.dtype) -> str:
    n = 0
    for call in opinfos.samples(op, dtype, requires_grad=True):
        inputs = [t for t in call.tensors if t.requires_grad]
        if not inputs:
            continue
        tangents = random_like(inputs)
        try:
            want, want_tangents = derivative(op, call, tangents)
        except Exception:
            continue  # the CPU refuses this sample
        n += 1
        moved = opinfos.on_device(op, call)
        device_tangents = random_like([t for t in moved.tensors if t.requires_grad])
        got, got_tangents = derivative(op, moved, device_tangents)
        opinfos.agree_results(op, call, want, got)
        found = zeros_for_none(want_tangents, want), zeros_for_none(got_tangents, got)
        opinfos.agree_derivatives(op, *found, GRADIENT_TOLERANCE)
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    def is_differentiable(op: Any) -> bool:
        return bool(op.supports_forward_ad) and not opinfos.is_random(op)

    return opinfos.cases_of(run, (torch.float32,), where=is_differentiable)
