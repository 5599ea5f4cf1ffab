"""compiled: results, and in float32 gradients, of every operator under torch.compile, against the CPU without it."""

from collections.abc import Iterator
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import DEVICE, GRADIENT_TOLERANCE, Attempt, agree_gradients, same_exception, tensors
from conformance.harness import Case, Mismatch, NoSample
from conformance.opinfos import Call

AT_MOST = 2  # samples: each is captured anew


def gradients(result: Any, call: Call) -> tuple[torch.Tensor | None, ...]:
    """Of a sum of the results in which every element has another weight."""
    outs = [t for t in tensors(result) if t.requires_grad]
    ins = [t for t in call.tensors if t.requires_grad]
    if not outs or not ins:
        return ()
    weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).view(t.shape).to(t.device) for t in outs]
    return torch.autograd.grad(outs, ins, weights, allow_unused=True)


def check(op: Any, call: Call) -> None:
    device_call = opinfos.on_device(op, call)
    torch._dynamo.reset()
    compiled = torch.compile(lambda input, args, kwargs: op.op(input, *args, **kwargs), backend=DEVICE, dynamic=False)
    want = Attempt(lambda: call(op.op))
    got = Attempt(lambda: compiled(device_call.input, device_call.args, device_call.kwargs))
    if want.exception is not None:
        raise NoSample
    same_exception(want, got)
    opinfos.agree_results(op, call, want.result, got.result)
    if not opinfos.has_one_answer(op):
        return
    wants, gots = Attempt(lambda: gradients(want.result, call)), Attempt(lambda: gradients(got.result, device_call))
    if wants.exception is not None:
        return
    if gots.exception is not None:
        raise Mismatch("GRAD_ERROR", f"{type(gots.exception).__name__}: {gots.exception}")
    agree_gradients(wants.result, gots.result, GRADIENT_TOLERANCE)


def run(op: Any, dtype: torch.dtype) -> str:
    counters = torch._dynamo.utils.counters
    counters.clear()
    differentiate = dtype == torch.float32 and op.supports_autograd
    calls = opinfos.samples(op, dtype, requires_grad=differentiate, at_most=AT_MOST)
    n = 0
    for call in calls:
        try:
            check(op, call)
            n += 1
        except NoSample:
            continue
    if not n:
        raise NoSample
    breaks = sum(counters["graph_break"].values())
    return f"{n} samples, {counters['aot_autograd']['ok']} graphs, {breaks} breaks"


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, dtypes=(torch.float32, torch.bfloat16))
