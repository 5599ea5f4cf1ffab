"""Sizes that change under torch.compile: results are the CPU's whatever lies in the padding, and programs are as many as
buckets."""

import copy
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROWS = [5, 6, 8, 9, 12, 7, 5]  # in buckets of 8 and 16; PyTorch makes graphs of their own for sizes 0 and 1


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.tpu.reset_fallbacks()
    torch.manual_seed(0)
    with torch.tpu.set_eager_mode("strict"):
        yield


@pytest.fixture
def reasons(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Why graphs were made for their sizes."""
    caplog.set_level(logging.INFO, "torch_pjrt.compile")
    return lambda: [r.getMessage() for r in caplog.records if "for each set of sizes" in r.getMessage()]


def on_tpu(value: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.to("tpu"), value)


def on_cpu(value: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.detach().cpu(), value)


def in_padded_memory(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """The tensor on the device, as a part of one with the sizes of its bucket; behind it lies what makes the most of any
    mistake."""
    sizes = [1 << (n - 1).bit_length() if d in dims else n for d, n in enumerate(x.shape)]
    worst = float("nan") if x.is_floating_point() else torch.iinfo(x.dtype).max if x.dtype != torch.bool else True
    whole = torch.full(sizes, worst, dtype=x.dtype)
    part = tuple(slice(n) for n in x.shape)
    whole[part] = x
    return whole.to("tpu")[part]


def dynamic(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="tpu", fullgraph=True, dynamic=True, **options)


def programs() -> int:
    torch.tpu.synchronize()  # they are made beside the caller
    return torch.tpu.compile_stats()["programs"]


def is_differentiable(values: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(values)
    return [v for v in leaves if isinstance(v, torch.Tensor) and v.requires_grad]


def check(
    fn: Callable[..., Any],
    inputs: list[list[torch.Tensor]],
    dims: list[list[int]],
    most: int,
    compiles_backward: bool = True,
    **tolerance: float,
) -> None:
    """Values and gradients for each of `inputs`, whose `dims` change; `most` programs, forward and backward each
    (the gradients of results that are views of inputs are eager mode's: `compiles_backward` is False)."""
    run = torch.compile(fn, backend="tpu", fullgraph=True)
    n_forward = n_backward = 0
    for tensors in inputs:
        want_in = [x.clone().requires_grad_(x.is_floating_point()) for x in tensors]
        got_in = [in_padded_memory(x, d) for x, d in zip(tensors, dims, strict=True)]
        got_in = [x.detach().requires_grad_(x.is_floating_point()) for x in got_in]
        for x, changing in zip(got_in, dims, strict=True):
            for d in changing:
                torch._dynamo.mark_dynamic(x, d)
        want = fn(*want_in)
        torch.tpu.synchronize()
        torch.tpu.reset_compile_stats()
        got = run(*got_in)
        n_forward += programs()
        torch.testing.assert_close(on_cpu(got), on_cpu(want), **tolerance)  # type: ignore[arg-type]
        for g, w in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True):
            if isinstance(w, torch.Tensor):
                assert g.stride() == w.stride()
        want_out, got_out = is_differentiable(want), is_differentiable(got)
        assert len(want_out) == len(got_out)
        if not want_out:
            continue
        factors = [torch.randn_like(x) for x in want_out]
        used = [i for i, x in enumerate(want_in) if x.requires_grad]
        want_grads = torch.autograd.grad(want_out, [want_in[i] for i in used], factors, allow_unused=True)
        factors = [f.to("tpu") for f in factors]
        torch.tpu.synchronize()
        torch.tpu.reset_compile_stats()
        got_grads = torch.autograd.grad(got_out, [got_in[i] for i in used], factors, allow_unused=True)
        n_backward += programs()
        for g, w in zip(got_grads, want_grads, strict=True):
            if w is not None:
                torch.testing.assert_close(g.cpu(), w, **tolerance)  # type: ignore[arg-type]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert n_forward <= most
    if compiles_backward:
        assert n_backward <= most
    assert torch.tpu.fallbacks() == {}


def matrix(rows: int, columns: int = 5) -> torch.Tensor:
    return torch.randn(rows, columns)


ROWWISE: dict[str, Callable[[torch.Tensor], Any]] = {
    "elementwise": lambda x: (x.sin() * 2 + 1).clamp(min=0).to(torch.float64),
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(1, keepdim=True), x.sum((0, 1))),
    "mean": lambda x: (x.mean(), x.mean(0), x.mean((0, 1), keepdim=True), x.mean(1)),
    "mean of halves": lambda x: x.to(torch.bfloat16).mean(0),
    "moments": lambda x: (x.var(0), x.std(), x.var(0, correction=0), x.std(1), torch.var_mean(x, 0)),
    "extremes": lambda x: (x.amax(0), x.amin(), x.max(0), x.min(0), x.max(), x.argmax(0), x.argmin(), x.argmax(1)),
    "products": lambda x: (x.prod(), x.prod(0), x.prod(1)),
    "norms": lambda x: (x.norm(), torch.linalg.vector_norm(x, 1, 0), torch.linalg.vector_norm(x, float("inf"), 0)),
    "norm of the least": lambda x: torch.linalg.vector_norm(x, float("-inf"), 0),
    "logic": lambda x: ((x > 0).any(0), (x > -9).all(), (x > 0).sum(0), torch.count_nonzero(x > 0)),
    "softmax": lambda x: (torch.softmax(x, 0), torch.log_softmax(x, 0), x.logsumexp(0), torch.softmax(x, 1)),
    "scans": lambda x: (x.cumsum(0), x.detach().cumprod(0), x.cummax(0), x.detach().logcumsumexp(0)),
    "sort": lambda x: (x.sort(0), x.sort(0, descending=True), x.topk(2, 0), x.argsort(1), x.sort(1).values),
    "median": lambda x: x.sort(0).values[x.shape[0] // 2],
    "products of matrices": lambda x: (x.t() @ x, x @ x.t(), x.t() @ x.sum(1), x @ x[0]),
    "views": lambda x: (x.view(-1), x.t(), x.unsqueeze(0), x[:, 1:3], x.reshape(-1, 1, 5), x[None].expand(2, -1, -1)),
    "ends": lambda x: (x[-1], x[-2:], x[:-1], x[1:], x[0], x[::2], x[1:-1] * 2),
    "both ends": lambda x: torch.cat([x[1:], x[:1]]) - torch.cat([x[-1:], x[:-1]]),
    "flip": lambda x: (x.flip(0), x.flip((0, 1)), x.flip(1)),
    "cat": lambda x: (torch.cat([x, x * 2]), torch.cat([x, x.new_ones(2, 5), x * 3]), torch.cat([x, x], 1)),
    "stack": lambda x: (torch.stack([x, x + 1]), torch.stack([x, -x], 2).sum(0)),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 2, 1), value=7.0), F.pad(x, (0, 0, 1, 0)).sum(0)),
    "sizes as numbers": lambda x: x * x.shape[0] + 1 / x.shape[0] + (x.shape[0] ** 0.5),
    "ranges": lambda x: x + torch.arange(x.shape[0], device=x.device)[:, None] + torch.arange(1, x.shape[0] + 1).sum(),
    "made": lambda x: x + x.new_zeros(x.shape[0], 1) + torch.ones(x.shape, device=x.device) + torch.full_like(x, 2),
    "triangle": lambda x: (x @ x.t()).tril().sum(1) + (x @ x.t()).triu(1).sum(0),
    "masks": lambda x: x.masked_fill(x > 0, 0).sum(0) + torch.where(x > 1, x, x * 2).mean(0),
    "repeat": lambda x: (x.repeat(2, 1).view(2, -1, 5).sum(1), x.repeat(1, 3)),
    "layer norm": lambda x: F.layer_norm(x, (5,)),
    "rms norm": lambda x: F.rms_norm(x, (5,), torch.ones(5, device=x.device)),
    "losses": lambda x: (F.mse_loss(x, x * 2 + 1), F.smooth_l1_loss(x, x.square()), F.l1_loss(x, x.cos())),
    "cross entropy": lambda x: F.cross_entropy(x, x.detach().argmax(1)) + F.nll_loss(x, x.detach().argmin(1)),
    "centered": lambda x: (x - x.mean(0)) / (x.std(0) + 1),
    "cosine": lambda x: F.cosine_similarity(x[:1], x, 1),
    "normalized": lambda x: F.normalize(x, dim=0),
    "gather": lambda x: (x.gather(1, x.detach().argsort(1)), x.gather(0, x.detach().argsort(0))),
    "select": lambda x: (x.index_select(1, torch.tensor([0, 3], device=x.device)), x[[0, -1]], x[:, [1, 2]]),
    "scatter": lambda x: x.new_zeros(7).scatter_add(0, x.detach().argmax(1), x[:, 0]),
    "writes of its own": lambda x: (lambda y: (y[1:].mul_(2), y[0].zero_(), y[:, 1].add_(1), y)[-1])(x + 1),
    "outer": lambda x: torch.outer(x[:, 0], x[:, 1]).sum(0),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x).amax(1) + torch.einsum("ij,ij->i", x, x),
}


@pytest.mark.parametrize("name", ROWWISE)
def test_one_size(name: str, reasons: Callable[[], list[str]]) -> None:
    inputs = [[matrix(n)] for n in ROWS]
    most = 4 if name == "select" else 2  # its lists of indices are made on the device once for each graph
    check(ROWWISE[name], inputs, [[0]], most, name not in ("views", "ends"), rtol=1e-4, atol=1e-5)
    assert reasons() == []


# ---- several sizes that change ----


class Block(nn.Module):
    """A layer of a transformer, with its embedding and loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 40)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + torch.arange(ids.shape[1], device=ids.device)[:, None] / 10
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, 2, 8).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, t, 16))
        return self.head(x + self.mlp(x))


class Masked(Block):
    """Attention that sees what is not 0, both ways."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.mask = (ids != 0)[:, None, None, :]
        return super().forward(ids)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class Bidirectional(Block):
    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class ByHand(Block):
    """Scores, mask and softmax written out."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-1, -2) / 8**0.5
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v


SHAPES = [(3, 7), (4, 6), (3, 5), (5, 11), (6, 9)]  # two pairs of buckets


@pytest.mark.parametrize(("kind", "padded"), [(Block, True), (Masked, True), (Bidirectional, False), (ByHand, False)])
def test_batch_and_length_of_a_transformer(kind: Any, padded: bool, reasons: Callable[[], list[str]]) -> None:
    model = kind()
    twin = copy.deepcopy(model).to("tpu")

    def loss(m: nn.Module, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = m(ids)
        labels = ids.masked_fill(ids == 1, -100)
        return logits, F.cross_entropy(logits[:, :-1].reshape(-1, 40), labels[:, 1:].reshape(-1))

    run = dynamic(lambda ids: loss(twin, ids))
    forms = set()
    for shape in SHAPES if padded else [*SHAPES[:2], (4, 8)]:
        ids = torch.randint(1, 40, shape)
        ids[:, -1] = 0
        given = in_padded_memory(ids, [0, 1]) if padded else ids.to("tpu")
        want = loss(model, ids)
        torch.tpu.synchronize()
        torch.tpu.reset_compile_stats()
        got = run(given)
        torch.testing.assert_close(on_cpu(got), on_cpu(want), rtol=1e-4, atol=1e-5)
        assert got[0].is_contiguous(), "the user may view it"
        n = programs()
        for m, value in ((model, want[1]), (twin, got[1])):
            m.zero_grad()
            value.backward()
        for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(
                q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}"
            )
        bucket = tuple(1 << (n - 1).bit_length() for n in shape)
        assert n <= (bucket not in forms), "one program for a pair of buckets"
        forms.add(bucket)
    assert reasons() == []
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_convolution_with_batch_norm(reasons: Callable[[], list[str]]) -> None:
    """Statistics are those of the true batch; the image's sizes change too."""
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 3, stride=2), nn.GroupNorm(3, 3)
    )
    twin = copy.deepcopy(model).to("tpu")
    run = dynamic(lambda x: twin(x).mean((2, 3)).square().sum())
    n = 0
    for shape in [(3, 2, 9, 12), (4, 2, 11, 16), (3, 2, 10, 13)]:
        x = torch.randn(shape)
        y = x.to("tpu").requires_grad_()
        x.requires_grad_()
        want = model(x).mean((2, 3)).square().sum()
        torch.tpu.synchronize()
        torch.tpu.reset_compile_stats()
        got = run(y)
        n += programs()
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=1e-4, atol=1e-5)
        (want_gradient,) = torch.autograd.grad(want, x)
        torch.testing.assert_close(torch.autograd.grad(got, y)[0].cpu(), want_gradient, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(on_cpu(dict(twin.state_dict())), dict(model.state_dict()), rtol=1e-4, atol=1e-5)
    assert reasons() == []
    assert n == 1


def test_a_cache_that_grows(reasons: Callable[[], list[str]]) -> None:
    """Keys of a prompt and one more at each step: concatenated, attended, the last position read."""

    def step(keys: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        keys = torch.cat([keys, new], 2)
        seen = F.scaled_dot_product_attention(new, keys, keys)
        return keys, seen[:, :, -1].softmax(-1)

    run = dynamic(step)
    keys = torch.randn(2, 3, 5, 6)
    mine = keys.to("tpu")
    n = 0
    for length in (3, 3, 2, 2, 3, 2):
        new = torch.randn(2, 3, length, 6)
        want = step(keys, new)
        torch.tpu.synchronize()
        torch.tpu.reset_compile_stats()
        got = run(mine, new.to("tpu"))
        n += programs()
        torch.testing.assert_close(on_cpu(got), want)
        keys, mine = want[0], got[0]
    assert reasons() == []
    assert n <= 6, "buckets of 8, 16 and 32 by those of 2 and 4"


@pytest.mark.parametrize(
    ("buckets", "sizes", "most"),
    [("powers", [5, 6, 7, 8], 1), (6, [5, 6, 7, 12], 2), ([4, 10], [3, 4, 9, 10, 11, 20], 3), ("exact", [5, 6, 5], 2)],
)
def test_buckets_are_the_users(buckets: Any, sizes: list[int], most: int) -> None:
    run = dynamic(lambda x: x.softmax(0) + x.mean(), options={"buckets": buckets})
    n = 0
    for size in sizes:
        x = torch.randn(size, 2)
        given = x.to("tpu")
        torch.tpu.synchronize()
        torch.tpu.reset_compile_stats()
        got = run(given)
        n += programs()
        torch.testing.assert_close(got.cpu(), x.softmax(0) + x.mean())
    assert n == most


@pytest.mark.parametrize("buckets", ["power", 0, [], [3, -1], True, [1.5]])
def test_buckets_that_are_none(buckets: Any) -> None:
    with pytest.raises(Exception, match="buckets"):
        dynamic(lambda x: x + 1, options={"buckets": buckets})(torch.ones(2, device="tpu"))


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (lambda x: x.mul_(2).sum(), "an input whose size changes is written"),
        (lambda x: x.t().reshape(x.shape).sum(0), "a view that splits a padded dimension"),
        (lambda x: torch.linalg.det(x[:2, :2] * x.mean()) + torch.trapezoid(x.t()).sum() + x.roll(1, 0)[0].sum(), ""),
    ],
)
def test_where_padding_cannot_be_kept_out_the_log_says_why(
    fn: Callable[..., Any], why: str, reasons: Callable[[], list[str]]
) -> None:
    run = dynamic(fn)
    for n in (3, 5, 4):
        x = matrix(n)
        given = x.to("tpu")
        torch.testing.assert_close(run(given).cpu(), fn(x))
        torch.testing.assert_close(given.cpu(), x)
    assert len(reasons()) == bool(why)
    assert not why or why in reasons()[0]


def test_indices_out_of_range_are_found_in_padded_sizes() -> None:
    run = dynamic(lambda x, i: x[i] * 2)
    x = matrix(5)
    for good in ([0, 4, -1, -5], [1, 2, 3, 0]):
        torch.testing.assert_close(run(x.to("tpu"), torch.tensor(good, device="tpu")).cpu(), x[good] * 2)
    for bad in ([0, 5, 1, 1], [0, 1, 1, -6]):
        with pytest.raises(IndexError):
            run(x.to("tpu"), torch.tensor(bad, device="tpu")).cpu()


def test_an_input_that_is_written_between_forward_and_backward() -> None:
    """A value that lies in padded memory is still seen to change."""
    run = dynamic(lambda x, w: (x * w).sum())
    whole = torch.randn(8, 2).to("tpu")
    x, w = whole[:5], torch.randn(5, 2).to("tpu").requires_grad_()
    loss = run(x, w)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_automatic_dynamic_sizes() -> None:
    run = torch.compile(lambda x: x.softmax(0), backend="tpu", fullgraph=True)
    torch.tpu.synchronize()
    torch.tpu.reset_compile_stats()
    for n in (5, 6, 7, 8, 13, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(run(x.to("tpu")).cpu(), x.softmax(0))
    assert programs() <= 3, "one for the first size, then two buckets"
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


def test_dropout_in_padded_sizes() -> None:
    run = dynamic(lambda x: F.dropout(x, 0.5))
    for n in (50, 61):
        x = torch.ones(n, 20, device="tpu", requires_grad=True)
        y = run(x)
        kept = (y.detach() != 0).cpu()
        assert 0.4 < kept.float().mean() < 0.6
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient.cpu(), kept * 2.0)


def test_indices_to_write_by() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> Any:
        made = x.index_put((i,), v), x.index_put((i,), v, accumulate=True), x.index_add(0, i, v)
        rows = i[:, None].expand(-1, 5)
        return (*made, x.scatter(0, rows, v), x.scatter_add(0, rows, v), x.scatter_reduce(0, rows, v, "amax"))

    run = dynamic(fn)
    for rows, n in ((6, 3), (7, 4), (5, 3)):
        x, v, i = matrix(rows), matrix(n), torch.randperm(rows)[:n]
        torch.testing.assert_close(on_cpu(run(x.to("tpu"), i.to("tpu"), in_padded_memory(v, [0]))), fn(x, i, v))
