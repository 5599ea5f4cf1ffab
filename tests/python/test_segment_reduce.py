"""segment_reduce and its gradient against PyTorch's CPU: lengths and offsets, empty segments, zeros, ties and NaN."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

REDUCTIONS = ["sum", "mean", "max", "min", "prod", "amax", "amin"]

# columns: ties and an unused number; zeros and NaN
DATA = torch.tensor([[1.0, 2], [1, -3], [0, 5], [4, 0], [0, 6], [7, math.nan]])
CUTS = {
    "lengths": {"lengths": torch.tensor([2, 0, 4])},
    "initial": {"lengths": torch.tensor([2, 0, 4]), "initial": 2},
    "offsets": {"offsets": torch.tensor([0, 2, 2, 6])},
    "offsets within": {"offsets": torch.tensor([1, 3, 5])},
    "axis": {"lengths": torch.tensor([[1, 1]] * 6), "axis": 1},
    "unsafe": {"lengths": torch.tensor([2, 0, 3], dtype=torch.int32), "unsafe": True},
}


@pytest.fixture(autouse=True)
def no_fallbacks() -> Iterator[None]:
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def run(device: str, data: torch.Tensor, reduce: str, cut: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    x = data.to(device).requires_grad_()
    cut = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in cut.items()}
    y = torch.segment_reduce(x, reduce, **cut)
    weight = torch.arange(1, y.numel() + 1, device=device).reshape(y.shape) - 2
    return y.detach().cpu(), torch.autograd.grad((y * weight.to(y.dtype)).sum(), x)[0].cpu()


def check(data: torch.Tensor, reduce: str, cut: dict[str, Any]) -> None:
    for got, want in zip(run("tpu", data, reduce, cut), run("cpu", data, reduce, cut), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("cut", list(CUTS.values()), ids=list(CUTS))
@pytest.mark.parametrize("reduce", REDUCTIONS[:5])
def test_reductions(reduce: str, cut: dict[str, Any]) -> None:
    check(DATA, reduce, cut)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_dtypes_and_dimensions(reduce: str) -> None:
    for dtype in torch.float64, torch.float16, torch.bfloat16:
        check(DATA.to(dtype), reduce, CUTS["lengths"])
    data = torch.randn(3, 10, 4, generator=torch.Generator().manual_seed(0))
    check(data, reduce, {"lengths": torch.tensor([[2, 3, 5], [0, 10, 0], [4, 4, 2]]), "axis": 1})


@pytest.mark.strict
def test_lengths_compile_nothing_new() -> None:
    x, lengths = DATA.to("tpu"), [torch.tensor(cut, device="tpu") for cut in ([2, 0, 4], [1, 4, 1])]
    torch.segment_reduce(x, "sum", lengths=lengths[0])
    before = torch.tpu.compile_stats()["programs"]
    got = torch.segment_reduce(x, "sum", lengths=lengths[1])
    assert torch.tpu.compile_stats()["programs"] == before
    assert got.cpu()[:, 0].tolist() == [1, 5, 7]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, t: torch.segment_reduce(x, "sum", lengths=t([2, 0, 3])),
        lambda x, t: torch.segment_reduce(x, "sum", lengths=t([2, -1, 5])),
        lambda x, t: torch.segment_reduce(x, "sum", lengths=t([2, -1, 5]), unsafe=True),
        lambda x, t: torch.segment_reduce(x, "sum", offsets=t([0, 4, 2, 6])),
        lambda x, t: torch.segment_reduce(x, "sum"),
        lambda x, t: torch.segment_reduce(x, "median", lengths=t([2, 4])),
        lambda x, t: torch.segment_reduce(x, "sum", lengths=t([2, 4]), axis=1),
        lambda x, t: torch.segment_reduce(x, "sum", lengths=t([2, 4]), indices=t([1])),
        lambda x, t: torch.segment_reduce(x, "sum", lengths=t([2.0, 4.0])),
        lambda x, t: torch.segment_reduce(x.long(), "sum", lengths=t([2, 4])),
    ],
)
def test_errors(call: Callable[..., torch.Tensor]) -> None:
    for device in "cpu", "tpu":
        with pytest.raises(RuntimeError):  # NotImplementedError is one
            call(torch.ones(6, 2, device=device), lambda values, d=device: torch.tensor(values, device=d))
