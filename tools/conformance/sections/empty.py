"""empty: operands without elements or without dimensions give the CPU's results and errors.

OpInfo's own samples of this kind, and others with each length of the first operand in turn made 0 in all operands.
Unary, binary and reduction operators get a list of shapes besides.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing import make_tensor
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

from conformance import opinfos
from conformance.compare import all_of
from conformance.harness import Case, NoSample
from conformance.opinfos import Call
from conformance.sections.noncontiguous import is_strided

OWN_SAMPLES = 3
SHAPES = ((), (0,), (3, 0), (0, 3), (2, 0, 3))
PAIRS = (((), ()), ((0,), (1,)), ((), (0,)), ((3, 0), (0,)), ((2, 1, 0), (2, 4, 1)), ((0,), (3,)))
REDUCTIONS = (((), None), ((), 0), ((0,), None), ((0,), 0), ((3, 0), 0), ((3, 0), -1), ((2, 0, 3), (0, 1)))


def is_small(t: torch.Tensor) -> bool:
    return t.dim() == 0 or t.numel() == 0


def emptied(call: Call, size: int) -> Call:
    """Every dimension of this length, in all operands, has length 0."""

    def one(t: torch.Tensor) -> torch.Tensor:
        for dim in range(t.dim()):
            t = t.narrow(dim, 0, 0) if t.size(dim) == size else t
        return t.detach().clone()

    return call.map_tensors(one)


def derived(op: Any, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    for call in opinfos.samples(op, dtype, at_most=2)[-1:]:
        if not call.tensors or not all(map(is_strided, call.tensors)):
            continue
        shape = call.tensors[0].shape
        for size in sorted(set(shape) - {0}):
            yield f"{tuple(shape)} without {size}", emptied(call, size)


def ufuncs(op: Any, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    make = partial(make_tensor, dtype=dtype, device="cpu", exclude_zero=True)
    if isinstance(op, UnaryUfuncInfo):
        for shape in SHAPES:
            t = make(shape)
            yield str(shape), Call(t, (), op.sample_kwargs("cpu", dtype, t)[0])
    elif isinstance(op, BinaryUfuncInfo):
        for a, b in PAIRS:
            t = make(a)
            yield f"{a} {b}", Call(t, (make(b),), op.sample_kwargs("cpu", dtype, t)[0])
    elif isinstance(op, ReductionOpInfo):
        for shape, dim in REDUCTIONS:
            t = make(shape)
            kwargs = {} if dim is None else {"dim": dim}
            for args, more in list(op.generate_args_kwargs(t, **kwargs))[:1]:
                yield f"{shape} dim={dim}", Call(t, args, {**more, **kwargs})


def run(op: Any, dtype: torch.dtype) -> str:
    own = [call for call in opinfos.all_samples(op, dtype) if any(map(is_small, call.tensors))][:OWN_SAMPLES]
    calls = [(f"sample {[tuple(t.shape) for t in call.tensors][:3]}", call) for call in own]
    calls += [*derived(op, dtype), *ufuncs(op, dtype)]
    if not calls:
        raise NoSample
    return all_of((name, partial(opinfos.check_call, op, call)) for name, call in calls)


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run)
