"""Public bug reports of other PyTorch device backends, each as the rule that it broke, tested as a whole kind.

The numbers are those of the reports' repositories; the tests are our own. Reports on torch.compile are tested with it."""

import copy
import gc
import io
import math
import os
import pickle
import time

import pytest
import torch
from processes import run
from torch import nn
from torch.nn import functional as F

DEVICE = "tpu"


def tpu(x, **options):
    return torch.as_tensor(x, **options).to(DEVICE)


def plugin():
    return {name: value for name, value in os.environ.items() if name == "TORCH_PJRT_PLUGIN"}


def close(device, cpu, **tolerance):
    assert device.device.type == DEVICE
    torch.testing.assert_close(device.cpu(), cpu, **tolerance)


# ---- views and memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_view", [
    lambda b: b.view(10, 1), lambda b: b.t(), lambda b: b[0], lambda b: b.unsqueeze(2), lambda b: b.expand(1, 10), lambda b: b.reshape(-1),
    lambda b: b.narrow(1, 0, 10), lambda b: b.squeeze(), lambda b: b.as_strided((5,), (2,)), lambda b: b.detach(),
])  # fmt: skip
def test_views_share_memory_for_ever(make_view):
    """pytorch/xla#3291: a view written after a synchronisation was not seen in its base."""
    base, cpu = torch.zeros(1, 10, device=DEVICE), torch.zeros(1, 10)
    view, cpu_view = make_view(base), make_view(cpu)
    for k in range(3):
        torch.tpu.synchronize()
        view.view(-1)[0] = k + 1 if view.is_contiguous() else 0
        cpu_view.view(-1)[0] = k + 1 if cpu_view.is_contiguous() else 0
        view.add_(1)
        cpu_view.add_(1)
        close(base, cpu)
        torch.tpu.synchronize()
        base[0, 4] = -k
        cpu[0, 4] = -k
        close(view, cpu_view)


def test_rebinding_data_severs_aliases():
    """pytorch/xla#3392."""
    for rebind in (
        lambda x: setattr(x, "data", x.data + 1),
        lambda x: setattr(x, "data", torch.ones(10, device=DEVICE)),
    ):
        x = torch.zeros(10, device=DEVICE)
        y = x.view(2, 5)
        rebind(x)
        assert (y == 0).all() and (x == 1).all()
        x.add_(1)
        assert (y == 0).all()
    x = torch.zeros(10, device=DEVICE)
    y = x.view(2, 5)
    x.data.add_(1)
    assert (y == 1).all()


@pytest.mark.parametrize("assign", [
    lambda x: x.__setitem__((slice(None), slice(0, 3)), 0), lambda x: x.__setitem__(1, 2.0), lambda x: x[:, ::2].mul_(3),
    lambda x: x.__setitem__((0, slice(None)), x[1].detach()), lambda x: x.masked_fill_(x > 0, 0), lambda x: x.t()[2].zero_(),
    lambda x: x.__setitem__(x > 0.5, 0.25),
])  # fmt: skip
def test_gradients_after_writing_a_slice(assign):
    """pytorch/xla#1718: the norm of the gradient was wrong after x[:, :768] = 0."""
    torch.manual_seed(0)
    cpu, data = nn.Linear(5, 8), torch.randn(4, 5)
    device = copy.deepcopy(cpu).to(DEVICE)
    for model in (cpu, device):
        x = model(data.to(model.weight.device))
        assign(x)
        (x * x).sum().backward()
    close(device.weight.grad, cpu.weight.grad)
    close(device.weight.grad.norm(), cpu.weight.grad.norm())


@pytest.mark.strict
def test_the_thousandth_write_is_no_dearer():
    """pytorch/xla#3619: the graph grew with every write through a view."""
    w = torch.zeros(3, 8, device=DEVICE)

    def measure(n):
        start = time.perf_counter()
        for i in range(n):
            w[i % 3] += 1
        w.cpu()
        return time.perf_counter() - start

    measure(9)
    programs = torch.tpu.compile_stats()["programs"]
    first = min(measure(99) for _ in range(3))
    measure(1200)
    last = min(measure(99) for _ in range(3))
    assert torch.tpu.compile_stats()["programs"] == programs
    assert last <= 3 * first
    assert w.sum(1).unique().numel() == 1


def test_offsets_count_in_logical_elements():
    """optimum-habana#961: x[i] of int64 gave every other element."""
    for dtype in (
        torch.int64,
        torch.int32,
        torch.int16,
        torch.uint8,
        torch.float64,
        torch.bfloat16,
        torch.complex64,
        torch.bool,
    ):
        x = torch.arange(10).to(dtype)
        d = x.to(DEVICE)
        assert [d[i].item() for i in range(10)] == [x[i].item() for i in range(10)]
        assert [int(row.real[1] if row.is_complex() else row[1]) for row in d.view(5, 2)] == [
            int(v.real) for v in x.view(5, 2)[:, 1].tolist()
        ]
        assert (d[3:8:2] + 0).tolist() == x[3:8:2].tolist()
        assert d.cpu()[7:].tolist() == d[7:].tolist() == d[7:].clone().tolist()


def test_lazy_bits_are_read():
    """Torch-FL#211: conj and neg bits were ignored, or the copy recursed without end."""
    z = torch.complex(torch.arange(6.0), torch.arange(6.0) + 1).view(2, 3)
    d = z.to(DEVICE)
    for f in (
        lambda t: t.conj(),
        lambda t: t.conj().t(),
        lambda t: t.imag.neg(),
        lambda t: t.conj().imag,
        lambda t: t.mH,
        lambda t: torch._neg_view(t.real),
        lambda t: t.conj()[1:],
        lambda t: t.conj() * t,
        lambda t: t @ t.mH,
        lambda t: t.conj().sum(),
    ):
        want = f(z).resolve_conj().resolve_neg()
        torch.testing.assert_close(f(d).cpu().resolve_conj().resolve_neg(), want)
        torch.testing.assert_close(f(d).clone().cpu().resolve_conj().resolve_neg(), want)
        torch.testing.assert_close(f(d).contiguous().cpu().resolve_conj().resolve_neg(), want)
        assert f(d).flatten()[0].item() == want.flatten()[0].item()


def test_overlapping_outputs_raise():
    """pytorch#126474."""
    for f in (
        lambda x, y: torch.addcmul(x[:-1], y, y, out=x[1:]),
        lambda x, y: torch.add(x[1:], y, out=x[:-1]),
        lambda x, y: x[1:].mul_(x[:-1]),
        lambda x, y: torch.neg(y, out=x[:1].expand(4)),
        lambda x, y: x.expand(2, 5).add_(1),
        lambda x, y: x.as_strided((2, 4), (0, 1)).copy_(y),
    ):
        for device in ("cpu", DEVICE):
            with pytest.raises(RuntimeError, match="single memory location"):
                f(torch.ones(5, device=device), torch.ones(4, device=device))


def test_memory_is_freed():
    """pytorch/xla#7849, #6380."""
    torch.ones(10, device=DEVICE).add(1).sum().item()
    gc.collect()
    before = torch.tpu.memory_allocated()
    x = torch.ones(1000, 10, device=DEVICE, requires_grad=True)
    y = (x * 2).t()[3:]
    y.sum().backward()
    assert torch.tpu.memory_allocated() >= before + 3 * 40000
    del x, y
    assert torch.tpu.memory_allocated() == before
    try:
        torch.ones(3, device=DEVICE) + torch.ones(4, device=DEVICE)
    except RuntimeError:
        pass
    assert torch.tpu.memory_allocated() == before
    for _ in range(20):
        torch.ones(1000, device=DEVICE)
    assert torch.tpu.memory_allocated() == before


# ---- modules, copies, files -----------------------------------------------------------------------------------------


def test_parameters_keep_their_identity():
    """pytorch/xla#6861: module.to made new parameters and orphaned the optimizer."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(DEVICE)
    assert all(a is b and a.device.type == DEVICE for a, b in zip(parameters, model.parameters(), strict=True))
    model(torch.randn(4, 3, device=DEVICE)).sum().backward()
    before = model[0].bias.clone()
    model[1].weight.grad.fill_(1)
    optimizer.step()
    assert not torch.equal(model[1].weight, torch.ones(3, device=DEVICE))
    assert before.shape == (3,)
    model.cpu()
    assert all(a is b and a.device.type == "cpu" for a, b in zip(parameters, model.parameters(), strict=True))
    model.to(DEVICE, torch.bfloat16)
    assert all(a is b and a.dtype == torch.bfloat16 for a, b in zip(parameters, model.parameters(), strict=True))


def test_data_may_change_device():
    """pytorch#196975."""
    p = nn.Parameter(torch.arange(3.0))
    p.data = p.data.to(DEVICE)
    assert p.device.type == DEVICE and p.tolist() == [0, 1, 2]
    (p * p).sum().backward()
    assert p.grad.tolist() == [0, 2, 4]
    p.grad = None
    p.data = p.data.cpu()
    assert p.device.type == "cpu"
    x = torch.zeros(2)
    x.data = torch.ones(2, device=DEVICE)
    assert x.device.type == DEVICE


def test_tied_weights_survive_files():
    """pytorch/xla#1245: tied embeddings were saved twice."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 4)
            self.head = nn.Linear(4, 20, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x):
            return self.head(self.embedding(x))

    model = Tied().to(DEVICE)
    assert model.head.weight is model.embedding.weight
    tokens = torch.arange(20, device=DEVICE)
    want = model(tokens).cpu()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    assert len(file.getvalue()) < 2 * 20 * 4 * 4 + 4000
    file.seek(0)
    state = torch.load(file)
    assert state["head.weight"].data_ptr() == state["embedding.weight"].data_ptr()
    other = Tied().to(DEVICE)
    other.load_state_dict(state)
    assert torch.equal(other(tokens).cpu(), want)
    assert torch.equal(copy.deepcopy(model)(tokens).cpu(), want)
    copied = copy.deepcopy(model)
    assert copied.head.weight is copied.embedding.weight


def test_copies_keep_the_device():
    """pytorch/xla#876."""
    x = torch.arange(6.0, device=DEVICE).view(2, 3)
    for y in (
        copy.copy(x),
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        copy.copy(nn.Parameter(x)),
        pickle.loads(pickle.dumps(x.t())).t(),
    ):
        assert y.device == x.device and torch.equal(y, x)
    assert copy.copy(x).data_ptr() == x.data_ptr() and copy.deepcopy(x).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("location", [
    "tpu", "tpu:0", torch.device("tpu"), {"cpu": "tpu"}, lambda storage, place: torch.serialization.default_restore_location(storage, "tpu:0"),
], ids=["name", "index", "device", "dict", "function"])  # fmt: skip
def test_files_load_to_the_device(location):
    """pytorch#125529."""
    file = io.BytesIO()
    torch.save({"x": torch.arange(4.0), "n": 3}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=location)
    assert loaded["x"].device.type == DEVICE and loaded["x"].tolist() == [0, 1, 2, 3] and loaded["n"] == 3
    file = io.BytesIO()
    torch.save(torch.arange(4.0, device=DEVICE), file)
    file.seek(0)
    assert torch.load(file).device.type == DEVICE
    file.seek(0)
    assert torch.load(file, map_location="cpu").device.type == "cpu"


def test_dlpack_does_not_crash():
    """pytorch#195815, #129652."""
    x = torch.arange(3.0, device=DEVICE)
    for f in (
        lambda: torch.from_dlpack(x),
        lambda: torch.utils.dlpack.to_dlpack(x),
        lambda: x.__dlpack__(),
        lambda: x.__dlpack_device__(),
    ):
        try:
            f()
        except (BufferError, RuntimeError, ValueError, NotImplementedError):
            pass
    assert x.tolist() == [0, 1, 2]


# ---- devices --------------------------------------------------------------------------------------------------------


def test_devices_that_do_not_exist():
    """DirectML#668."""
    n = torch.tpu.device_count()
    for index in (n, 99):
        with pytest.raises(RuntimeError, match=f"tpu:{index}"):
            torch.ones(1, device=f"tpu:{index}")
        with pytest.raises(RuntimeError, match=f"tpu:{index}"):
            torch.ones(1).to(f"tpu:{index}")
    code = """
import torch
x = torch.ones(3, device="tpu:2", requires_grad=True)
(x * 2).sum().backward()
assert x.grad.device.index == 2 and x.grad.tolist() == [2, 2, 2]
y = torch.ones(3, device="tpu:0", requires_grad=True)
(y.to("tpu:2") * x).sum().backward()
assert y.grad.device.index == 0
print("fine")
"""
    assert run(code, TORCH_PJRT_NUM_DEVICES="3", **plugin()).stdout.strip() == "fine"


@pytest.mark.parametrize("first", [
    "torch.rand(1).to('tpu')", "torch.Generator('tpu').seed()", "torch.tpu.Event().record()",
    "torch.ones(1, device='tpu', requires_grad=True).sum().backward()",
])  # fmt: skip
def test_any_first_call_works(first):
    """pytorch#134293, #144845, #146572: no module torch.privateuseone; not linked with support."""
    assert run(f"import torch\n{first}\nprint('fine')", **plugin()).stdout.strip() == "fine"


def test_no_composite_op_is_overridden():
    """pytorch#95207: a kernel for a composite op hides its autograd formula."""
    composite = {
        name
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if name.startswith("aten::")
    }
    returns_tensors = {str(s.name) + ("." + s.overload_name if s.overload_name else "") for s in torch._C._jit_get_all_schemas()
                       if any("Tensor" in str(r.type) for r in s.returns)}  # fmt: skip
    ours = set(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))
    differentiable = set(torch._C._dispatch_get_registrations_for_dispatch_key("AutogradPrivateUse1"))
    differentiable |= set(torch._C._dispatch_get_registrations_for_dispatch_key("Autograd"))
    assert len(ours) > 500
    has_no_formula = {
        "aten::choose_qparams_optimized"
    }  # reads its operand's memory and returns numbers for a quantizer
    assert sorted((ours & composite & returns_tensors) - differentiable - has_no_formula) == []


def test_workers_do_not_hang():
    """jax#9767, jax#9190, pytorch/xla#4272."""
    code = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.ones(3, device="tpu").sum().item()
total = 0.0
for (batch,) in DataLoader(TensorDataset(torch.arange(16.0)), batch_size=4, num_workers=2):
    total += batch.to("tpu").sum().item()
assert total == 120
print("fine")
"""
    assert run(code, **plugin()).stdout.strip() == "fine"


def test_events_cover_copies():
    """torch-xpu-ops#4349, pytorch#185252: the event returned before the copy to the host had ended."""
    x = torch.arange(5000.0, device=DEVICE)
    host, event = torch.empty(5000).pin_memory(), torch.tpu.Event()
    for i in range(300):
        x.add_(1)
        host.copy_(x, non_blocking=True)
        event.record()
        event.synchronize()
        assert event.query()
        assert host[0] == i + 1 and host[-1] == 5000 + i


def test_new():
    """pytorch#95734."""
    x = torch.ones(2, device=DEVICE, dtype=torch.float64)
    for y in (
        x.new(3),
        x.new(),
        x.new_tensor([1.0]),
        x.new_zeros(2),
        x.new_ones(2),
        x.new_full((2,), 3),
        x.new_empty(2),
        x.new_empty_strided((2,), (1,)),
    ):
        assert y.device == x.device and y.dtype == torch.float64
    assert x.new([1, 2]).tolist() == [1, 2]
    assert x.type() == "torch.tpu.DoubleTensor"
    assert x.type(torch.float32).device == x.device


def test_lists_are_changed_in_place():
    """pytorch#104965: a fallback lost what it wrote into lists."""
    x, y = torch.ones(3, device=DEVICE), torch.ones(2, 2, device=DEVICE)
    torch._foreach_add_([x, y], 1)
    assert x.tolist() == [2, 2, 2] and y.tolist() == [[2, 2], [2, 2]]
    torch._foreach_mul_([x], 3)
    assert x.tolist() == [6, 6, 6]
    p = nn.Parameter(torch.ones(2, device=DEVICE))
    p.grad = torch.tensor([3.0, 4.0], device=DEVICE)
    assert nn.utils.clip_grad_norm_([p], 1.0, foreach=True).item() == 5
    torch.testing.assert_close(p.grad.cpu(), torch.tensor([0.6, 0.8]), atol=1e-5, rtol=1e-5)
    split = [torch.empty(1, device=DEVICE), torch.empty(2, device=DEVICE)]
    torch._foreach_copy_(split, [x[:1], x[1:]])
    assert split[1].tolist() == [6, 6]


def test_ops_with_lists_of_devices():
    """pytorch#176715: cdist, pdist, std_mean and index_put name the devices that they know."""
    torch.manual_seed(0)
    a, b = torch.randn(5, 3), torch.randn(4, 3)
    close(torch.cdist(a.to(DEVICE), b.to(DEVICE)), torch.cdist(a, b), atol=1e-5, rtol=1e-5)
    close(F.pdist(a.to(DEVICE)), F.pdist(a), atol=1e-5, rtol=1e-5)
    for got, want in zip(torch.std_mean(a.to(DEVICE), 0), torch.std_mean(a, 0), strict=True):
        close(got, want)
    for x in (a, a.to(DEVICE)):
        x.index_put_((torch.tensor([0, 0, 2], device=x.device),), torch.ones(3, 3, device=x.device), accumulate=True)
    x = torch.zeros(4, device=DEVICE).index_put((torch.tensor([1, 1]),), torch.tensor(2.0), accumulate=True)
    assert x.tolist() == [0, 4, 0, 0]
    leaf = a.clone().to(DEVICE).requires_grad_()
    torch.cdist(leaf, b.to(DEVICE)).sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.xfail(raises=ValueError, reason="PyTorch's own check lists the devices by name (2.13)")
def test_flex_attention():
    """Ascend/pytorch#147, speculators#531."""
    from torch.nn.attention.flex_attention import flex_attention

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 8, 4) for _ in range(3))
    want = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))
    got = flex_attention(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), score_mod=lambda s, b, h, i, j: s + (i - j))
    close(got, want, atol=1e-5, rtol=1e-4)


def test_cpu_tensors_raise():
    """DirectML#442: an assertion in a kernel when a CPU tensor reached it."""
    x = torch.ones(3, device=DEVICE)
    for f in (
        lambda y: x + y,
        lambda y: y - x,
        lambda y: x.mul_(y),
        lambda y: torch.cat([x, y]),
        lambda y: x.dot(y),
        lambda y: F.linear(x, y.view(1, 3)),
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            f(torch.ones(3))
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]


# ---- values ---------------------------------------------------------------------------------------------------------


def test_infinities_as_replacements():
    """pytorch/xla#8674."""
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    for options in (
        {"nan": -math.inf, "posinf": math.inf, "neginf": -math.inf},
        {"nan": 0.5},
        {"posinf": 3.0, "neginf": -math.inf},
        {"nan": math.nan},
        {},
    ):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            close(
                torch.nan_to_num(x.to(DEVICE, dtype), **options),
                torch.nan_to_num(x.to(dtype), **options),
                equal_nan=True,
            )


def test_logarithms_of_losses_are_clamped():
    """pytorch/xla#2446: BCELoss was NaN at p = 1."""
    for p, t in ((1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 1.0)):
        grads = []
        for device in ("cpu", DEVICE):
            x = torch.full((3,), p, device=device, requires_grad=True)
            loss = nn.BCELoss()(x, torch.full((3,), t, device=device))
            loss.backward()
            grads.append((loss.item(), x.grad.tolist()))
        assert grads[0][0] == pytest.approx(grads[1][0], rel=1e-5)
        assert grads[0][1] == pytest.approx(grads[1][1], rel=1e-4)


def test_matmul_precision():
    """pytorch/xla#8811: float32 products were silently of low precision."""
    torch.manual_seed(0)
    a, b = torch.randn(64, 256), torch.randn(256, 64)
    exact = a.double() @ b.double()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        for product in (
            a.to(DEVICE) @ b.to(DEVICE),
            torch.einsum("ij,jk->ik", a.to(DEVICE), b.to(DEVICE)),
            F.linear(a.to(DEVICE), b.to(DEVICE).t()),
            torch.bmm(a.to(DEVICE)[None], b.to(DEVICE)[None])[0],
        ):
            error = (product.cpu().double() - exact).abs().max() / exact.abs().max()
            assert error < 1e-6
    finally:
        torch.set_float32_matmul_precision(before)


def test_seeds():
    """pytorch/xla#2092: manual_seed was ignored."""
    for draw in (
        lambda: torch.rand(5, device=DEVICE),
        lambda: torch.randn(5, device=DEVICE),
        lambda: torch.randint(0, 100, (5,), device=DEVICE),
        lambda: torch.randperm(9, device=DEVICE),
        lambda: F.dropout(torch.ones(20, device=DEVICE)),
        lambda: torch.empty(5, device=DEVICE).exponential_(),
        lambda: torch.bernoulli(torch.full((20,), 0.5, device=DEVICE)),
        lambda: torch.multinomial(torch.ones(20, device=DEVICE), 5),
    ):
        torch.manual_seed(7)
        first, second = draw(), draw()
        torch.manual_seed(7)
        assert torch.equal(draw(), first) and torch.equal(draw(), second)
        assert not torch.equal(first, second)
        torch.manual_seed(8)
        assert not torch.equal(draw(), first)
    state = torch.tpu.get_rng_state()
    a = torch.rand(5, device=DEVICE)
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.rand(5, device=DEVICE), a)
    torch.tpu.set_rng_state(state)
    with torch.random.fork_rng(device_type="tpu"):
        torch.rand(3, device=DEVICE)
    assert torch.equal(torch.rand(5, device=DEVICE), a)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (2, 0, 3)])
def test_tensors_without_elements(shape):
    """pytorch/xla#880, #6353."""
    cpu, device = torch.empty(shape), torch.empty(shape, device=DEVICE)
    assert device.stride() == cpu.stride() and device.numel() == 0
    for f in (
        lambda x: x.gather(0, torch.empty(shape, dtype=torch.int64, device=x.device)),
        lambda x: x.index_select(0, torch.empty(0, dtype=torch.int64, device=x.device)),
        lambda x: x[torch.empty(0, dtype=torch.int64, device=x.device)] if x.size(0) else x,
        lambda x: x.sum(0),
        lambda x: x.sum(),
        lambda x: x.prod(),
        lambda x: x + 1,
        lambda x: x.t() @ x if x.dim() == 2 else x,
        lambda x: torch.cat([x, x]),
        lambda x: x.softmax(0),
        lambda x: x.sort(0)[1],
        lambda x: x.nonzero(),
        lambda x: x.cumsum(0),
        lambda x: x.flip(0),
        lambda x: x.transpose(0, -1).contiguous(),
        lambda x: x.mean(),
    ):
        got, want = f(device), f(cpu)
        assert got.shape == want.shape
        close(got, want, equal_nan=True)
    with pytest.raises((IndexError, RuntimeError)):
        device.argmax()
    with pytest.raises((IndexError, RuntimeError)):
        device.max()


def test_indices_are_exact():
    """tt-xla#5325: indices went through bfloat16."""
    torch.manual_seed(0)
    for n in (257, 5000):
        order = torch.randperm(n)
        x = torch.arange(n, dtype=torch.float64)
        for f in (
            lambda t, i: t.gather(0, i),
            lambda t, i: t[i],
            lambda t, i: t.index_select(0, i),
            lambda t, i: torch.zeros_like(t).scatter(0, i, t),
            lambda t, i: F.embedding(i, t[:, None])[:, 0],
            lambda t, i: t.take(i),
            lambda t, i: torch.zeros_like(t).index_put((i,), t),
        ):
            close(f(x.to(DEVICE), order.to(DEVICE)), f(x, order))
    large = torch.tensor([2**24 + 1, 2**24 + 3, 0])
    x = torch.zeros(2**24 + 4, dtype=torch.int8)
    x[large] = torch.tensor([1, 2, 3], dtype=torch.int8)
    d = x.to(DEVICE)
    assert d[large.to(DEVICE)].tolist() == [1, 2, 3]
    assert d.gather(0, large.to(DEVICE)).tolist() == [1, 2, 3]
    assert d.argmax().item() == 0
    assert d[2**24 :].tolist() == [0, 1, 0, 2]


def test_reciprocals_of_integers():
    """aws-neuron-sdk#650."""
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
        x = torch.tensor([1, 3, 7]).to(dtype)
        for f in (
            torch.reciprocal,
            torch.rsqrt,
            torch.exp,
            torch.sqrt,
            torch.sigmoid,
            torch.sin,
            lambda t: t / 3,
            lambda t: t**-1.0,
            torch.log,
        ):
            close(f(x.to(DEVICE)), f(x))


def test_random_ops_compile_once():
    """pytorch/xla#2783: randn compiled at each step."""

    def step():
        torch.randn(7, device=DEVICE)
        torch.rand(7, device=DEVICE)
        F.dropout(torch.ones(7, device=DEVICE), 0.3)
        torch.randint(9, (7,), device=DEVICE)

    step()
    step()
    programs = torch.tpu.compile_stats()["programs"]
    for _ in range(10):
        step()
    assert torch.tpu.compile_stats()["programs"] == programs


def test_learning_rates_do_not_compile():
    """pytorch/xla#3604, #4994, pytorch#69634: also where lr equals eps."""
    p = nn.Parameter(torch.ones(3, device=DEVICE))
    for make in (
        torch.optim.AdamW,
        torch.optim.Adam,
        lambda ps: torch.optim.SGD(ps, 0.1),
        torch.optim.Adagrad,
        torch.optim.RMSprop,
    ):
        optimizer = make([p])
        programs = None
        for step, lr in enumerate([0.1, 0.01, 1e-3, 1e-8, 1e-7, 0.5, 0.25, 1e-8, 3.0, 1e-2]):
            optimizer.param_groups[0]["lr"] = lr
            p.grad = torch.ones(3, device=DEVICE)
            optimizer.step()
            if step == 1:
                programs = torch.tpu.compile_stats()["programs"]
        assert torch.tpu.compile_stats()["programs"] == programs
