"""Many dimensions, many operands, repeated and overlapping elements; sizes that depend on data, exact and with one read."""

from functools import partial

import pytest
import torch
import twins
from twins import DEVICE

agree = partial(twins.agree, exact=True)


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch.manual_seed(0)
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


# ---- dimensions -----------------------------------------------------------------------------------------------------

BY_RANK = {
    "pointwise": lambda x: (x * 2 + 1).neg(),
    "broadcast": lambda x: x + (x[..., :1] if x.dim() else x),
    "reduction": lambda x: x.sum(),
    "reduction of a dimension": lambda x: x.amax(-1) if x.dim() else x.amax(),
    "reduction of every other dimension": lambda x: x.sum(tuple(range(0, x.dim(), 2))) if x.dim() else x.sum(),
    "permute": lambda x: x.permute(tuple(reversed(range(x.dim())))).contiguous(),
    "permute and add": lambda x: x.permute(tuple(reversed(range(x.dim())))) + 1,
    "cat": lambda x: torch.cat([x, x * 2], -1) if x.dim() else torch.stack([x, x]),
    "stack": lambda x: torch.stack([x, -x], x.dim() // 2),
    "flip": lambda x: x.flip(tuple(range(x.dim()))),
    "slices": lambda x: x[(slice(None),) * (x.dim() - 1) + (slice(0, 1),)] * 2 if x.dim() else x * 2,
    "select": lambda x: x[(0,) * x.dim()] + 1,
    "index": lambda x: x[torch.zeros(2, dtype=torch.int64, device=x.device)] if x.dim() else x.clone(),
    "index, last": lambda x: x[..., torch.tensor([0, -1], device=x.device)] if x.dim() else x.clone(),
    "cumsum": lambda x: x.cumsum(-1),
    "sort": lambda x: x.sort(-1).values,
    "where": lambda x: torch.where(x > 1, x, 0),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 1],
}


@pytest.mark.parametrize("rank", [0, 1, 3, 6, 9, 12, 16, 24])
@pytest.mark.parametrize("name", BY_RANK)
def test_dimensions(name, rank):
    sizes = [2 if i % max(rank // 5, 1) == 0 else 1 for i in range(rank)]
    x = torch.arange(torch.Size(sizes).numel()).view(sizes)
    agree(BY_RANK[name], x)


def test_the_most_dimensions():
    """PyTorch's TensorIterator stops at 64."""
    x = torch.ones([1] * 62 + [2, 3])
    agree(lambda a: (a + 1).sum(-1), x)
    agree(lambda a: a.transpose(0, -1) * 2, x)
    assert x.to(DEVICE).dim() == 64


# ---- operands -------------------------------------------------------------------------------------------------------


def test_many_operands():
    tensors = [torch.full((2,), float(i)) for i in range(2000)]
    ours = [tensor.to(DEVICE) for tensor in tensors]
    assert torch.equal(torch.cat(ours).cpu(), torch.cat(tensors))
    assert torch.equal(torch.stack(ours).cpu(), torch.stack(tensors))
    sums = torch._foreach_add(ours, 1.0)
    assert [tensor[0].item() for tensor in (sums[0], sums[1234], sums[-1])] == [1, 1235, 2000]
    norms = torch.stack(torch._foreach_norm(ours))
    torch.testing.assert_close(norms.cpu(), torch.stack(torch._foreach_norm(tensors)))
    torch._foreach_mul_(ours, 2.0)
    assert ours[777].tolist() == [1554, 1554]


def test_clipping_many_gradients():
    def clip(device):
        parameters = [torch.nn.Parameter(torch.full((3,), 1.0, device=device)) for _ in range(1200)]
        for i, parameter in enumerate(parameters):
            parameter.grad = torch.full((3,), i * 0.01, device=device)
        total = torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        return total.detach().cpu(), parameters[-1].grad.cpu()

    for want, got in zip(clip("cpu"), clip(DEVICE), strict=True):
        torch.testing.assert_close(got, want)


# ---- elements -------------------------------------------------------------------------------------------------------


def test_repeated_elements():
    x = torch.randn(3, 1, 4)
    agree(lambda a: a.expand(3, 5, 4).sum(1), x, exact=False)
    agree(lambda a: a.expand(2, 3, 5, 4) * a, x)
    agree(lambda a: torch.cat([a.expand(3, 2, 4), a], 1), x)
    agree(lambda a: a.expand(3, 5, 4).clone().add_(1), x)
    agree(lambda a: a.expand(3, 5, 4)[:, torch.tensor([0, 4], device=a.device)], x)
    agree(lambda a: a.expand(3, 5, 4).reshape(15, 4) @ a[0].t(), x, exact=False)
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="single memory location"):
            x.to(device).expand(3, 5, 4).add_(1)


def test_overlapping_elements():
    x = torch.arange(10.0)
    windows = lambda a: a.as_strided((7, 4), (1, 1))  # noqa: E731
    agree(lambda a: windows(a).sum(1), x)
    agree(lambda a: windows(a) * windows(a).flip(1), x)
    agree(lambda a: windows(a).t().contiguous(), x)
    agree(lambda a: a.unfold(0, 3, 2) + a.as_strided((4, 3), (2, 1)), x)
    agree(lambda a: a.as_strided((3, 3), (0, 2), 1).clone(), x)
    agree(lambda a: a.as_strided((2, 2, 2), (1, 1, 1))[torch.tensor([1], device=a.device)], x)
    for device in ("cpu", DEVICE):
        shared = x.to(device)
        with pytest.raises(RuntimeError, match="overlap|single memory location"):
            shared[1:].add_(shared[:-1])


def test_gradients_of_overlapping_windows():
    def gradient(device):
        x = torch.arange(6.0, device=device).requires_grad_()
        (x.as_strided((4, 3), (1, 1)) * torch.arange(12.0, device=device).view(4, 3)).sum().backward()
        return x.grad.cpu()

    assert torch.equal(gradient(DEVICE), gradient("cpu"))


# ---- sizes that depend on data --------------------------------------------------------------------------------------

VALUES = torch.tensor([[3, 0, 3, 1], [0, 1, 1, 3], [3, 0, 3, 1]])
SIZED = {
    "nonzero": lambda x: x.nonzero(),
    "nonzero, as a tuple": lambda x: x.nonzero(as_tuple=True),
    "argwhere": lambda x: torch.argwhere(x > 1),
    "where": lambda x: torch.where(x > 1),
    "masked_select": lambda x: x.masked_select(x > 1),
    "mask": lambda x: x[x > 1],
    "mask of rows": lambda x: x[x[:, 1] > 0],
    "mask of columns": lambda x: x[:, x[0] > 0],
    "repeat_interleave": lambda x: torch.repeat_interleave(x[0]),
    "repeat_interleave of rows": lambda x: x.repeat_interleave(x[:, 0], 0),
    "bincount": lambda x: x.flatten().bincount(),
    **{
        f"unique, {flags}": lambda x, flags=flags: torch.unique(
            x, sorted=flags % 2 == 0, return_inverse=flags // 2 % 2 == 1, return_counts=flags // 4 == 1
        )
        for flags in range(8)
    },
    **{
        f"unique rows, {flags}": lambda x, flags=flags: torch.unique(
            x, return_inverse=flags % 2 == 1, return_counts=flags // 2 == 1, dim=0
        )
        for flags in range(4)
    },
    **{
        f"unique_consecutive, {flags}": lambda x, flags=flags: torch.unique_consecutive(
            x, return_inverse=flags % 2 == 1, return_counts=flags // 2 % 2 == 1, dim=(None, 1)[flags // 4]
        )
        for flags in range(8)
    },
}


def in_order(result):
    return tuple(result) if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", SIZED)
def test_sizes_are_exact(name):
    for x in (VALUES, VALUES.float(), VALUES * 0, VALUES[:, :0] if "unique" not in name else VALUES):
        if name == "repeat_interleave of rows" and x.numel() == 0:
            continue
        if x.is_floating_point() and ("repeat" in name or "bincount" in name):
            continue
        if name == "mask of rows" and x.shape[1] == 0:
            continue
        want, got = in_order(SIZED[name](x)), in_order(SIZED[name](x.to(DEVICE)))
        for a, b in zip(want, got, strict=True):
            assert b.shape == a.shape and b.dtype == a.dtype
            assert torch.equal(b.cpu(), a) or (name.startswith("unique, ") and int(name[-1]) % 2 == 1)


@pytest.mark.strict
@pytest.mark.parametrize("name", ["nonzero", "masked_select", "mask", "mask of rows", "repeat_interleave", "bincount"])
def test_a_size_is_read_once(name):
    """One program counts, its number is read, one makes the result; a mask is turned into positions and read by them."""
    x = VALUES.to(DEVICE)
    SIZED[name](x)
    comparisons = {
        "nonzero": 0,
        "masked_select": 1,
        "mask": 1,
        "mask of rows": 1,
        "repeat_interleave": 0,
        "bincount": 0,
    }
    before = torch.tpu.compile_stats()["launches"]
    SIZED[name](x)
    launches = torch.tpu.compile_stats()["launches"] - before
    assert launches - comparisons[name] in ((2,) if not name.startswith("mask of") and name != "mask" else (2, 3))


def test_writing_by_mask():
    def write(x):
        x = x.clone().float()
        x[x > 2] = 7
        x[x == 0] += 0.5
        x[x[:, 1] > 0] = torch.arange(4.0, device=x.device)
        x[x == 7] = torch.tensor([-1.0], device=x.device)
        return x

    agree(write, VALUES)
    agree(lambda x: x.float().masked_scatter(x > 1, torch.arange(12.0, device=x.device)), VALUES)
