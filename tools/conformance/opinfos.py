"""PyTorch's operator database (OpInfo): which operators, which dtypes, which samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from conformance.compare import DEVICE, TOLERANCE, Attempt, agree, map_tensors, same_exception, tensors, twins
from conformance.harness import Case

ALL_DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
KINDS = (torch.float32, torch.int64, torch.complex64)  # one of each kind does where rules, not kernels, are compared

# Values are random, or whatever lay in memory.
RANDOM = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.multi_head_attention_forward",  # with dropout
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",  # with dropout
    "normal",
    "normal.in_place",
    "normal.number_mean",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "uniform",
}
NOT_COMPARABLE = {"as_strided.partial_views"}  # moving its input to the device drops the storage that it looks into
CPU_ARGUMENTS = {"tensor_split"}  # PyTorch wants these operators' tensor arguments on the CPU
# Vectors have a free sign or phase.
UP_TO_SIGN = {"svd", "linalg.svd", "qr", "linalg.qr", "geqrf", "linalg.eig", "linalg.eigh", "symeig"}
TIES = {"topk"}  # which of several equal elements is named is free


def name_of(op: Any) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_random(op: Any) -> bool:
    """Whether the values are more than what the arguments say."""
    return name_of(op) in RANDOM


def cases_of(
    run: Callable[[Any, torch.dtype], str],
    dtypes: tuple[torch.dtype, ...] = KINDS,
    where: Callable[[Any], bool] = lambda op: True,
) -> Iterator[Case]:
    """A case for each operator and each of the dtypes that it has on the CPU."""
    for op in op_db:
        if name_of(op) in NOT_COMPARABLE or not where(op):
            continue
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                yield Case(name_of(op), dtype_name(dtype), partial(run, op, dtype), group=op.name)


@dataclass(frozen=True)
class Call:
    """The arguments of an operator: a SampleInput's."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, function: Callable[..., Any], **more: Any) -> Any:
        return function(self.input, *self.args, **self.kwargs, **more)

    def map(self, function: Callable[[Any], Any]) -> "Call":
        """The function is given all arguments at once, as a tree."""
        return Call(*function((self.input, self.args, self.kwargs)))

    def map_tensors(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "Call":
        return self.map(partial(map_tensors, function))

    @property
    def tensors(self) -> list[torch.Tensor]:
        return tensors((self.input, self.args, self.kwargs))


def all_samples(op: Any, dtype: torch.dtype, requires_grad: bool = False) -> list[Call]:
    torch.manual_seed(0)
    found = op.sample_inputs("cpu", dtype, requires_grad=requires_grad)
    return [Call(sample.input, sample.args, sample.kwargs) for sample in found]


def spread(made: list[Any], at_most: int) -> list[Any]:
    """So many of them, evenly over the list, the first and the last among them."""
    if len(made) <= at_most:
        return made
    return [made[i * (len(made) - 1) // (at_most - 1)] for i in range(at_most)]


def samples(op: Any, dtype: torch.dtype, requires_grad: bool = False, at_most: int = 3) -> list[Call]:
    """At most so many of the operator's samples, spread over all of them."""
    made = all_samples(op, dtype, requires_grad)
    chosen = sorted({0, len(made) // 3, 2 * len(made) // 3, len(made) - 1}) if made else []
    return [made[i] for i in chosen[:at_most]]


def on_device(op: Any, call: Call, move: Callable[[Any], Any] = twins) -> Call:
    """The call with its tensors on the device, but those that PyTorch wants on the CPU."""
    if op.name in CPU_ARGUMENTS:
        return Call(move(call.input), call.args, call.kwargs)
    return call.map(move)


def has_one_answer(op: Any) -> bool:
    """All of the values are."""
    return name_of(op) not in RANDOM | UP_TO_SIGN | TIES


def agree_results(
    op: Any,
    call: Call,
    want: Any,
    got: Any,
    strides: bool = False,
    tolerance: dict[torch.dtype, float] = TOLERANCE,
) -> None:
    """Raises Mismatch where the results of a call differ in what the operator determines."""
    name = name_of(op)
    if name in UP_TO_SIGN:
        want, got = map_tensors(torch.abs, (want, got))
    if name in TIES:
        source = call.input.detach()
        dim = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", -1)

        def named(indices: torch.Tensor) -> torch.Tensor:
            return source.gather(dim, indices) if source.dim() else indices

        want, got = (want[0], named(want[1])), (got[0], named(got[1].cpu()).to(DEVICE))
    agree(want, got, tolerance, values=name not in RANDOM, strides=strides)


def check_call(op: Any, call: Call, strides: bool = False) -> None:
    """Raises Mismatch unless the operator does on the device what it does on the CPU, be that an error."""
    device_call = on_device(op, call)
    want = Attempt(lambda: call(op.op))
    got = Attempt(lambda: device_call(op.op))
    if not same_exception(want, got):
        agree_results(op, call, want.result, got.result, strides)


def agree_derivatives(op: Any, want: Any, got: Any, tolerance: dict[torch.dtype, float]) -> None:
    """As agree_results, where the results are not the operator's own but made of them, by a transform."""
    name = name_of(op)
    if name in UP_TO_SIGN:
        want, got = map_tensors(torch.abs, (want, got))
    if name in TIES:
        want, got = ([t for t in tensors(result) if t.is_floating_point()] for result in (want, got))
    agree(want, got, tolerance)


def detached(result: Any) -> Any:
    return map_tensors(torch.Tensor.detach, result)
