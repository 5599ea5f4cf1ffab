"""hops: PyTorch's higher-order ops (control flow and their like) under torch.compile, against the same on the CPU.

Values, and gradients where the op has some; with fixed sizes, and with sizes that are symbols.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.hop_db import hop_db
from torch.utils import _pytree as pytree

from conformance.compare import DEVICE, GRADIENT_TOLERANCE, Attempt, agree, agree_gradients, tensors
from conformance.harness import Case, Mismatch, NoSample


def copied(value: Any, device: str, requires_grad: bool) -> Any:
    def copy(x: torch.Tensor) -> torch.Tensor:
        made = x.detach().clone().to(device)
        return made.requires_grad_(requires_grad and made.is_floating_point())

    return pytree.tree_map_only(torch.Tensor, copy, value)


def gradients(result: Any, given: Any) -> tuple[torch.Tensor | None, ...]:
    outs, ins = ([t for t in tensors(x) if t.requires_grad] for x in (result, given))
    if not outs or not ins:
        return ()
    weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).view(t.shape).to(t.device) for t in outs]
    return torch.autograd.grad(outs, ins, weights, allow_unused=True)


def check(op: Any, given: Any, differentiate: bool, dynamic: bool) -> bool:
    """False when PyTorch refuses the sample on the CPU."""

    def attempt(backend: str, values: Any) -> Attempt:
        torch._dynamo.reset()
        run = torch.compile(lambda x, a, k: op.op(x, *a, **k), backend=backend, dynamic=dynamic)
        return Attempt(lambda: run(*values))

    mine, theirs = (copied(given, device, differentiate) for device in (DEVICE, "cpu"))
    want = attempt("aot_eager", theirs)
    if want.exception is not None:
        return False
    got = attempt(DEVICE, mine)
    if got.exception is not None:
        raise got.exception
    agree(want.result, got.result)
    wants = Attempt(lambda: gradients(want.result, theirs))
    if differentiate and wants.exception is None:
        gots = Attempt(lambda: gradients(got.result, mine))
        if gots.exception is not None:
            raise Mismatch("GRAD_ERROR", f"{type(gots.exception).__name__}: {gots.exception}")
        agree_gradients(wants.result, gots.result, GRADIENT_TOLERANCE)
    return True


def run(op: Any, differentiate: bool, dynamic: bool) -> str:
    n = 0
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=differentiate):
        n += check(op, (sample.input, sample.args, sample.kwargs), differentiate, dynamic)
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    for op in hop_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        for dynamic in (False, True):
            for differentiate in (False, True) if op.supports_autograd else (False,):
                kind = ("dynamic" if dynamic else "static") + (" gradients" if differentiate else "")
                yield Case(f"{name} {kind}", "float32", partial(run, op, differentiate, dynamic), group=op.name)
