"""PyTorch's operator database (OpInfo): which operators, which dtypes, which samples."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

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


def each(
    run: Callable[[Any, torch.dtype], str],
    dtypes: tuple[torch.dtype, ...] = KINDS,
    where: Callable[[Any], bool] = lambda op: True,
) -> Iterator[Case]:
    """A case for each operator and each of the dtypes that it has on the CPU."""
    for op in op_db:
        name = name_of(op)
        if name in NOT_COMPARABLE or not where(op):
            continue
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                yield Case(name, dtype_name(dtype), partial(run, op, dtype), group=op.name)


def samples(op: Any, dtype: torch.dtype, requires_grad: bool = False, at_most: int = 3) -> list[Any]:
    """At most so many of the operator's SampleInputs on the CPU, spread over all of them."""
    torch.manual_seed(0)
    made = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    chosen = sorted({0, len(made) // 3, 2 * len(made) // 3, len(made) - 1}) if made else []
    return [made[i] for i in chosen[:at_most]]


def arguments(sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return sample.input, sample.args, sample.kwargs


def determined(op: Any, sample: Any, want: Any, got: Any) -> tuple[Any, Any]:
    """Both results without what the operator leaves free: signs of vectors, the choice between equal elements."""
    from conformance.compare import DEVICE, map_tensors

    if name_of(op) in UP_TO_SIGN:
        return map_tensors(torch.abs, (want, got))
    if name_of(op) in TIES:
        source = sample.input.detach()
        dim = sample.args[1] if len(sample.args) > 1 else sample.kwargs.get("dim", -1)

        def named(indices: torch.Tensor) -> torch.Tensor:
            return source.gather(dim, indices) if source.dim() else indices

        return (want[0], named(want[1])), (got[0], named(got[1].cpu()).to(DEVICE))
    return want, got
