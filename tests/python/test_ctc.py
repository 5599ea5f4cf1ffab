"""ctc_loss against PyTorch's CPU: both layouts of targets, all reductions, repeated labels, empty and impossible targets."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn.functional import ctc_loss

T, N, C, S = 13, 5, 7, 5
INPUTS = [13, 10, 3, 7, 9]
LENGTHS = [5, 3, 4, 0, 5]  # of the third, no alignment exists: four labels in three steps that repeat one


@pytest.fixture(autouse=True)
def no_fallbacks() -> Iterator[None]:
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def sample(layout: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(T, N, C, dtype=dtype, generator=generator).log_softmax(-1)
    targets = torch.randint(1, C, (N, S), generator=generator)
    targets[0, 1] = targets[0, 0]
    targets[2, 1] = targets[2, 0]
    if layout == "joined":
        return log_probs, torch.cat([row[:length] for row, length in zip(targets, LENGTHS, strict=True)])
    targets[1, 3:] = -5  # beyond the length anything may stand
    return log_probs, targets


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["rows", "joined"])
def test_loss_and_gradient(layout: str, dtype: torch.dtype) -> None:
    log_probs, targets = sample(layout, dtype)
    for reduction in "none", "mean", "sum":
        for zero_infinity in False, True:
            results = []
            for device in "cpu", "tpu":
                x = log_probs.to(device).requires_grad_()
                loss = ctc_loss(
                    x, targets.to(device), INPUTS, LENGTHS, reduction=reduction, zero_infinity=zero_infinity
                )
                results.append((loss.detach().cpu(), torch.autograd.grad(loss.sum(), x)[0].cpu()))
            for got, want in zip(results[1], results[0], strict=True):
                torch.testing.assert_close(got, want, equal_nan=True)


def test_loss_of_no_input() -> None:
    log_probs, targets = sample("rows")
    want = ctc_loss(log_probs, targets, [0] * N, LENGTHS, reduction="none")
    assert ctc_loss(log_probs.to("tpu"), targets.to("tpu"), [0] * N, LENGTHS, reduction="none").cpu().equal(want)


def test_lengths_as_tensors_and_one_example() -> None:
    log_probs, targets = sample("rows")
    lengths = torch.tensor(INPUTS), torch.tensor(LENGTHS)
    want = ctc_loss(log_probs, targets, *lengths)
    got = ctc_loss(log_probs.to("tpu"), targets.to("tpu"), *(x.to("tpu") for x in lengths))
    torch.testing.assert_close(got.cpu(), want)
    want = ctc_loss(log_probs[:, 0], targets[0], torch.tensor(13), torch.tensor(5))
    got = ctc_loss(log_probs[:, 0].to("tpu"), targets[0].to("tpu"), torch.tensor(13), torch.tensor(5))
    torch.testing.assert_close(got.cpu(), want)


def test_lengths_compile_nothing_new() -> None:
    log_probs, targets = sample("rows")
    x, targets = log_probs.to("tpu").requires_grad_(), targets.to("tpu")
    torch.autograd.grad(ctc_loss(x, targets, INPUTS, LENGTHS), x)
    before = torch.tpu.compile_stats()["programs"]
    torch.autograd.grad(ctc_loss(x, targets, [12, 9, 4, 6, 13], [5, 2, 3, 1, 4]), x)
    assert torch.tpu.compile_stats()["programs"] == before


@pytest.mark.parametrize(
    "change",
    [
        lambda p, t: (p, t, [14, 1, 1, 1, 1], LENGTHS),
        lambda p, t: (p, t, INPUTS, [6, 1, 1, 1, 1]),
        lambda p, t: (p, t, INPUTS, LENGTHS[:2]),
        lambda p, t: (p, t, INPUTS[:2], LENGTHS),
        lambda p, t: (p, t, INPUTS, LENGTHS, C),
        lambda p, t: (p.half(), t, INPUTS, LENGTHS),
        lambda p, t: (p, t[:3], INPUTS, LENGTHS),
        lambda p, t: (p[:0], t, [0] * N, LENGTHS),
    ],
    ids=["input too long", "target too long", "few targets", "few inputs", "blank", "half", "few rows", "empty"],
)
def test_errors(change: Callable[..., tuple]) -> None:
    for device in "cpu", "tpu":
        log_probs, targets, *rest = change(*sample("rows"))
        with pytest.raises(RuntimeError):  # NotImplementedError is one
            ctc_loss(log_probs.to(device), targets.to(device), *rest)
