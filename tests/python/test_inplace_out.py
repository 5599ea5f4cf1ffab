"""In-place operations, out= arguments, and what replaces a tensor's memory: the CPU says what is right, and what is an error."""

import copy
import gc
import warnings
from functools import partial

import pytest
import torch
import twins
from twins import DEVICE

agree = partial(twins.agree, exact=True, strides=True)


def same_error(function, *tensors):
    """Raises on both, the same type, and the CPU's text is in the device's where it does not name the device."""
    with pytest.raises(Exception) as on_cpu:
        function(*tensors)
    with pytest.raises(type(on_cpu.value)) as on_device:
        function(*[t.to(DEVICE) for t in tensors])
    return str(on_cpu.value), str(on_device.value)


def floats(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)


# ---- in place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "other", "op"),
    [
        (torch.int64, torch.float32, "add_"),
        (torch.int32, torch.float32, "mul_"),
        (torch.float32, torch.complex64, "add_"),
        (torch.bool, torch.int64, "add_"),
        (torch.bool, torch.float32, "mul_"),
        (torch.int32, torch.int32, "div_"),
        (torch.int64, torch.float64, "sub_"),
    ],
)
def test_type_promotion_that_does_not_fit(target, other, op):
    cpu, device = same_error(lambda a, b: getattr(a, op)(b), torch.ones(4, dtype=target), torch.ones(4, dtype=other))
    assert "can't be cast to the desired output type" in cpu
    assert cpu in device


def test_type_promotion_that_fits():
    for target in (
        torch.uint8,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
    ):
        for other in (torch.bool, torch.uint8, torch.int32):
            agree(lambda a, b: a.add_(b), torch.ones(4, dtype=target), torch.ones(4, dtype=other))
    agree(lambda a, b: a.mul_(b), floats(4).half(), floats(4).double())
    agree(lambda a: a.add_(1), torch.ones(3, dtype=torch.int32))
    agree(lambda a: a.mul_(2.5), torch.ones(3))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Int"):
        torch.ones(3, dtype=torch.int32, device=DEVICE).add_(1.5)


def test_shapes_that_do_not_fit():
    for a, b in (((3,), (2, 3)), ((2, 3), (3, 2)), ((1,), (3,)), ((), (2,)), ((2, 1), (2, 3))):
        cpu, device = same_error(lambda x, y: x.add_(y), torch.ones(a), torch.ones(b))
        assert "RuntimeError" not in device
        assert "add_" in device or "add" in device
        assert str(list(b)[-1]) in device or "shape" in device
        assert cpu  # the CPU refuses as well


def test_operand_is_the_target():
    agree(lambda x: x.add_(x), floats(3, 4))
    agree(lambda x: x.mul_(x).sub_(x), floats(3, 4))
    agree(lambda x: x.copy_(x.flip(0)), floats(6))
    agree(lambda x: x.copy_(x.t().clone()), floats(3, 3))
    agree(lambda x: x.addcmul_(x, x, value=2), floats(5))
    agree(lambda x: x.masked_fill_(x > 2, 0), floats(5))
    agree(lambda x: x[1:].add_(x[:1]), floats(5))
    agree(lambda x: x[::2].copy_(x[1::2]), floats(6))
    agree(lambda x: x[0].add_(x[1]).mul_(x[2]), floats(3, 4))


def test_target_is_transposed():
    agree(lambda x: x.t().add_(x.t()), floats(3, 4))
    agree(lambda x: x.t().add_(floats(4, 3).to(x.device)), floats(3, 4))
    agree(lambda x: x.t().zero_(), floats(3, 4))
    agree(lambda x, y: x.add_(y.t()), floats(3, 4), floats(4, 3))
    agree(lambda x, y: x.permute(2, 0, 1).mul_(y), floats(2, 3, 4), floats(4, 2, 3))
    cpu, device = same_error(lambda x: x.add_(x.t()), floats(3, 3))
    assert "single memory location" in cpu and "single memory location" in device


def test_many_overloads():
    torch.tpu.reset_fallbacks()
    x, y = floats(3, 4), floats(3, 4) / 7
    for f in (
        lambda a, b: a.clamp_(2, 5),
        lambda a, b: a.pow_(2),
        lambda a, b: a.lerp_(b, 0.3),
        lambda a, b: a.addcdiv_(a, b),
        lambda a, b: a.sigmoid_(),
        lambda a, b: a.sqrt_().neg_(),
        lambda a, b: a.floor_divide_(b),
        lambda a, b: a.remainder_(b),
        lambda a, b: a.eq_(b),
        lambda a, b: a.tril_(),
        lambda a, b: a.index_add_(0, torch.tensor([0, 2], device=a.device), b[:2]),
        lambda a, b: a.index_copy_(1, torch.tensor([3, 1], device=a.device), b[:, :2]),
        lambda a, b: a.index_fill_(1, torch.tensor([3, 1], device=a.device), 9),
        lambda a, b: a.scatter_(1, torch.tensor([[0, 3]] * 3, device=a.device), b),
        lambda a, b: a.scatter_add_(1, torch.tensor([[0, 3]] * 3, device=a.device), b),
        lambda a, b: a.masked_scatter_(a > 3, b),
        lambda a, b: a.index_put_((torch.tensor([0, 0], device=a.device),), b[:2], accumulate=True),
        lambda a, b: a.addmm_(b, floats(4, 4).to(a.device)),
        lambda a, b: a.cumsum_(1),
        lambda a, b: a.fill_diagonal_(4),
        lambda a, b: a.logical_not_(),
        lambda a, b: a.t_(),
        lambda a, b: a.unsqueeze_(1).squeeze_(1),
        lambda a, b: a.transpose_(0, 1),
    ):
        agree(f, x.clone(), y.clone(), exact=False)
    assert torch.tpu.fallbacks() == {}


def test_version_counters():
    x = torch.zeros(4, device=DEVICE)
    view, detached = x[1:], x.detach()
    assert x._version == 0
    x.add_(1)
    assert x._version == view._version == detached._version == 1
    view.mul_(2)
    torch.add(x, 1, out=x)
    assert x._version == 3
    x.data.add_(1)
    assert x._version == 3
    y = torch.ones(3, device=DEVICE, requires_grad=True)
    z = y * 2
    saved = z.exp()
    saved.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    with pytest.raises(RuntimeError, match="leaf"):
        y.add_(1)
    torch._foreach_add_([x, view], 1)
    assert x._version == 5


# ---- out= -----------------------------------------------------------------------------------------------------------


def test_out_of_the_right_shape():
    for f in (
        lambda a, b, out: torch.add(a, b, out=out),
        lambda a, b, out: torch.mul(a, 2, out=out),
        lambda a, b, out: torch.where(a > 3, a, b, out=out),
        lambda a, b, out: torch.cat([a[:1], b[1:]], out=out),
        lambda a, b, out: torch.clamp(a, min=2, out=out),
        lambda a, b, out: torch.cumsum(a, 0, out=out),
        lambda a, b, out: torch.matmul(a, b.t(), out=out.resize_(3, 3)),
    ):
        agree(f, floats(3, 4), floats(3, 4) * 2, torch.zeros(3, 4))


def test_out_is_resized():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(lambda a, out: torch.add(a, 1, out=out), floats(3, 4), torch.empty(0))
        agree(lambda a, out: torch.sum(a, 1, out=out), floats(3, 4), torch.empty(0))
    with pytest.warns(UserWarning, match="resized"):
        agree(lambda a, out: torch.add(a, 1, out=out), floats(3, 4), torch.empty(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(lambda a, out: torch.add(a, 1, out=out), floats(3, 4), torch.empty(40))


def test_out_of_another_dtype():
    agree(lambda a, out: torch.add(a, 1, out=out), floats(3), torch.zeros(3, dtype=torch.float64))
    agree(lambda a, out: torch.add(a, 1, out=out), torch.arange(3), torch.zeros(3))
    agree(lambda a, out: torch.eq(a, 2, out=out), floats(3), torch.zeros(3, dtype=torch.bool))
    agree(lambda a, out: torch.gt(a, 2, out=out), floats(3), torch.zeros(3))
    cpu, device = same_error(lambda a, out: torch.add(a, 1, out=out), floats(3), torch.zeros(3, dtype=torch.int64))
    assert "can't be cast to the desired output type Long" in device and "can't be cast" in cpu


def test_out_with_other_strides():
    agree(lambda a, out: torch.add(a, 1, out=out.t()), floats(3, 4), torch.zeros(4, 3))
    agree(lambda a, out: torch.mul(a, a, out=out[:, ::2]), floats(3, 2), torch.zeros(3, 4))
    agree(lambda a, out: torch.exp(a, out=out[1]), floats(4), torch.zeros(3, 4), exact=False)
    agree(lambda a, out: torch.sum(a, 0, out=out[2:6]), floats(3, 4), torch.zeros(8))
    agree(lambda a, out: torch.add(a, 1, out=out), floats(3, 4), torch.zeros(4, 3).t())
    agree(lambda a, out: torch.stack([a, a], out=out), floats(4), torch.zeros(2, 4))


def test_out_among_views_of_one_storage():
    agree(lambda s: torch.add(s[:4], s[4:8], out=s[8:]), floats(12))
    agree(lambda s: torch.add(s, 1, out=s), floats(12))
    agree(lambda s: torch.add(s[0], s[1], out=s[0]), floats(3, 4))
    for f in (
        lambda x, y: torch.addcmul(x[:-1], y, y, out=x[1:]),
        lambda x, y: torch.add(x[:-1], 1, out=x[1:]),
        lambda x, y: torch.exp(x[1:], out=x[:-1]),
        lambda x, y: torch.add(y, y, out=x[:1].expand(4)),
    ):
        cpu, device = same_error(f, floats(5), floats(4))
        assert "single memory location" in cpu and "single memory location" in device


def test_several_outs():
    x = floats(4, 5).flip(1)
    agree(lambda a, v, i: torch.max(a, 1, out=(v, i)), x, torch.empty(4), torch.empty(4, dtype=torch.int64))
    agree(lambda a, v, i: torch.sort(a, 1, out=(v, i)), x, torch.empty(0), torch.empty(0, dtype=torch.int64))
    agree(lambda a, v, i: torch.topk(a, 2, out=(v, i)), x, torch.empty(0), torch.empty(0, dtype=torch.int64))


def test_out_on_another_device():
    with pytest.raises(RuntimeError, match="device"):
        torch.add(torch.ones(3, device=DEVICE), 1, out=torch.empty(3))
    with pytest.raises(RuntimeError, match="device"):
        torch.add(torch.ones(3), 1, out=torch.empty(3, device=DEVICE))


def test_out_requires_grad():
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with pytest.raises(RuntimeError, match="out="):
        torch.add(x, 1, out=torch.empty(3, device=DEVICE))


def test_out_keeps_its_address_and_aliases():
    out = torch.zeros(3, 4, device=DEVICE)
    view, address = out[1], out.data_ptr()
    torch.add(torch.ones(3, 4, device=DEVICE), 1, out=out)
    assert out.data_ptr() == address and view.tolist() == [2.0] * 4
    out[1] = 5
    assert view.tolist() == [5.0] * 4


# ---- lists ----------------------------------------------------------------------------------------------------------


def foreach(f, *lists):
    cpu = [[t.clone() for t in ts] for ts in lists]
    device = [[t.to(DEVICE) for t in ts] for ts in lists]
    f(*cpu)
    f(*device)
    for ts, ds in zip(cpu, device, strict=True):
        for t, d in zip(ts, ds, strict=True):
            torch.testing.assert_close(d.cpu(), t)


def test_foreach():
    xs, ys = [floats(3), floats(2, 2), floats(1, 3)], [floats(3) * 2, floats(2, 2) * 3, floats(1, 3)]
    foreach(lambda x: torch._foreach_add_(x, 1), xs)
    foreach(lambda x: torch._foreach_mul_(x, [1.0, 2.0, 3.0]), xs)
    foreach(lambda x, y: torch._foreach_add_(x, y, alpha=2), xs, ys)
    foreach(lambda x, y: torch._foreach_lerp_(x, y, 0.25), xs, ys)
    foreach(lambda x, y: torch._foreach_addcmul_(x, y, y, value=0.5), xs, ys)
    foreach(lambda x, y: torch._foreach_copy_(x, y), xs, ys)
    foreach(lambda x: torch._foreach_zero_(x), xs)
    foreach(lambda x: torch._foreach_sqrt_(x), xs)
    x = torch.ones(1, device=DEVICE)
    torch._foreach_add_([x], 1)
    assert x.item() == 2


def test_foreach_with_a_tensor_twice():
    for f in (
        lambda x: torch._foreach_add_([x, x], 1),
        lambda x: torch._foreach_mul_([x, x[1:], x], [2.0, 3.0, 4.0]),
        lambda x: torch._foreach_add_([x[:2], x[1:]], [x[:2], x[1:]]),
        lambda x: torch._foreach_copy_([x, x], [x + 1, x + 2]),
    ):
        agree(f, floats(3))


def test_foreach_on_parts_of_one_storage():
    agree(lambda x: torch._foreach_add_(list(x.unbind(0)), 1), floats(4, 3))
    agree(lambda x: torch._foreach_mul_(list(x.t().unbind(0)), [1.0, 2.0, 3.0]), floats(4, 3))
    agree(lambda x: torch._foreach_add_([x[0], x[2]], [x[1], x[3]]), floats(4, 3))
    agree(lambda x: torch._foreach_copy_([x[0], x[1]], [x[1], x[0]]), floats(4, 3))
    agree(lambda x, y: torch._foreach_copy_([x[0], y[1]], [y[0], x[1]]), floats(2, 3), floats(2, 3) * 10)


def test_optimizer_on_a_flat_buffer():
    def step(flat):
        parts = [torch.nn.Parameter(flat[:6].view(2, 3)), torch.nn.Parameter(flat[6:])]
        optimizer = torch.optim.AdamW(parts, lr=0.1, foreach=True)
        for part in parts:
            part.grad = torch.ones_like(part)
        optimizer.step()
        return flat

    agree(step, floats(10), exact=False)


# ---- memory that is replaced ----------------------------------------------------------------------------------------


def test_data():
    x = torch.zeros(10, device=DEVICE)
    y = x.view(2, 5)
    x.data = x.data + 1
    assert (y == 0).all() and (x == 1).all()
    z = x.view(2, 5)
    x.data.add_(1)
    assert (z == 2).all()
    x.data = torch.ones(3, device=DEVICE)
    assert x.shape == (3,)
    p = torch.nn.Parameter(torch.ones(3))
    p.data = p.data.to(DEVICE)
    assert p.device.type == DEVICE and isinstance(p, torch.nn.Parameter)
    (p * 2).sum().backward()
    assert p.grad.device.type == DEVICE and p.grad.tolist() == [2, 2, 2]
    p.data = p.data.cpu()
    assert p.device.type == "cpu"


def test_set():
    x, y = torch.arange(6.0, device=DEVICE), torch.zeros(2, device=DEVICE)
    y.set_(x)
    y.add_(1)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[2, 3], [4, 5]]
    y.set_()
    assert y.shape == (0,) and y.device.type == DEVICE
    z = torch.empty(0, dtype=torch.int32, device=DEVICE).set_(x.untyped_storage())
    assert z.shape == (6,) and z.tolist() == x.cpu().view(torch.int32).tolist()
    with pytest.raises(RuntimeError):
        y.set_(torch.ones(3))


def test_resize():
    x = torch.arange(6.0, device=DEVICE)
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]]
    x.resize_(12)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    x.resize_as_(torch.ones(3, device=DEVICE))
    assert x.tolist() == [0, 1, 2]
    y = torch.arange(6.0, device=DEVICE)[2:]
    y.resize_(6)
    assert y[:4].tolist() == [2, 3, 4, 5]
    assert x.resize_(0).shape == (0,)
    with pytest.raises(RuntimeError):
        torch.ones(3, device=DEVICE, requires_grad=True).resize_(4)
    c = torch.empty(0, device=DEVICE).resize_((2, 3, 4, 4), memory_format=torch.channels_last)
    assert c.is_contiguous(memory_format=torch.channels_last)


def test_swap():
    a, b = torch.zeros(2, device=DEVICE), torch.ones(3)
    torch.utils.swap_tensors(a, b)
    assert a.shape == (3,) and a.device.type == "cpu"
    assert b.device.type == DEVICE and b.tolist() == [0, 0]


def test_copies_of_tensors():
    x = torch.arange(6.0, device=DEVICE).view(2, 3)
    assert copy.copy(x).device == x.device
    deep = copy.deepcopy(x)
    deep.add_(1)
    assert deep.device == x.device and x[0, 0].item() == 0
    pair = copy.deepcopy([x, x[1]])
    pair[1].zero_()
    assert pair[0].tolist() == [[0, 1, 2], [0, 0, 0]]
    transposed = copy.deepcopy(x.t())
    assert transposed.stride() == (1, 3)
    p = torch.nn.Parameter(x.clone())
    q = copy.deepcopy(p)
    assert isinstance(q, torch.nn.Parameter) and q.requires_grad and q.data_ptr() != p.data_ptr()
    copied = copy.deepcopy(torch.view_as_complex(torch.ones(3, 2, device=DEVICE)).conj())
    assert copied.tolist() == [1 - 1j] * 3


def test_memory_of_dropped_storages_is_freed():
    gc.collect()  # what other tests left behind
    x = torch.ones(1000, device=DEVICE)
    before = torch.tpu.memory_allocated()
    y = x + 1
    view = y[10:]
    assert torch.tpu.memory_allocated() > before
    del y
    assert torch.tpu.memory_allocated() > before  # the view keeps it
    del view
    assert torch.tpu.memory_allocated() == before
