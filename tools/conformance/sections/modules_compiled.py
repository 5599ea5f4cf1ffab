"""modules_compiled: every torch.nn module under torch.compile, trained and evaluated, against itself on the CPU.

In float32: outputs, gradients of inputs and parameters, the state after the call. In bfloat16: outputs.
"""

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import torch
from torch.testing._internal.common_modules import module_db

from conformance.compare import DEVICE, GRADIENT_TOLERANCE, agree, agree_gradients, twins
from conformance.harness import Case, NoSample
from conformance.opinfos import dtype_name, spread
from conformance.sections.modules import Run, inputs_of, is_random, make, same_module_on_device

AT_MOST = 3  # samples of a module: each is captured anew


def check(info: Any, sample: Any, dtype: torch.dtype, training: bool) -> bool:
    """False when the CPU refuses the sample."""
    differentiate = dtype == torch.float32
    case = (sample.forward_input.args, sample.forward_input.kwargs)
    device_case = twins(case)
    theirs, ours = make(info, sample, dtype, training), make(info, sample, dtype, training)
    try:
        if info.is_lazy:
            theirs(*case[0], **case[1])
        state = copy.deepcopy(theirs.state_dict())
        want = Run(theirs, case, differentiate)
    except Exception:
        return False
    ours = same_module_on_device(ours, info.is_lazy, device_case)
    ours.load_state_dict(state)
    torch._dynamo.reset()
    compiled = cast(torch.nn.Module, torch.compile(ours, backend=DEVICE, dynamic=False))
    got = Run(compiled, device_case, differentiate)
    values = not is_random(theirs)
    agree(want.output, got.output, values=values)
    if differentiate and values:
        agree_gradients(want.gradients, got.gradients, GRADIENT_TOLERANCE)
        agree(list(theirs.state_dict().values()), list(ours.state_dict().values()))
    return True


def run(info: Any, dtype: torch.dtype, training: bool) -> str:
    counters = torch._dynamo.utils.counters
    counters.clear()
    n = sum(check(info, sample, dtype, training) for sample in spread(inputs_of(info, dtype, training), AT_MOST))
    if not n:
        raise NoSample
    breaks = sum(counters["graph_break"].values())
    return f"{n} samples, {counters['aot_autograd']['ok']} graphs, {breaks} breaks"


def cases() -> Iterator[Case]:
    for info in module_db:
        for training in (True, False):
            form = f"{info.name}.{'train' if training else 'eval'}"
            for dtype in (torch.float32, torch.bfloat16):
                yield Case(form, dtype_name(dtype), partial(run, info, dtype, training), group=info.name)
