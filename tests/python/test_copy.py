"""Copies: host to device and back, between devices, with conversion, in every dtype and layout; reading single elements."""

import os

import numpy
import pytest
import torch
from processes import run

DEVICE = "tpu"

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [torch.bool, *INTEGERS, *FLOATS, *FLOAT8, *COMPLEX]


def values(dtype, n=12):
    """Small numbers with the extremes of the dtype among them."""
    if dtype == torch.bool:
        return torch.arange(n) % 3 == 0
    if dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        return torch.tensor([limits.min, limits.max, *range(n - 2)], dtype=dtype)
    if dtype in COMPLEX:
        return torch.complex(torch.arange(n, dtype=torch.float64), -torch.arange(n, dtype=torch.float64) / 3).to(dtype)
    if dtype in FLOAT8:
        return (2.0 ** (torch.arange(n) % 6)).to(dtype)
    return torch.tensor([float("inf"), -0.0, *[k / 3 for k in range(n - 2)]], dtype=dtype)


def bits(x):
    """Bytes, so that NaN, -0.0 and dtypes without arithmetic compare."""
    return x.contiguous().view(-1).view(torch.uint8) if x.dtype != torch.bool else x.contiguous().view(-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(dtype):
    cpu = values(dtype)
    device = cpu.to(DEVICE)
    assert device.dtype == dtype and device.device.type == DEVICE
    assert torch.equal(bits(device.cpu()), bits(cpu))
    assert torch.equal(bits(device.view(3, 4).t().cpu()), bits(cpu.view(3, 4).t()))
    assert torch.equal(bits(cpu.view(3, 4).t().to(DEVICE).contiguous().cpu()), bits(cpu.view(3, 4).t()))
    assert torch.equal(bits(device[3:7].cpu()), bits(cpu[3:7]))
    host = torch.zeros_like(cpu)
    assert host.copy_(device) is host and torch.equal(bits(host), bits(cpu))
    part = torch.empty(20, dtype=dtype, device=DEVICE)
    part[4:16].copy_(cpu)
    assert torch.equal(bits(part[4:16].cpu()), bits(cpu))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item(dtype):
    cpu = values(dtype)
    device = cpu.to(DEVICE)
    for i in (1, 5, 11):
        want = cpu[i].item()
        assert device[i].item() == want
        assert type(device[i].item()) is type(want)
    assert device[2:].tolist() == cpu[2:].tolist() if dtype not in FLOAT8 else True


def test_items_of_views():
    x = torch.arange(10, device=DEVICE)
    assert [x[i].item() for i in range(10)] == list(range(10))
    assert [int(x[i]) for i in range(-10, 0)] == list(range(10))
    assert float(x[3]) == 3.0 and bool(x[0]) is False and x[4].__index__() == 4
    y = torch.arange(12.0, device=DEVICE).view(3, 4).t()
    assert y[2, 1].item() == 6
    z = torch.complex(torch.ones(2), torch.ones(2)).to(DEVICE)
    assert z.conj()[1].item() == 1 - 1j and z.imag.neg()[0].item() == -1 and complex(z[0]) == 1 + 1j
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)


CONVERSIONS = [
    (torch.bool, torch.float32), (torch.int64, torch.float32), (torch.float32, torch.int32), (torch.float64, torch.bfloat16),
    (torch.float32, torch.bool), (torch.bfloat16, torch.float16), (torch.uint8, torch.int64), (torch.int64, torch.uint8),
    (torch.float32, torch.complex64), (torch.int16, torch.float64), (torch.float32, torch.float8_e4m3fn),
    (torch.float8_e5m2, torch.float32), (torch.uint32, torch.int64),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), CONVERSIONS, ids=str)
def test_conversions(source, target):
    cpu = torch.tensor([0, 1, 2, 3, 5, 100]).to(source)
    want = cpu.to(target)
    for got in (
        cpu.to(DEVICE, target),
        cpu.to(DEVICE).to(target),
        cpu.to(DEVICE).to("cpu", target),
        torch.empty(6, dtype=target, device=DEVICE).copy_(cpu),
        torch.empty(6, dtype=target, device=DEVICE).copy_(cpu.to(DEVICE)),
        torch.empty(6, dtype=target).copy_(cpu.to(DEVICE)),
    ):
        assert got.dtype == target
        assert torch.equal(bits(got.cpu()), bits(want))


def test_broadcasting():
    row, column = torch.arange(4.0), torch.arange(3.0).view(3, 1)
    for source in (row, column, torch.tensor(7.0), torch.tensor([7])):
        want = torch.zeros(3, 4).copy_(source)
        assert torch.equal(torch.zeros(3, 4, device=DEVICE).copy_(source).cpu(), want)
        assert torch.equal(torch.zeros(3, 4, device=DEVICE).copy_(source.to(DEVICE)).cpu(), want)
        assert torch.equal(torch.zeros(3, 4).copy_(source.to(DEVICE)), want)
    with pytest.raises(RuntimeError, match="size"):
        torch.zeros(3, 4, device=DEVICE).copy_(torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        torch.zeros(3, device=DEVICE).copy_(torch.zeros(3, 4, device=DEVICE))


def test_layouts():
    cpu = torch.arange(96.0).view(2, 3, 4, 4)
    last = cpu.to(memory_format=torch.channels_last)
    for source in (
        cpu,
        last,
        cpu[:, :, ::2],
        cpu.permute(3, 0, 1, 2),
        cpu[:, :1].expand(2, 3, 4, 4),
        cpu[1:, 1:, 1:, 1:],
    ):
        device = source.to(DEVICE)
        assert torch.equal(device.cpu(), source)
        assert device.stride() == source.clone().stride()
        for target in (torch.zeros(source.shape), torch.zeros(source.shape).to(memory_format=torch.channels_last)):
            assert torch.equal(target.to(DEVICE).copy_(source).cpu(), source)
            assert torch.equal(target.to(DEVICE).copy_(device).cpu(), source)
            assert torch.equal(target.copy_(device), source)
    assert last.to(DEVICE).is_contiguous(memory_format=torch.channels_last)
    assert cpu.to(DEVICE, memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    base = torch.zeros(4, 6, device=DEVICE)
    base[::2, 1::2].copy_(torch.arange(6.0).view(2, 3))
    want = torch.zeros(4, 6)
    want[::2, 1::2] = torch.arange(6.0).view(2, 3)
    assert torch.equal(base.cpu(), want)
    host = torch.zeros(4, 6)
    host.t()[1::2].copy_(base.t()[1::2])
    assert torch.equal(host[:, 1::2], want[:, 1::2])


def test_lazy_bits():
    z = torch.complex(torch.arange(6.0), 1 + torch.arange(6.0)).view(2, 3)
    d = z.to(DEVICE)
    assert torch.equal(d.conj().cpu(), z.cpu().conj().resolve_conj())
    assert torch.equal(d.conj().t().contiguous().cpu(), z.conj().t().resolve_conj())
    assert torch.equal(d.conj().imag.cpu(), z.conj().imag.resolve_neg())
    assert torch.equal(d.imag.neg().cpu(), z.imag.neg())
    assert torch.equal(d.conj().clone().cpu().resolve_conj(), z.conj().resolve_conj())
    assert torch.equal(torch.zeros_like(d).copy_(z.conj()).cpu(), z.conj().resolve_conj())
    assert torch.equal(torch.zeros_like(d).conj().copy_(z).resolve_conj().cpu(), z)
    assert torch.equal(torch.zeros_like(z).copy_(d.conj()), z.conj().resolve_conj())
    assert torch.equal(torch.zeros_like(z).conj().copy_(d).resolve_conj(), z)
    assert torch.equal(z.conj().to(DEVICE).cpu().resolve_conj(), z.conj().resolve_conj())
    assert d.conj().numpy(force=True).tolist() == z.conj().resolve_conj().numpy().tolist()


def test_copy_to_oneself_does_nothing():
    x = torch.arange(6.0, device=DEVICE)
    launches = torch.tpu.compile_stats()["launches"]
    x[2:].copy_(x[2:])
    assert torch.tpu.compile_stats()["launches"] == launches
    x[:3].copy_(x[3:])
    assert x.tolist() == [3, 4, 5, 3, 4, 5]


def test_empty():
    for shape in ((0,), (3, 0), (0, 4)):
        cpu = torch.empty(shape)
        assert cpu.to(DEVICE).cpu().shape == shape
        assert cpu.to(DEVICE).copy_(cpu).shape == shape
        assert cpu.copy_(cpu.to(DEVICE)).shape == shape
        assert cpu.to(DEVICE).tolist() == cpu.tolist()


def test_pinned_and_non_blocking():
    host = torch.arange(1000.0).pin_memory()
    assert host.is_pinned() and not torch.arange(3.0).is_pinned()
    for _ in range(50):
        device = host.to(DEVICE, non_blocking=True)
        host.add_(1)  # the copy has taken the values that were there
        back = torch.empty(1000, pin_memory=True)
        back.copy_(device, non_blocking=True)
        torch.tpu.synchronize()
        assert torch.equal(back, host - 1)


def test_source_may_change_or_die_after_the_copy():
    source = torch.arange(100000.0)
    device = source.to(DEVICE)
    source.zero_()
    del source
    assert torch.equal(device.cpu(), torch.arange(100000.0))
    read = device.cpu()
    device.zero_()
    assert torch.equal(read, torch.arange(100000.0))
    read.add_(1)
    assert device.sum().item() == 0


def test_numpy():
    x = torch.arange(6.0, device=DEVICE).view(2, 3)
    with pytest.raises(TypeError, match="can't convert"):
        x.numpy()
    assert numpy.array_equal(x.numpy(force=True), x.cpu().numpy())
    assert numpy.array_equal(x.cpu().numpy(), numpy.arange(6.0).reshape(2, 3))
    assert torch.tensor(numpy.arange(3), device=DEVICE).tolist() == [0, 1, 2]
    assert torch.as_tensor(numpy.arange(3.0), device=DEVICE).dtype == torch.float64


def test_tolist():
    x = torch.arange(6, device=DEVICE).view(2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.t().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x[1, 2].tolist() == 5
    assert list(x[0]) == [torch.tensor(i, device=DEVICE) for i in range(3)]
    assert [row.tolist() for row in x] == x.tolist()


def test_printing():
    x = torch.arange(6.0, device=DEVICE).view(2, 3)
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='tpu:0')"
    assert repr(x[0, 0]) == "tensor(0., device='tpu:0')"
    assert "device='tpu:0', dtype=torch.int32" in repr(x.int())
    assert "requires_grad=True" in repr(torch.nn.Parameter(x))
    assert "grad_fn=" in repr(torch.nn.Parameter(x) * 2)
    assert "size=(0, 3)" in repr(torch.empty(0, 3, device=DEVICE))
    assert f"{x[1, 2]:.2f}" == "5.00"
    for dtype in DTYPES:
        text = repr(values(dtype).to(DEVICE))
        assert "device='tpu:0'" in text
        assert "".join(text.split()).replace(",device='tpu:0'", "") == "".join(repr(values(dtype)).split())
    assert "..." in repr(torch.zeros(2000, device=DEVICE))


def test_dlpack():
    x = torch.arange(3.0, device=DEVICE)
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        torch.from_dlpack(x)
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        numpy.from_dlpack(x)


def test_other_devices_refuse():
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.arange(3.0, device=DEVICE).to("meta").cpu()
    assert torch.arange(3.0, device=DEVICE).to("meta").shape == (3,)


TWO_DEVICES = """
import torch
a, b = torch.device("tpu", 0), torch.device("tpu", 1)
assert torch.tpu.device_count() == 2
x = torch.arange(12.0, device=a).view(3, 4)
y = x.to(b)
assert y.device == b and torch.equal(y.cpu(), x.cpu())
assert torch.equal(x.t().to(b).cpu(), x.t().cpu()) and torch.equal(x[1:, ::2].to(b).cpu(), x[1:, ::2].cpu())
assert x.to(b, torch.int32).tolist() == x.int().tolist()
z = torch.zeros(3, 8, device=b)
z[:, ::2].copy_(x)
assert torch.equal(z[:, ::2].cpu(), x.cpu()) and z[:, 1::2].sum().item() == 0
z[:, 1::2] = x
assert torch.equal(z[:, 1::2].cpu(), x.cpu())
c = torch.complex(x, -x)
assert torch.equal(c.conj().to(b).cpu().resolve_conj(), c.cpu().conj().resolve_conj())
x.add_(1)
assert torch.equal(y.cpu(), torch.arange(12.0).view(3, 4))
y.add_(y)
assert x.tolist() == (torch.arange(12.0).view(3, 4) + 1).tolist()
for f in (lambda: x + y, lambda: x.add_(y), lambda: torch.cat([x, y]), lambda: x @ y.t(), lambda: torch.where(x > 0, x, y),
          lambda: torch.add(x, x, out=y), lambda: torch._foreach_add([x, x], [x, y])):
    try:
        f()
    except RuntimeError as error:
        assert "same device" in str(error), error
    else:
        raise AssertionError("no error")
with torch.tpu.device(1):
    w = torch.ones(3, device="tpu")
    assert w.device == b and (w + 1).device == b
assert torch.ones(3, device="tpu").device == a
assert torch.ones_like(y).device == b and y.new_zeros(2).device == b and torch.rand_like(y).device == b
p = torch.nn.Linear(3, 2).to(b)
loss = p(torch.ones(4, 3, device=b)).sum()
loss.backward()
assert p.weight.grad.device == b and p.weight.grad.tolist() == [[4.0] * 3] * 2
q = x.to(b).requires_grad_()
(q.to(a) * 3).sum().backward()
assert q.grad.device == b and q.grad.eq(3).all()
e = torch.empty(0, 4, device=a).to(b)
assert e.device == b and e.shape == (0, 4)
u = torch.empty(3, device=a).to(b)
assert u.device == b
torch.tpu.synchronize(b)
assert torch.tpu.memory_allocated(1) > 0
print("fine")
"""


def test_two_devices():
    plugin = {name: value for name, value in os.environ.items() if name == "TORCH_PJRT_PLUGIN"}
    assert run(TWO_DEVICES, TORCH_PJRT_NUM_DEVICES="2", **plugin).stdout.strip() == "fine"
