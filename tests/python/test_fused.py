"""Fused mode: the values of strict mode, from fewer programs; windows end where docs/fused.md says."""

import threading

import pytest
import torch
from torch import nn

DEVICE = "tpu"
F = nn.functional


@pytest.fixture(autouse=True)
def fused_at_the_end():
    """Tests choose the mode in the body; whatever they leave is launched and strict comes back."""
    yield
    torch.tpu.set_eager_mode("strict")


def stats():
    return torch.tpu.compile_stats()


def both(function):
    """The results of the function in strict mode and in fused mode, on the CPU, from the same seed."""
    results = []
    for mode in ("strict", "fused"):
        with torch.tpu.set_eager_mode(mode):
            torch.manual_seed(7)
            results.append(torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), function()))
    return results


def same(function, **tolerance):
    strict, fused = both(function)
    torch.testing.assert_close(fused, strict, **tolerance)


# ---- values ---------------------------------------------------------------------------------------------------------

X = torch.linspace(-2, 2, 24).view(4, 6)


def in_place_chain(x):
    y = x.clone()
    y.add_(1).mul_(2)
    z = y.exp()
    y.sub_(z)
    return y, z


def writes_through_views(x):
    y = x.clone()
    y[1:3] = 5
    y.t()[0].mul_(2)
    y[:, ::2] += y[:, 1::2]
    row = y[2]
    row.zero_()
    y.view(-1)[3:9].copy_(torch.arange(6.0, device=x.device))
    return y, row, y.diagonal()


def aliases(x):
    y = x.clone()
    view = y.view(6, 4)
    y.add_(y)
    view.mul_(view)
    y[0].add_(y[1])
    return y, view


def same_slice_again(x):
    y = x.clone()
    part = y[1:3, 2:5]
    for i in range(6):
        part.add_(i)
        part.mul_(0.5)
    return y, part


def out_forms(x):
    out = torch.empty_like(x)
    torch.add(x, 1, out=out)
    total = torch.empty(0, device=x.device)
    torch.sum(out, 0, out=total)
    return out, torch.mul(out, 2, out=out), total


def bits(x):
    z = torch.complex(x, -x).conj()
    return z * 2, z.imag, torch.view_as_real(z.resolve_conj())


def sizes_from_data(x):
    mask = x > 0
    return x[mask] * 2, mask.nonzero(), torch.unique(x.round())


def lists(x):
    xs = [x.clone(), x * 2, x[0].clone()]
    torch._foreach_add_(xs, 1.5)
    torch._foreach_mul_(xs, [1.0, 2.0, 3.0])
    return torch._foreach_sqrt([y.abs() for y in xs])


def random_numbers(x):
    a = torch.rand(5, device=x.device)
    b = F.dropout(x, 0.5)
    c = torch.empty_like(x).normal_(2, 0.5)
    d = torch.randint(0, 9, (7,), device=x.device)
    return a, b, c, d, torch.multinomial(x.abs() + 1, 2), torch.randperm(9, device=x.device)


def changes_of_storage(x):
    y = x * 2
    y.resize_(2, 3)
    z = torch.zeros(3, device=x.device)
    z.set_((x + 1)[1].clone())
    w = torch.empty(4, device=x.device)
    w.data = x[:, 0] * 3
    return y, z, w


def from_the_host(x):
    y = x + 1
    z = y * 2
    y.copy_(torch.ones(4, 6))
    y[0] = torch.arange(6.0)
    return y, z


def falls_back(x):
    return torch.special.airy_ai(x + 1) * 2


KINDS = [
    in_place_chain,
    writes_through_views,
    aliases,
    same_slice_again,
    out_forms,
    bits,
    sizes_from_data,
    lists,
    random_numbers,
    changes_of_storage,
    from_the_host,
    falls_back,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_are_those_of_strict_mode(kind):
    same(lambda: kind(X.to(DEVICE)), rtol=1e-6, atol=1e-6)


# ---- what a window is -----------------------------------------------------------------------------------------------


def test_ops_are_one_program_and_run_when_read():
    x = torch.ones(3, 7, device=DEVICE)
    x.cpu()
    with torch.tpu.set_eager_mode("fused"):
        before = stats()
        y = x
        for _ in range(10):
            y = (y * 1.5 + 0.25).sqrt()
        assert stats()["launches"] == before["launches"]
        assert y[0, 0].item() == pytest.approx(1.6511, abs=1e-3)
        after = stats()
    assert after["programs"] - before["programs"] == 1
    assert after["launches"] - before["launches"] == 1
    window = torch.tpu.fusion_report()[-1]
    assert window["ops"] == 30
    assert window["results"] == 1  # intermediates were never written
    assert window["cuts"] == {"read": 1}
    assert {file for _, file, _ in window["calls"]} == {__file__}
    assert "test_fused.py" in str(torch.tpu.fusion_report())


def test_a_window_is_known_again_with_other_numbers():
    x = torch.ones(5, 3, device=DEVICE)
    with torch.tpu.set_eager_mode("fused"):
        results = []
        for i in range(4):
            results.append((x * float(i) + 2.5).cpu())
            if i == 0:
                before = stats()["programs"]
        assert stats()["programs"] == before
    assert [r[0, 0].item() for r in results] == [2.5, 3.5, 4.5, 5.5]


def test_memory_of_pending_and_freed_tensors_is_counted():
    x = torch.ones(1000, device=DEVICE)
    x.cpu()
    with torch.tpu.set_eager_mode("fused"):
        before = torch.tpu.memory_allocated()
        y = x + 1
        z = y * 2
        assert torch.tpu.memory_allocated() - before == 8000
        del y  # never written: its bytes come back at once
        assert torch.tpu.memory_allocated() - before == 4000
        del x  # an input of the window, which holds it
        assert torch.tpu.memory_allocated() - before == 4000
        assert z.sum().item() == 4000
        assert torch.tpu.memory_allocated() - before == 0
        del z
        assert torch.tpu.memory_allocated() - before == -4000


@pytest.mark.parametrize("end", ["synchronize", "event", "mode", "size", "bound"])
def test_windows_end(end):
    x = torch.ones(6, 2, device=DEVICE)
    x.cpu()
    torch.tpu.set_eager_mode("fused")
    y = x + 1
    before = stats()["launches"]
    if end == "synchronize":
        torch.tpu.synchronize()
    elif end == "event":
        torch.tpu.Event().record()
    elif end == "mode":
        torch.tpu.set_eager_mode("strict")
    elif end == "size":
        y.nonzero()
    else:
        torch.tpu.config.fused_ops = 8
        for _ in range(16):
            y = y + 1
        torch.tpu.config.fused_ops = 1024
    assert stats()["launches"] > before
    assert y[0, 0].item() == (18 if end == "bound" else 2)


# ---- errors ---------------------------------------------------------------------------------------------------------


def test_errors_of_shape_and_number_are_raised_at_the_op():
    x = torch.ones(4, 6, device=DEVICE)
    with torch.tpu.set_eager_mode("fused"):
        y = x + 1
        with pytest.raises(RuntimeError, match=r"add.Tensor.*\n.*test_fused.py"):
            y + torch.ones(5, device=DEVICE)
        with pytest.raises(RuntimeError):
            torch.empty(3, device=DEVICE).uniform_(2, 1)
        with pytest.raises(IndexError):
            y.sum(5)
        assert y.sum().item() == 48


def test_index_errors_name_their_line():
    x = torch.ones(4, 6, device=DEVICE)
    bad = torch.tensor([9], device=DEVICE)
    with torch.tpu.set_eager_mode("fused"):
        for _ in range(3):  # the third time from a program that is known
            y = x + 1
            z = y[bad] * 2  # this line
            with pytest.raises(IndexError, match=r"index 9 is out of bounds") as error:
                z.cpu()
            assert f"test_fused.py:{line_of('# this line')}" in str(error.value)
        assert (x + 1).sum().item() == 48


def line_of(mark):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(mark))


# ---- training and decoding ------------------------------------------------------------------------------------------


class Tiny(nn.Module):
    """Attention, normalisation, dropout and a gather, and few parameters."""

    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.head = nn.Linear(width, 32)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = F.dropout(torch.softmax(q @ k.mT * 0.3, -1), 0.1, self.training)
        return self.head(F.gelu(x + weights @ v))


def make_training(optimizer, **options):
    torch.manual_seed(3)
    model = Tiny().to(DEVICE)
    tokens = torch.randint(0, 32, (4, 9), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    chosen = optimizer(model.parameters(), **options)

    def step():
        chosen.zero_grad()
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        chosen.step()
        return loss

    return model, step


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.AdamW, {"lr": 0.01}),
    (torch.optim.AdamW, {"lr": 0.01, "foreach": False}),
    (torch.optim.AdamW, {"lr": 0.01, "fused": True}),
    (torch.optim.RMSprop, {"lr": 0.01}),
]


@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_training_equals_strict(optimizer, options):
    def run():
        model, step = make_training(optimizer, **options)
        torch.manual_seed(5)
        return [step() for _ in range(4)], dict(model.named_parameters())

    same(run, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS[:3])
def test_training_settles(optimizer, options):
    """After the second step nothing is compiled. (The first one makes the optimizer's state.)"""
    with torch.tpu.set_eager_mode("fused"):
        _, step = make_training(optimizer, **options)
        losses, compiled = [], []
        for _ in range(8):
            losses.append(step().item())
            compiled.append(stats()["programs"])
        assert compiled[-1] == compiled[1], compiled
        assert losses[-1] < losses[0]


@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS[:3])
def test_training_that_reads_nothing_settles(optimizer, options):
    with torch.tpu.set_eager_mode("fused"):
        _, step = make_training(optimizer, **options)
        compiled, launches = [], []
        for _ in range(48):
            loss = step()
            compiled.append(stats()["programs"])
            launches.append(stats()["launches"])
        assert compiled[-1] == compiled[23], compiled
        assert launches[-1] > launches[23] + 8  # it is not put off for ever
        assert loss.item() < 3.5


def test_loops_of_few_ops_settle():
    with torch.tpu.set_eager_mode("fused"):
        x = torch.ones(3, 11, device=DEVICE)
        compiled = []
        for i in range(1500):
            x = x * 0.5 + 1
            if i % 100 == 99:
                compiled.append(stats()["programs"])
        assert compiled[-1] == compiled[3], compiled
        assert x[0, 0].item() == 2


def test_decoding_equals_strict():
    torch.manual_seed(0)
    model = Tiny().to(DEVICE).eval()

    def run():
        with torch.no_grad():
            tokens = torch.zeros(1, 1, dtype=torch.long, device=DEVICE)
            for _ in range(5):
                tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], 1)
        return tokens

    same(run)


# ---- threads --------------------------------------------------------------------------------------------------------


def test_two_threads():
    failures = []

    def work(offset):
        try:
            x = torch.full((4, 4), float(offset), device=DEVICE)
            for _ in range(20):
                y = x + 1
                y.mul_(2)
                if not torch.equal(y.cpu(), torch.full((4, 4), 2.0 * (offset + 1))):
                    failures.append(offset)
        except Exception as error:
            failures.append(error)

    with torch.tpu.set_eager_mode("fused"):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
