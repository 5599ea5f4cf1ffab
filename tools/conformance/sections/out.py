"""out: the out= form writes, resizes, converts and refuses as on the CPU.

The result of a call on the CPU is made into out= tensors of many kinds, each of which has a twin on the device. Both
have to end the same: the exception's type, warnings of a resize, the returned object, and the tensor's dtype, shape,
strides and whole storage; where the CPU wrote into the memory that it was given, so did the device.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import TOLERANCE, Attempt, agree, all_of, map_tensors, same_exception, tensors, twins
from conformance.harness import Case, Mismatch, NoSample
from conformance.opinfos import Call

Form = Callable[[torch.Tensor], torch.Tensor]


def plain(t: torch.Tensor) -> torch.Tensor:
    return torch.ones(t.shape, dtype=t.dtype)


def strided(t: torch.Tensor) -> torch.Tensor:
    """Its memory has gaps and the other order of dimensions, and does not begin at 0."""
    base = torch.ones([2 * size for size in reversed(t.shape)] or [2], dtype=t.dtype)
    if t.dim() == 0:
        return base[1]
    return base[tuple(slice(1, None, 2) for _ in t.shape)].permute(*reversed(range(t.dim())))


def empty(t: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=t.dtype)


def wrong_shape(t: torch.Tensor) -> torch.Tensor:
    return torch.ones([*t.shape, 2], dtype=t.dtype)


def of_dtype(dtype: torch.dtype, t: torch.Tensor) -> torch.Tensor:
    return torch.ones(t.shape, dtype=dtype)


def needing_gradient(t: torch.Tensor) -> torch.Tensor:
    return plain(t).requires_grad_(t.is_floating_point() or t.is_complex())


FORMS: dict[str, Form] = {"plain": plain, "strided": strided, "empty": empty, "wrong shape": wrong_shape}
FORMS |= {str(d): partial(of_dtype, d) for d in (torch.bool, torch.int64, torch.float64, torch.complex128)}
FORMS["needs a gradient"] = needing_gradient


def whole(t: torch.Tensor) -> torch.Tensor:
    """All memory behind the tensor, gaps included."""
    n = t.untyped_storage().nbytes() // t.element_size()
    return t.detach().as_strided((n,), (1,), 0)


def is_same(returned: list[torch.Tensor], given: list[torch.Tensor]) -> list[bool]:
    return [a is b for a, b in zip(returned, given, strict=False)]


def check(op: Any, call: Call, result: Any, form: Form) -> None:
    device_call = opinfos.on_device(op, call)
    out = map_tensors(form, result)
    device_out = twins(out)
    ours, theirs = tensors(out), tensors(device_out)
    had, device_had = [t.data_ptr() for t in ours], [t.data_ptr() for t in theirs]
    want = Attempt(lambda: call(op.op, out=out))
    got = Attempt(lambda: device_call(op.op, out=device_out))
    if same_exception(want, got):
        return
    resized = [sum("was resized" in text for text in attempt.warnings) for attempt in (want, got)]
    if resized[0] != resized[1]:
        raise Mismatch("WARNING", f"{resized[0]} warnings of a resize vs {resized[1]}")
    returned = [is_same(tensors(want.result), ours), is_same(tensors(got.result), theirs)]
    if returned[0] != returned[1]:
        raise Mismatch("RETURN", f"the tensor given is returned: {returned[0]} vs {returned[1]}")
    # The precision is that of the operands.
    tolerance = dict.fromkeys(TOLERANCE, max(TOLERANCE.get(t.dtype, 0.0) for t in [*tensors(result), *call.tensors]))
    opinfos.agree_results(op, call, out, device_out, strides=True, tolerance=tolerance)
    kept = [t.data_ptr() == pointer for t, pointer in zip(ours, had, strict=True)]
    device_kept = [t.data_ptr() == pointer for t, pointer in zip(theirs, device_had, strict=True)]
    if any(a and not b for a, b in zip(kept, device_kept, strict=True)):
        raise Mismatch("MOVED", f"written in the memory given: {kept} vs {device_kept}")
    if all(kept) and opinfos.has_one_answer(op):
        agree([whole(t) for t in ours], [whole(t) for t in theirs], tolerance)


def check_differentiable(op: Any, call: Call, result: Any) -> None:
    """Automatic differentiation is refused where an operand asks for it."""
    asking = call.map_tensors(lambda t: t.detach().requires_grad_(t.is_floating_point() or t.is_complex()))
    check(op, asking, result, plain)


def check_other_device(op: Any, call: Call, result: Any) -> None:
    """Operands on the device, results on the CPU."""
    device_call = opinfos.on_device(op, call)
    got = Attempt(lambda: device_call(op.op, out=map_tensors(plain, result)))
    if device_call.tensors and not isinstance(got.exception, RuntimeError):
        raise Mismatch("NO_ERROR", f"out= on the CPU: {got.exception!r}")


def run(op: Any, dtype: torch.dtype) -> str:
    for call in opinfos.samples(op, dtype, at_most=3):
        attempt = Attempt(partial(call, op.op))
        result = attempt.result
        if attempt.exception is None and tensors(result):
            break
    else:
        raise NoSample
    checks = [(name, partial(check, op, call, result, form)) for name, form in FORMS.items()]
    checks.append(("operands need a gradient", partial(check_differentiable, op, call, result)))
    checks.append(("on the CPU", partial(check_other_device, op, call, result)))
    return all_of(checks)


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, where=lambda op: op.supports_out)
