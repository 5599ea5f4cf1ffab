"""strides: results lie in memory as the CPU's do, of contiguous operands and of channels_last ones."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from conformance import opinfos
from conformance.compare import CHANNELS_LAST, all_of, channels_last
from conformance.harness import Case, NoSample


def run(op: Any, dtype: torch.dtype) -> str:
    checks = []
    calls = opinfos.all_samples(op, dtype)
    images = [call for call in calls if call.tensors and call.tensors[0].dim() in CHANNELS_LAST]
    for call in opinfos.samples(op, dtype, at_most=3):
        checks.append(("contiguous", partial(opinfos.check_call, op, call, strides=True)))
    for call in images[:2]:
        made = call.map_tensors(channels_last)
        checks.append((f"channels_last {call.tensors[0].dim()}-d", partial(opinfos.check_call, op, made, strides=True)))
    if not checks:
        raise NoSample
    return all_of(checks)


def cases() -> Iterator[Case]:
    return opinfos.cases_of(run, dtypes=(torch.float32, torch.int64))
