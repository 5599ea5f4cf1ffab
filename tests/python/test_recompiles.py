"""What compiles a program and what does not: values never do, shapes and dtypes do, offsets of views a few times at most."""

import random

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.strict
DEVICE = "tpu"


def programs():
    return torch.tpu.compile_stats()["programs"]


def compiled_by(function):
    before = programs()
    function()
    return programs() - before


def steady(function, warm, more):
    """After the function ran for the `warm` arguments, running it for the others compiles nothing."""
    for argument in warm:
        function(argument)
    assert compiled_by(lambda: [function(argument) for argument in more]) == 0


# ---- values ---------------------------------------------------------------------------------------------------------

X = torch.linspace(0.1, 2.0, 12).view(3, 4)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, v: x + v,
        lambda x, v: x - v,
        lambda x, v: v - x,
        lambda x, v: x * v,
        lambda x, v: x / v,
        lambda x, v: v / x,
        lambda x, v: v**x,
        lambda x, v: torch.add(x, x, alpha=v),
        lambda x, v: torch.addcmul(x, x, x, value=v),
        lambda x, v: torch.addcdiv(x, x, x, value=v),
        lambda x, v: x.lerp(x, v),
        lambda x, v: x.clamp(min=v),
        lambda x, v: x.clamp(-v, v),
        lambda x, v: x > v,
        lambda x, v: x == v,
        lambda x, v: torch.where(x > 1, x, v),
        lambda x, v: x.masked_fill(x > 1, v),
        lambda x, v: x.clone().fill_(v),
        lambda x, v: torch.full((3, 4), v, device=x.device),
        lambda x, v: torch.full_like(x, v),
        lambda x, v: torch.tensor([v, v], device=x.device) * 2,
        lambda x, v: torch.tensor(v, device=x.device) * x,
        lambda x, v: x * torch.tensor(v),
        lambda x, v: nn.functional.dropout(x, min(v, 0.9)),
        lambda x, v: torch.addmm(x[:, :3], x, x.t(), beta=v, alpha=v),
        lambda x, v: x.index_fill(0, torch.tensor([0], device=x.device), v),
        lambda x, v: x.clone().uniform_(0, v),
        lambda x, v: x.clone().normal_(v, v),
        lambda x, v: x.clone().bernoulli_(min(v, 0.9)),
        lambda x, v: torch._foreach_add([x, x], v),
        lambda x, v: torch._foreach_mul([x, x], [v, v]),
        lambda x, v: torch.remainder(x, v),
        lambda x, v: torch.fmod(x, v),
        lambda x, v: x.clone().zero_().add_(v),
        lambda x, v: x.__setitem__((0, slice(None)), v),
        lambda x, v: x.__setitem__(x > 1.5, v),
    ],
)
def test_numbers(operation):
    x = X.to(DEVICE)
    steady(lambda v: operation(x, v), [0.5, 0.25], [0.1, 0.2, 1e-8, 1.5, 3.0])


def test_exponents():
    """Squares and roots have programs of their own; from the third other exponent on, it is an operand."""
    x = X.to(DEVICE)
    for v in (2, 3, 0.5, -1, 0.3, 0.7, 0.1, 0.9, 2.25, 11):
        torch.testing.assert_close((x**v).cpu(), X**v)
    steady(lambda v: x**v, [], [0.2, 0.4, 1e-8, 2.7, -0.3])
    integers = torch.arange(1, 5, device=DEVICE)
    for v in range(9, 14):
        assert (integers**v).tolist() == (torch.arange(1, 5) ** v).tolist()
    with pytest.raises(RuntimeError, match="negative integer powers"):
        integers**-9


def test_momentum_of_running_statistics():
    """Without a momentum, BatchNorm gives one over the number of batches, which changes at every step."""
    cpu, device = nn.BatchNorm1d(4, momentum=None), nn.BatchNorm1d(4, momentum=None).to(DEVICE)
    torch.manual_seed(0)
    batches = torch.randn(8, 6, 4)

    def step(i):
        cpu(batches[i])
        device(batches[i].to(DEVICE))
        torch.testing.assert_close(device.running_mean.cpu(), cpu.running_mean)
        torch.testing.assert_close(device.running_var.cpu(), cpu.running_var)

    steady(step, range(2), range(2, 8))


def test_diagonals():
    x = X.to(DEVICE)
    steady(lambda k: torch.equal(x.tril(k).cpu(), X.tril(k)), [-1, 0, 1], [2, 3, -2, 5])
    steady(lambda k: torch.equal(x.triu(k).cpu(), X.triu(k)), [-1, 0, 1], [2, 3, -2, 5])
    for k in range(-4, 6):
        assert torch.equal(x.tril(k).cpu(), X.tril(k)) and torch.equal(x.triu(k).cpu(), X.triu(k))


def test_values_are_right_all_the_same():
    x = X.to(DEVICE)
    for v in (0.5, 1, 2, True, 1e-8, float("inf"), float("nan"), -3):
        torch.testing.assert_close((x * v).cpu(), X * v, equal_nan=True)
        torch.testing.assert_close((x + v).cpu(), X + v, equal_nan=True)
    i = torch.arange(4, device=DEVICE)
    for v in (2**40, -(2**40), 2**62):
        assert (i + v).tolist() == (torch.arange(4) + v).tolist()


@pytest.mark.parametrize("foreach", [False, True])
def test_learning_rates(foreach):
    """Also 1e-8, which is the default of eps: equal numbers are not one number."""
    for make in (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=foreach),
        lambda p: torch.optim.AdamW(p, lr=0.1, foreach=foreach),
    ):
        parameters = [nn.Parameter(X.to(DEVICE)), nn.Parameter(X[0].to(DEVICE))]
        optimizer = make(parameters)

        def step(lr, parameters=parameters, optimizer=optimizer):
            optimizer.param_groups[0]["lr"] = lr
            for p in parameters:
                p.grad = p.detach() * 2
            optimizer.step()

        steady(step, [0.1, 0.05], [0.1 / k for k in range(1, 8)] + [1e-8, 1e-3])


def test_seeds():
    def draw(seed):
        torch.manual_seed(seed)
        torch.rand(4, device=DEVICE)
        torch.randn(4, device=DEVICE)
        torch.randint(0, 5, (4,), device=DEVICE)
        torch.randperm(5, device=DEVICE)
        nn.functional.dropout(torch.ones(4, device=DEVICE), 0.5)

    steady(draw, [0, 1], range(2, 20))


def test_random_numbers_differ_from_call_to_call():
    draws = [torch.rand(4, device=DEVICE).tolist() for _ in range(3)]
    assert draws[0] != draws[1] != draws[2]


def test_training():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 2)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    target = torch.tensor([0, 1, 0], device=DEVICE)

    def step(_):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X.to(DEVICE)), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        loss.item()

    steady(step, range(3), range(10))


def test_shapes_and_dtypes_do_compile():
    f = lambda x: torch.cosh(x) - 0.125  # noqa: E731
    assert compiled_by(lambda: f(torch.ones(17, device=DEVICE))) > 0
    assert compiled_by(lambda: f(torch.ones(17, device=DEVICE))) == 0
    assert compiled_by(lambda: f(torch.ones(18, device=DEVICE))) > 0
    assert compiled_by(lambda: f(torch.ones(17, device=DEVICE, dtype=torch.float64))) > 0


# ---- offsets of views -----------------------------------------------------------------------------------------------


def offsets_are_steady(function, offsets, at_most=8):
    """The function is run for many offsets; the first few may compile, the later ones may not."""
    offsets = list(offsets)
    before = programs()
    for offset in offsets[:4]:
        function(offset)
    assert programs() - before <= at_most
    assert compiled_by(lambda: [function(offset) for offset in offsets[4:]]) == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i] * 3,
        lambda x, i: x[:, i] * 3,
        lambda x, i: x[i].t() @ x[i],
        lambda x, i: x[i : i + 1] * 3,
        lambda x, i: x[0, i, :, None] + x[i, 0],
        lambda x, i: x[0, 0, i].item(),
        lambda x, i: x[i].cpu(),
        lambda x, i: x[:, i].cpu(),
        lambda x, i: x[i].tolist(),
        lambda x, i: torch.cat([x[i], x[0]]),
        lambda x, i: x[0, 0].narrow(0, i, 2).exp(),
        lambda x, i: x[0, 0, i::2].sum(),
        lambda x, i: x[i].diagonal() * 2,
        lambda x, i: x.select(1, i).transpose(0, 1).contiguous(),
        lambda x, i: x.view(torch.int32)[i] + 1,
    ],
)
def test_reads_at_many_offsets(read):
    x = torch.arange(10.0 * 10 * 11).view(10, 10, 11)
    d = x.to(DEVICE)
    limit = 9 if torch.is_tensor(read(x, 0)) and read(x, 0).dim() == 0 else 10
    for i in (0, 3, 8):
        got, want = read(d, i), read(x, i)
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got.cpu(), want)
        else:
            assert got == want
    if isinstance(read(x, 0), torch.Tensor) and read(x, 0).dim() == 0:
        return  # the size of x[i::2] changes with i
    offsets_are_steady(lambda i: read(d, i), range(limit - 1))


@pytest.mark.parametrize(
    "write",
    [
        lambda w, i: w[i].add_(1),
        lambda w, i: w.__setitem__(i, w[i] + 1),
        lambda w, i: w[:, i].mul_(2),
        lambda w, i: w[i, 1:5:2].zero_(),
        lambda w, i: w[i : i + 2, ::3].fill_(i),
        lambda w, i: w[i].copy_(w[9 - i]),
        lambda w, i: w[i].copy_(torch.arange(11.0)),
        lambda w, i: w.__setitem__((i, 3), 7.0),
        lambda w, i: w.t()[i].sub_(w.t()[10]),
        lambda w, i: torch.exp(w[9 - i] / 100, out=w[i]),
        lambda w, i: w.view(torch.int32)[i].bitwise_xor_(1),
        lambda w, i: w.as_strided((3, 2), (11, 12), i).add_(1),
    ],
)
def test_writes_at_many_offsets(write):
    w = torch.arange(10.0 * 11).view(10, 11)
    d = w.to(DEVICE)
    order = list(range(9))
    random.Random(0).shuffle(order)
    for i in order:
        write(w, i)
        write(d, i)
        torch.testing.assert_close(d.cpu(), w)
    offsets_are_steady(lambda i: write(d, i), range(9))


def test_offsets_that_need_another_cut():
    """Windows inside a row, then across rows: the program for the former does not fit the latter."""
    x = torch.arange(80.0).view(8, 10)
    d = x.to(DEVICE)
    for i in (0, 10, 20, 30, 5, 15, 25, 7, 8, 9, 73, 70, 40):
        assert torch.equal((d.view(-1)[i : i + 7] * 2).cpu(), x.view(-1)[i : i + 7] * 2)
    before = programs()
    for i in range(74):
        assert torch.equal((d.view(-1)[i : i + 7] * 2).cpu(), x.view(-1)[i : i + 7] * 2)
    assert programs() == before


def test_random_offsets_agree_with_the_cpu():
    draw = random.Random(1)
    w = torch.arange(4.0 * 9 * 10).view(4, 9, 10)
    d = w.to(DEVICE)
    for _ in range(60):
        a, b, c = draw.randrange(4), draw.randrange(7), draw.randrange(6)
        for t in (w, d):
            t[a, b : b + 3, c : c + 4 : 2].add_(t[3 - a, b, c]).mul_(0.5)
        torch.testing.assert_close(d, w.to(DEVICE))


def test_gradients_of_slices():
    """Backward through x[t] for many t."""
    x = torch.arange(12.0 * 5).view(12, 5)

    def gradient(device, t):
        leaf = x.clone().to(device).requires_grad_()
        rows = (
            leaf[t] * leaf[:, 2].sum()
            + leaf[t : t + 1, 1:3].sum()
            + leaf.select(0, t - 12) * leaf[t - 12 : (t - 11) or None].sum()
        )
        rows.sum().backward()
        return leaf.grad

    for t in (0, 4, 11):
        torch.testing.assert_close(gradient(DEVICE, t).cpu(), gradient("cpu", t))
    offsets_are_steady(lambda t: gradient(DEVICE, t), range(12), at_most=40)


def test_many_writes_cost_the_same():
    """The n-th write through a view is no dearer than the first."""
    w = torch.zeros(3, 4, device=DEVICE)
    for i in range(6):
        w[i % 3] += 1
    before = programs()
    for i in range(600):
        w[i % 3] += 1
    assert programs() == before
    assert w.tolist() == [[202.0] * 4] * 3


def test_counters():
    x = torch.ones(3, device=DEVICE)
    x + 1
    stats = torch.tpu.compile_stats()
    x + 2
    later = torch.tpu.compile_stats()
    assert later["launches"] == stats["launches"] + 1
    assert later["hits"] == stats["hits"] + 1
    assert later["programs"] == stats["programs"] and later["seconds"] == stats["seconds"]


def test_masked_fills_by_index():
    """x[mask] = number compiles nothing for another number of true elements, and reads nothing."""

    def fill(k):
        x = X.to(DEVICE)
        x[x > 0.2 * k] = 0.5 * k
        x[1, x[0] < 0.1 * k] = -1.0
        want = X.clone()
        want[want > 0.2 * k] = 0.5 * k
        want[1, want[0] < 0.1 * k] = -1.0
        torch.testing.assert_close(x.cpu(), want)

    steady(fill, [1, 2, 3], [4, 5, 6, 7])
