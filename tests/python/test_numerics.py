"""The statements of docs/numerics.md, one test each."""

import pytest
import torch
from torch.nn import functional as F

DEVICE = "tpu"
INF, NAN = float("inf"), float("nan")
HALVES = [torch.bfloat16, torch.float16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def on_both(op, *tensors):
    """The op's results from the CPU and from the device, as lists of CPU tensors."""
    want, got = op(*tensors), op(*(t.to(DEVICE) for t in tensors))
    listed = [list(r) if isinstance(r, (tuple, list)) else [r] for r in (want, got)]
    return listed[0], [t.cpu() for t in listed[1]]


def exact(op, *tensors):
    want, got = on_both(op, *tensors)
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        torch.testing.assert_close(b, a, rtol=0, atol=0, equal_nan=True)


def close(op, *tensors, rtol):
    want, got = on_both(op, *tensors)
    for a, b in zip(want, got, strict=True):
        torch.testing.assert_close(b, a, rtol=rtol, atol=0, equal_nan=True)


# ---- float32 means float32 ----


def test_products_of_float32_are_float32():
    torch.manual_seed(0)
    a, b = torch.randn(64, 300), torch.randn(300, 64)
    true = a.double() @ b.double()
    scale = a.double().abs() @ b.double().abs()
    assert ((a.to(DEVICE) @ b.to(DEVICE)).cpu().double() - true).div(scale).abs().max() < 2**-22


# ---- halves ----


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_of_halves_are_kept_in_float32(dtype):
    """In its own precision a sum of ones stops at 256 (bf16) or 2048 (f16)."""
    n = 6000
    ones = torch.ones(n, dtype=dtype, device=DEVICE)
    true = torch.tensor(float(n)).to(dtype).item()
    assert ones.sum().item() == true
    assert ones.cumsum(0)[-1].item() == true
    assert (ones @ ones).item() == true
    assert (ones.view(1, -1) @ ones.view(-1, 1)).item() == true
    assert (ones.mean() * 3).item() == 3
    assert abs(ones.norm().item() - n**0.5) <= n**0.5 / 256
    assert F.conv1d(ones.view(1, 1, -1), ones.view(1, 1, -1)).item() == true
    assert F.conv1d(ones.view(1, n, 1), ones.view(1, n, 1)).item() == true
    assert F.avg_pool1d(ones.view(1, 1, -1), n).item() == 1
    assert F.layer_norm(torch.cat([ones, -ones]), (2 * n,))[0].item() == 1
    assert abs(ones.softmax(0).float().sum().item() - 1) < 1 / 128
    assert ones.var().item() == 0


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_meet_halves_in_float32(dtype):
    x = torch.cat([torch.linspace(-3, 3, 4096), torch.tensor([INF, -INF, NAN, 0.0])]).to(dtype)
    exact(lambda t: [t * 0.1, t / 3.0, 0.3 / t, t // 0.3, t.clone().mul_(0.1), t.lerp(t * 2, 0.3)], x)
    exact(lambda t: [t > 0.1, t == 0.1, t.clamp(-0.1, 0.1), torch.where(t > 0, t, 0.1)], x)
    exact(lambda t: [torch.addcmul(t, t, t, value=0.1), t.remainder(0.1), t.fmod(0.1)], x)
    # the CPU rounds the number to the half first, alone among devices
    wide, there = x.float(), x.to(DEVICE)
    for got, want in [(there + 0.1, wide + 0.1), (there - 0.1, wide - 0.1), (0.1 - there, 0.1 - wide)]:
        torch.testing.assert_close(got.cpu(), want.to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_arithmetic_of_halves_is_rounded_once(dtype):
    torch.manual_seed(0)
    x, y = torch.randn(4096).to(dtype), torch.randn(4096).to(dtype)
    exact(lambda a, b: [a + b, a - b, a * b, a / b, a.maximum(b), a.hypot(b).isnan()], x, y)
    exact(lambda a, b: [a.neg(), a.abs(), a.square(), a.relu(), a.sign(), a.floor(), a.round(), a.trunc()], x, y)
    exact(lambda a, b: [a.abs().sqrt(), a.reciprocal()], x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_basic_arithmetic_is_exact(dtype):
    torch.manual_seed(0)
    x, y = torch.randn(4096, dtype=dtype), torch.randn(4096, dtype=dtype)
    exact(
        lambda a, b: [a + b, a - b, a * b, a / b, a * 0.1, a + 0.1, a / 3, a.square(), a.reciprocal()],
        x,
        y,
    )
    exact(lambda a, b: [a < b, a == b, a.floor(), a.round(), a.trunc(), a.frac(), a.maximum(b), a.fmod(b), a % b], x, y)


def test_square_roots_are_correctly_rounded():
    """Those of MKL, which PyTorch's CPU uses, are not."""
    torch.manual_seed(0)
    x = torch.rand(4096)
    assert torch.equal(x.to(DEVICE).sqrt().cpu(), x.double().sqrt().float())


# ---- NaN and infinities ----

SPECIAL = torch.tensor([[1.0, NAN, -INF, 2.0], [INF, 3.0, -2.0, INF], [-INF, -INF, -INF, -INF], [0.0, -0.0, 5.0, NAN]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES], ids=str)
def test_extremes_keep_nan_and_infinities(dtype):
    x = SPECIAL.to(dtype)
    y = x.flip(0, 1).contiguous()
    exact(lambda t: [t.max(), t.min(), t.amax(1), t.amin(0), t.argmax(), t.argmin(), t.argmax(1), t.argmin(0)], x)
    exact(lambda t: [*t.max(1), *t.min(0), *t.aminmax(dim=1), *t.cummax(1), *t.cummin(0)], x)
    exact(lambda a, b: [a.maximum(b), a.minimum(b), a.fmax(b), a.fmin(b), a.clamp(min=b), a.clamp(b, a)], x, y)
    exact(lambda t: [t.clamp(-1, 1), t.clamp(min=0), t.clamp(max=NAN), t.relu(), F.hardtanh(t), F.relu6(t)], x)
    exact(lambda t: [t.sort(1)[0], t.sort(1, descending=True)[0], t.topk(3)[0], t.topk(2, largest=False)[0]], x)
    exact(lambda t: [t.median(), t.median(1)[0], t.nanmedian(), t.kthvalue(2, 1)[0], t.nan_to_num(), t.isfinite()], x)


def test_pools_keep_nan_and_infinities():
    x = SPECIAL.repeat(2, 2).view(1, 1, 8, 8)
    exact(lambda t: [F.max_pool2d(t, 2), F.max_pool2d(t, 3, 1, 1), F.adaptive_max_pool2d(t, 3), F.avg_pool2d(t, 2)], x)
    exact(lambda t: F.max_pool2d(t, 2, return_indices=True)[1], x)


def test_log_sums_of_infinities():
    close(lambda t: [t.logsumexp(1), t.softmax(1), t.log_softmax(1), t.logaddexp(t.flip(1)), t.logcumsumexp(1)], SPECIAL,
          rtol=1e-6)  # fmt: skip


# ---- integers ----


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(dtype):
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.min, limits.max, 1, 2, limits.max // 2], dtype=dtype)
    exact(lambda t: [t + t, t - t.flip(0), t * t, t * 3, t.square(), t.neg(), t.abs(), ~t], x)
    assert x.to(DEVICE).sum().dtype == torch.int64
    exact(lambda t: [t.sum(), t.prod(), t.cumsum(0), t.cumprod(0)], x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_floor_division_and_remainders(dtype):
    limits = torch.iinfo(dtype)
    every = torch.tensor([v for v in (limits.min + 1, -7, -3, -1, 1, 2, 3, 7, limits.max) if v >= limits.min]).to(dtype)
    x, y = (t.contiguous() for t in torch.meshgrid(every, every, indexing="ij"))
    exact(
        lambda a, b: [a // b, a % b, a.fmod(b), a.div(b, rounding_mode="trunc"), a.div(b, rounding_mode="floor")], x, y
    )


@pytest.mark.parametrize("divide", [lambda a, b: a // b, lambda a, b: a % b, torch.fmod], ids=["//", "%", "fmod"])
def test_integer_division_by_zero_raises(divide):
    x = torch.tensor([1, 2, 3], device=DEVICE)
    for zero in (0, torch.tensor([1, 0, 2], device=DEVICE)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(x, zero).cpu()
    assert divide(x.float(), 0).isfinite().sum() == 0
    assert divide(x, 2).tolist() == divide(x.cpu(), 2).tolist()  # the error is told once


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts(dtype):
    """By less than the width as in C; by the width or more, or by less than nothing: all bits leave."""
    width = dtype.itemsize * 8
    x = torch.tensor([1, 5, torch.iinfo(dtype).max, torch.iinfo(dtype).min], dtype=dtype)
    counts = [c for c in (0, 1, width - 1, width, width + 1, 100) if c < 128] + ([] if dtype == torch.uint8 else [-1])
    for count in counts:
        by = torch.full_like(x, count)
        exact(lambda a, b: [a << b, a >> b], x, by)


def test_indices_are_exact_past_two_to_the_24():
    n = 2**24 + 4
    x = torch.arange(n, dtype=torch.int32, device=DEVICE)
    index = torch.tensor([2**24 - 1, 2**24 + 1, 2**24 + 3], device=DEVICE)
    assert torch.equal(x[index].cpu(), index.cpu().int()) and torch.equal(x.gather(0, index).cpu(), index.cpu().int())
    put = torch.zeros(n, dtype=torch.uint8, device=DEVICE).index_fill_(0, index, 1)
    assert torch.equal(put.nonzero().flatten().cpu(), index.cpu())
    assert x.argmax().item() == n - 1


# ---- long sums ----


def test_long_sums_are_accurate():
    n = 10**7
    x = torch.full((n,), 0.1, device=DEVICE)
    true = torch.tensor(0.1).double().item()
    ramp = torch.arange(n, dtype=torch.float32, device=DEVICE) / n
    for got, want in [(x.sum(), true * n), (x.mean(), true), (x.norm(), true * n**0.5), (x.double().sum(), true * n),
                      (x.view(10, -1).sum(1)[3], true * n / 10), (x.view(-1, 10).sum(0)[3], true * n / 10),
                      (ramp.mean(), 0.5 - 0.5 / n), (ramp.var(), 1 / 12), (ramp.std(), 12**-0.5),
                      ((ramp + 100).var(), 1 / 12)]:  # fmt: skip
        assert abs(got.item() / want - 1) < (1e-6 if want != 1 / 12 else 2e-5), (got.item(), want)
    assert torch.ones(n, dtype=torch.int32, device=DEVICE).sum().item() == n
    assert torch.full((n,), 2**31 - 1, dtype=torch.int32, device=DEVICE).sum().item() == n * (2**31 - 1)


def test_the_same_twice():
    torch.manual_seed(0)
    x, index = torch.randn(20000, device=DEVICE), torch.randint(0, 50, (20000,)).to(DEVICE)
    for op in (lambda: torch.zeros(50, device=DEVICE).scatter_add(0, index, x), lambda: x.cumsum(0), lambda: x.sum(),
               lambda: torch.zeros(50, device=DEVICE).index_add(0, index, x), lambda: x.view(100, -1) @ x.view(-1, 100),
               lambda: torch.zeros(50, device=DEVICE).index_put((index,), x, accumulate=True)):  # fmt: skip
        first = op()
        assert all(torch.equal(first, op()) for _ in range(3))


# ---- what differs ----


def test_subnormals_may_be_zero():
    """Their values are kept where they only move."""
    x = torch.tensor([1e-40, -1e-45])
    there = x.to(DEVICE)
    assert torch.equal(there.clone().cpu(), x) and torch.equal(torch.cat([there, there]).cpu(), torch.cat([x, x]))


def test_floats_out_of_an_integers_range_saturate():
    x = torch.tensor([3e9, -3e9, INF, -INF, NAN], device=DEVICE)
    assert x.to(torch.int32).tolist() == [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]
    assert (x * 1e10)[:2].to(torch.int64).tolist() == [2**63 - 1, -(2**63)]
    inside = torch.tensor([-1.0, -3.7, 255.9, 256.5, -129.0, 70000.0])
    for dtype in (*INTEGERS, torch.uint16, torch.uint32, torch.uint64):
        exact(lambda t, dtype=dtype: t.to(dtype), inside)


# ---- products of what reads transposes ------------------------------------------------------------------------------

TRANSPOSED = {
    "a masked transpose, by row": lambda x, w, m: torch.where(m[0:1], x.t(), 0) @ w,
    "a masked transpose, by column": lambda x, w, m: torch.where(m[:, 0:1], x.t(), 0) @ w,
    "both masked": lambda x, w, m: torch.where(m[0:1], x.t(), 0) @ torch.where(m[0].unsqueeze(1), w, 0),
    "scaled": lambda x, w, m: (x.t() * 2) @ w,
    "with what is none": lambda x, w, m: (x + x.t()) @ w,
    "on the right": lambda x, w, m: w.t() @ torch.where(m[:, 0:1], x.t(), 0),
    "in a batch": lambda x, w, m: torch.where(m[0:1], torch.stack([x, -x]).mT, 0) @ w,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_products_of_elementwise_results_of_transposes(dtype):
    """Compilers move transposes about: XLA's for CPUs into products of bfloat16, which it then had no kernel for."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randint(-3, 4, (8, n), generator=generator).to(dtype) for n in (8, 4))
    m = torch.rand(8, 8, generator=generator) > 0.3
    run = torch.compile(lambda *args: [make(*args) for make in TRANSPOSED.values()], backend="tpu", dynamic=False)
    for name, got in zip(TRANSPOSED, run(x.to("tpu"), w.to("tpu"), m.to("tpu")), strict=True):
        assert torch.equal(got.cpu(), TRANSPOSED[name](x, w, m)), name
    product = torch.compile(lambda x, w: x.t() @ w, backend="tpu", dynamic=True)  # padded, hence masked
    for n in (5, 7, 11):
        x, w = (torch.randint(-3, 4, (n, k), generator=generator).to(dtype) for k in (6, 4))
        assert torch.equal(product(x.to("tpu"), w.to("tpu")).cpu(), x.t() @ w)
