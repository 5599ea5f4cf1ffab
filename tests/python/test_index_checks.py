"""Bad indices, labels, probabilities and counts: found on the device, raised by the next read with the CPU's exception type,
never silent."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

DEVICE = "tpu"
F = nn.functional
Case = Callable[[torch.Tensor, torch.Tensor], Any]

# x is [4, 8] of ones, i one index.
GRID: dict[str, Case] = {
    "index": lambda x, i: x[i],
    "index, second": lambda x, i: x[:, i],
    "index, two": lambda x, i: x[torch.zeros_like(i), i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.view(1, 1)),
    "take": lambda x, i: x.take(i * 8),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding, max_norm": lambda x, i: F.embedding(i, x.clone(), max_norm=1.0),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x, torch.zeros_like(i)),
    "nll_loss": lambda x, i: F.nll_loss(x[:1], i),
    "nll_loss, weighted": lambda x, i: F.nll_loss(x[:1], i, x[0], reduction="none"),
    "nll_loss of images": lambda x, i: F.nll_loss(x.view(1, 8, 2, 2)[:, :, :1, :1], i.view(1, 1, 1)),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:1], i, label_smoothing=0.1),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:1], i),
    "multilabel_margin_loss": lambda x, i: F.multilabel_margin_loss(x[:1, :1], i.abs().view(1, 1)),
    "scatter": lambda x, i: x.scatter(0, i.view(1, 1), x[:1, :1]),
    "scatter of a number": lambda x, i: x.scatter(0, i.view(1, 1), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.view(1, 1), x[:1, :1]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i.view(1, 1), x[:1, :1], "amax"),
    "scatter in place": lambda x, i: x.clone().scatter_(0, i.view(1, 1), 2.0, reduce="multiply"),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[:1], "amax"),
    "index_put": lambda x, i: x.index_put((i,), x[0]),
    "index_put, accumulated": lambda x, i: x.index_put((i,), x[0], accumulate=True),
    "put": lambda x, i: x.put(i * 8, x[0, :1]),
    "one_hot": lambda x, i: F.one_hot(i, 4),
    "max_unpool": lambda x, i: F.max_unpool2d(x[:1, :1].view(1, 1, 1, 1), i.view(1, 1, 1, 1), 2),
    "searchsorted, sorter": lambda x, i: torch.searchsorted(x[0], x[0], sorter=i.expand(8).contiguous()),
    "writing": lambda x, i: x.clone().__setitem__(i, 3.0),
    "reading what was read": lambda x, i: x[x.long()[0, :1] + i - 1].sum() * 2,
}


def exception_of(function: Case, device: str, index: torch.Tensor) -> type[Exception] | None:
    """What the call raises, or the synchronisation behind it."""
    try:
        function(torch.ones(4, 8, device=device), index.to(device))
        if device == DEVICE:
            torch.tpu.synchronize()
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=["int64", "int32"])
@pytest.mark.parametrize("bad", [9, -10, 2**30])
@pytest.mark.parametrize("name", GRID)
def test_a_bad_index_raises_as_on_the_cpu(name: str, bad: int, dtype: torch.dtype) -> None:
    index = torch.tensor([bad], dtype=dtype)
    want = exception_of(GRID[name], "cpu", index)
    got = exception_of(GRID[name], DEVICE, index)
    if dtype == torch.int32 and name in (
        "index_add",
        "index_copy",
        "index_fill",
    ):  # the CPU's kernels for int32 are others
        assert {got, want} <= {IndexError, RuntimeError}
    else:
        assert got is want
    assert exception_of(GRID[name], DEVICE, torch.tensor([1])) is exception_of(GRID[name], "cpu", torch.tensor([1]))


def test_the_index_is_named() -> None:
    x = torch.arange(6.0, device=DEVICE).view(3, 2)
    for index, dtype in (
        (7, torch.int64),
        (-4, torch.int64),
        (2**40, torch.int64),
        (-(2**62), torch.int64),
        (3, torch.int32),
    ):
        result = x[torch.tensor([0, index, 1], dtype=dtype, device=DEVICE)]
        with pytest.raises(IndexError, match=f"index {index} is out of bounds for dimension with size 3"):
            result.tolist()


def test_all_indices_are_looked_at() -> None:
    x = torch.ones(5, 3, device=DEVICE)
    for place in range(0, 4096, 777):
        index = torch.zeros(4096, dtype=torch.int64)
        index[place] = 5
        x[index.to(DEVICE)]
        with pytest.raises(IndexError):
            torch.tpu.synchronize()
    index = torch.tensor([4, -5, 0], device=DEVICE)
    assert x[index].sum().item() == 9


@pytest.mark.parametrize(
    "name", ["index", "index_select", "gather", "take", "embedding", "index_fill", "index_put", "put"]
)
def test_nothing_lies_in_an_empty_dimension(name: str) -> None:
    for device in ("cpu", DEVICE):
        with pytest.raises((IndexError, RuntimeError)):
            GRID[name](torch.ones(0, 8, device=device), torch.tensor([0], device=device))
            torch.tpu.synchronize()


def test_ignored_labels_are_not_bad() -> None:
    scores = torch.randn(3, 5)
    for ignored in (-100, 7, 2):
        labels = torch.tensor([1, ignored, 4])
        for reduction in ("mean", "sum", "none"):
            want = F.cross_entropy(scores, labels, ignore_index=ignored, reduction=reduction)
            got = F.cross_entropy(scores.to(DEVICE), labels.to(DEVICE), ignore_index=ignored, reduction=reduction)
            torch.testing.assert_close(got.cpu(), want)


def test_backward_of_bad_labels() -> None:
    scores = torch.randn(2, 3, device=DEVICE, requires_grad=True)
    F.cross_entropy(scores, torch.tensor([0, 3], device=DEVICE)).backward()
    with pytest.raises(IndexError):
        scores.grad.tolist()
    torch.tpu.synchronize()


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values)


BAD_VALUES: dict[str, Callable[[Callable[..., torch.Tensor]], Any]] = {
    "multinomial, negative": lambda t: torch.multinomial(t(-1.0, 2.0), 1),
    "multinomial, NaN": lambda t: torch.multinomial(t(float("nan"), 2.0), 1),
    "multinomial, infinite": lambda t: torch.multinomial(t(float("inf"), 2.0), 1),
    "multinomial, zeros": lambda t: torch.multinomial(t(0.0, 0.0), 1),
    "multinomial, replaced": lambda t: torch.multinomial(t(-1.0, 2.0), 3, replacement=True),
    "multinomial, replaced zeros": lambda t: torch.multinomial(t(0.0, 0.0), 3, replacement=True),
    "bernoulli": lambda t: torch.bernoulli(t(0.5, 2.0)),
    "bernoulli, NaN": lambda t: torch.bernoulli(t(0.5, float("nan"))),
    "bernoulli_": lambda t: t(0.0).bernoulli_(t(-1.0)),
    "normal": lambda t: torch.normal(t(0.0, 0.0), t(1.0, -1.0)),
    "normal of a number": lambda t: torch.normal(0.0, t(1.0, -1.0)),
    "repeat_interleave": lambda t: torch.repeat_interleave(t(2.0, -1.0).long()),
    "repeat_interleave along a dimension": lambda t: t(1.0, 2.0).repeat_interleave(t(2.0, -1.0).long(), 0),
    "bincount": lambda t: torch.bincount(t(2.0, -1.0).long()),
    "masked_scatter": lambda t: t(1.0, 2.0).masked_scatter(t(1.0, 1.0).bool(), t(1.0)),
    "embedding_bag, first offset": lambda t: F.embedding_bag(t(0.0, 0.0).long(), t(1.0).view(1, 1), t(1.0).long()),
    "embedding_bag, offset": lambda t: F.embedding_bag(t(0.0, 0.0).long(), t(1.0).view(1, 1), t(0.0, 5.0).long()),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_values_raise_as_on_the_cpu(name: str) -> None:
    def on_the_device(*values: float) -> torch.Tensor:
        return tensor(*values).to(DEVICE)

    with pytest.raises(RuntimeError):
        BAD_VALUES[name](tensor)
    with pytest.raises(RuntimeError):
        BAD_VALUES[name](on_the_device)
        torch.tpu.synchronize()
    torch.tpu.synchronize()  # raised once


def test_sizes_are_refused_before_anything_is_made() -> None:
    """A count that a program takes is read at the op, and so are its errors."""
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([2, -1], device=DEVICE))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([2, -1], device=DEVICE))


def test_turned_off() -> None:
    torch.tpu.config.check_index = False
    try:
        for function in GRID.values():
            function(torch.ones(4, 8, device=DEVICE), torch.tensor([9], device=DEVICE))
        torch.bernoulli(torch.tensor([2.0], device=DEVICE))
        torch.tpu.synchronize()
    finally:
        torch.tpu.config.check_index = True


def test_many_checks_wait_for_a_read() -> None:
    """More than a device keeps: the oldest are looked at meanwhile, and the line is that of the call."""
    x, good, bad = torch.ones(4, device=DEVICE), torch.tensor([3], device=DEVICE), torch.tensor([4], device=DEVICE)
    for _ in range(600):
        x[good]
    torch.tpu.synchronize()
    with pytest.raises(IndexError, match=r"test_index_checks\.py"):
        x[bad]
        for _ in range(600):
            x[good]
        torch.tpu.synchronize()
    torch.tpu.synchronize()
    assert x[good].item() == 1


def test_a_program_that_runs_behind_is_waited_for() -> None:
    """Its index comes from a product that the calling thread does not wait for."""
    square, table = torch.ones(700, 700, device=DEVICE), torch.ones(4, 2, device=DEVICE)
    for bad in (False, True, False):
        index = (square @ square)[0, :2].long() - (696 if bad else 700)
        rows = table[index]
        if bad:
            with pytest.raises(IndexError, match="index 4 is out of bounds for dimension with size 4"):
                torch.tpu.synchronize()
        else:
            torch.tpu.synchronize()
        assert rows.shape == (2, 2)


def test_many_launches_with_checks_before_one_read() -> None:
    table = torch.ones(4, 2, device=DEVICE)
    index = torch.tensor([3], device=DEVICE)
    for _ in range(600):
        table[index]
    table[index + 1]
    for _ in range(600):
        table[index]
    with pytest.raises(IndexError):
        torch.tpu.synchronize()
    torch.tpu.synchronize()
