"""modules: every torch.nn module, trained and evaluated, against the same module on the CPU.

In float32: outputs, gradients of inputs and parameters, the state after the call, what a pickled and a deep copy
compute, repr, and the same with module and images in channels_last. In bfloat16: outputs.
"""

import copy
import io
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

from conformance.compare import (
    DEVICE,
    GRADIENT_TOLERANCE,
    agree,
    agree_gradients,
    channels_last,
    map_tensors,
    tensors,
    twins,
)
from conformance.harness import Case, Mismatch, NoSample
from conformance.opinfos import dtype_name, spread

RANDOM_IN_TRAINING = ("Dropout", "RReLU")
RANDOM = ("FractionalMaxPool",)
AT_MOST = 6  # samples of a module


def is_random(module: torch.nn.Module) -> bool:
    for m in module.modules():
        name = type(m).__name__
        if any(r in name for r in RANDOM) or (m.training and any(r in name for r in RANDOM_IN_TRAINING)):
            return True
    return False


def inputs_of(info: Any, dtype: torch.dtype, training: bool) -> list[Any]:
    torch.manual_seed(0)
    made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    return spread([x for x in made if x.forward_input is not None], AT_MOST)


def make(info: Any, sample: Any, dtype: torch.dtype, training: bool) -> torch.nn.Module:
    torch.manual_seed(1)
    constructor = copy.deepcopy(sample.constructor_input)  # some modules keep a tensor that they are given
    module: torch.nn.Module = info.module_cls(*constructor.args, **constructor.kwargs)
    return module.to(dtype).train(training)


class Run:
    """One call of a module with its gradients. What it raises is raised."""

    def __init__(self, module: torch.nn.Module, case: tuple[Any, Any], differentiate: bool) -> None:
        self.module, self.case = module, case
        self.output = module(*case[0], **case[1])
        self.gradients = self.differentiate() if differentiate else ()

    def differentiate(self) -> tuple[torch.Tensor | None, ...]:
        """Of a sum of the outputs in which every element has another weight."""
        outs = [t for t in tensors(self.output) if t.requires_grad]
        ins = [t for t in [*tensors(self.case), *self.module.parameters()] if t.requires_grad]
        if not outs or not ins:
            return ()
        weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).view(t.shape).to(t.device) for t in outs]
        return torch.autograd.grad(outs, ins, weights, allow_unused=True)


def agree_modules(want: torch.nn.Module, got: torch.nn.Module) -> None:
    """The same text, types and state."""
    if repr(want) != repr(got):
        raise Mismatch("REPR", f"{want!r} vs {got!r}")
    for (name, a), (_, b) in zip(want.named_parameters(), got.named_parameters(), strict=True):
        if type(a) is not type(b) or a.requires_grad != b.requires_grad:
            raise Mismatch("PARAMETER", f"{name}: {type(a).__name__} vs {type(b).__name__}")
    states = want.state_dict(), got.state_dict()
    if list(states[0]) != list(states[1]):
        raise Mismatch("STATE_DICT", f"{list(states[0])} vs {list(states[1])}")
    agree(list(states[0].values()), list(states[1].values()))


def copies(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    yield copy.deepcopy(module)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    yield torch.load(file, weights_only=False)


def lay_out(module: torch.nn.Module, format: Any) -> None:
    module.to(memory_format=format)  # type: ignore[call-overload]


def same_module_on_device(module: torch.nn.Module, lazy: bool, case: tuple[Any, Any]) -> torch.nn.Module:
    moved = module.to(DEVICE)
    if moved is not module:
        raise Mismatch("MODULE", ".to() returned another module")
    if lazy:
        moved(*case[0], **case[1])  # makes the parameters
    return moved


def check(info: Any, sample: Any, dtype: torch.dtype, training: bool, format: Any = None) -> bool:
    """False when the CPU refuses the sample."""
    differentiate = dtype == torch.float32
    case = (sample.forward_input.args, sample.forward_input.kwargs)
    if format is not None:
        case = map_tensors(channels_last, case)
    device_case = twins(case)
    theirs, ours = make(info, sample, dtype, training), make(info, sample, dtype, training)
    try:
        if info.is_lazy:
            theirs(*case[0], **case[1])
        if format is not None:
            lay_out(theirs, format)
        state = copy.deepcopy(theirs.state_dict())
        want = Run(theirs, case, differentiate)
    except Exception:
        return False
    ours = same_module_on_device(ours, info.is_lazy, device_case)
    if format is not None:
        lay_out(ours, format)
    ours.load_state_dict(state)
    got = Run(ours, device_case, differentiate)
    values = not is_random(theirs)
    agree(want.output, got.output, values=values, strides=format is not None)
    if not differentiate or not values:
        return True
    agree_gradients(want.gradients, got.gradients, GRADIENT_TOLERANCE)
    agree_modules(theirs, ours)
    for made in copies(ours) if format is None else ():
        agree_modules(theirs, made)
        if not training:
            agree(want.output, made(*device_case[0], **device_case[1]))
    return True


def run(info: Any, dtype: torch.dtype, training: bool) -> str:
    n = sum(check(info, sample, dtype, training) for sample in inputs_of(info, dtype, training))
    if not n:
        raise NoSample
    return f"{n} samples"


def run_channels_last(info: Any) -> str:
    n = 0
    for sample in inputs_of(info, torch.float32, training=True):
        case = (sample.forward_input.args, sample.forward_input.kwargs)
        ranks = {t.dim() for t in tensors(case)}
        for rank, format in ((4, torch.channels_last), (5, torch.channels_last_3d)):
            n += rank in ranks and check(info, sample, torch.float32, True, format)
    if not n:
        raise NoSample
    return f"{n} samples"


def cases() -> Iterator[Case]:
    for info in module_db:
        name = info.name
        for training in (True, False):
            form = f"{name}.{'train' if training else 'eval'}"
            for dtype in (torch.float32, torch.bfloat16):
                yield Case(form, dtype_name(dtype), partial(run, info, dtype, training), group=name)
        yield Case(f"{name}.channels_last", "float32", partial(run_channels_last, info), group=name)
