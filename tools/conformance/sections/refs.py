"""refs: PyTorch's references of operators in Python (torch._refs), run on the device, against the same on the CPU."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import python_ref_db

from conformance import opinfos
from conformance.harness import Case, NoSample


def run(op: Any, dtype: torch.dtype) -> str:
    n = 0
    for call in opinfos.samples(op, dtype, at_most=2):
        try:
            want = call(op.op)
        except Exception:
            continue  # the CPU refuses this sample
        n += 1
        opinfos.agree_results(op.torch_opinfo, call, want, opinfos.on_device(op.torch_opinfo, call)(op.op))
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    for op in python_ref_db:
        for dtype in opinfos.KINDS:
            if dtype in op.supported_dtypes("cpu"):
                yield Case(opinfos.name_of(op), opinfos.dtype_name(dtype), partial(run, op, dtype), group=op.name)
