"""fake: what FakeTensorMode says of an operator on the device is what running it there gives: shapes, dtypes, strides,
devices. Samples whose fake run differs on the CPU too are PyTorch's affair, and not counted."""

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from conformance import opinfos
from conformance.compare import significant_strides, tensors
from conformance.harness import Case, Mismatch, NoSample


def fake_run(op: Any, call: opinfos.Call) -> Any:
    with FakeTensorMode() as mode:
        return call.map_tensors(mode.from_tensor)(op.op)


def agree_fake(real: Any, fake: Any) -> None:
    reals, fakes = tensors(real), tensors(fake)
    if len(reals) != len(fakes):
        raise Mismatch("STRUCTURE", f"{len(reals)} outputs, fake {len(fakes)}")
    for a, b in zip(reals, fakes, strict=True):
        if a.device.type != b.device.type:
            raise Mismatch("DEVICE", f"{a.device}, fake {b.device}")
        if a.dtype != b.dtype:
            raise Mismatch("DTYPE", f"{a.dtype}, fake {b.dtype}")
        if a.shape != b.shape:
            raise Mismatch("SHAPE", f"{tuple(a.shape)}, fake {tuple(b.shape)}")
        if a.layout == torch.strided and significant_strides(a) != significant_strides(b):
            raise Mismatch("STRIDE", f"{tuple(a.shape)}: {a.stride()}, fake {b.stride()}")
        if (a.is_conj(), a.is_neg()) != (b.is_conj(), b.is_neg()):
            raise Mismatch("BITS", f"conj {a.is_conj()}, fake {b.is_conj()}; neg {a.is_neg()}, fake {b.is_neg()}")


def run(op: Any, dtype: torch.dtype) -> str:
    n = 0
    for call in opinfos.samples(op, dtype):
        try:
            agree_fake(call(op.op), fake_run(op, call))
        except Exception:
            continue
        n += 1
        moved = opinfos.on_device(op, call)
        agree_fake(moved(op.op), fake_run(op, moved))
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, (torch.float32, torch.int64))
