"""Views: what they read, and what writing through them does to the base and to every other view of it.

Chains of view operations are drawn at random and carried out on the CPU and on the device alike. The CPU is the judge."""

import random

import pytest
import torch

DEVICE = "tpu"


def same(device_tensor, cpu_tensor):
    """Type, geometry and values agree, and values are compared bit by bit (no arithmetic happened on the way)."""
    assert device_tensor.device.type == DEVICE
    assert device_tensor.dtype == cpu_tensor.dtype
    assert device_tensor.shape == cpu_tensor.shape
    read = device_tensor.cpu()
    torch.testing.assert_close(read, cpu_tensor.resolve_conj().resolve_neg(), rtol=0, atol=0, equal_nan=True)


def same_geometry(device_tensor, cpu_tensor):
    assert device_tensor.shape == cpu_tensor.shape
    assert device_tensor.stride() == cpu_tensor.stride()
    assert device_tensor.storage_offset() == cpu_tensor.storage_offset()
    assert device_tensor.is_conj() == cpu_tensor.is_conj()
    assert device_tensor.is_neg() == cpu_tensor.is_neg()


def pair(cpu_tensor):
    """The tensor and its twin on the device, of the same strides."""
    return cpu_tensor, cpu_tensor.to(DEVICE)


# ---- chains ---------------------------------------------------------------------------------------------------------
# A step takes the generator and a CPU tensor, and returns a function to apply to both tensors, or None where it does not
# apply to this one.


def dim_of(draw, x):
    return draw.randrange(x.dim()) if x.dim() > 0 else None


def step_slice(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) < 2:
        return None
    start = draw.randrange(x.size(d) - 1)
    end = draw.randrange(start + 1, x.size(d) + 1)
    index = (slice(None),) * d + (slice(start, end, draw.choice((1, 1, 2, 3))),)
    return lambda t: t[index]


def step_select(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) == 0:
        return None
    i = draw.randrange(-x.size(d), x.size(d))
    return lambda t: t.select(d, i)


def step_narrow(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) == 0:
        return None
    start = draw.randrange(x.size(d))
    length = draw.randrange(1, x.size(d) - start + 1)
    return lambda t: t.narrow(d, start, length)


def step_transpose(draw, x):
    if x.dim() < 2:
        return None
    a, b = draw.sample(range(x.dim()), 2)
    return lambda t: t.transpose(a, b)


def step_permute(draw, x):
    order = draw.sample(range(x.dim()), x.dim())
    return lambda t: t.permute(order)


def step_unsqueeze(draw, x):
    d = draw.randrange(-x.dim() - 1, x.dim() + 1)
    return lambda t: t.unsqueeze(d)


def step_squeeze(draw, x):
    return lambda t: t.squeeze()


def step_expand(draw, x):
    sizes = [draw.choice((n, 3)) if n == 1 else n for n in x.shape]
    if draw.random() < 0.5:
        sizes = [2] + sizes
    return lambda t: t.expand(sizes)


def step_reshape(draw, x):
    n = x.numel()
    shapes = [(n,), (-1, 1), (1, n), (n, 1, 1)] + [(k, n // k) for k in (2, 3, 4, 5, 6) if n % k == 0 and n > 0]
    shape = draw.choice(shapes) if n > 0 else (0,)
    try:
        x.view(shape)
    except RuntimeError:
        return None  # not viewable: reshape would copy
    return lambda t: t.view(shape)


def step_unflatten(draw, x):
    d = dim_of(draw, x)
    if d is None:
        return None
    factors = [k for k in (2, 3) if x.size(d) > k and x.size(d) % k == 0]
    if not factors:
        return None
    k = draw.choice(factors)
    return lambda t: t.unflatten(d, (k, -1))


def step_diagonal(draw, x):
    if x.dim() < 2:
        return None
    a, b = draw.sample(range(x.dim()), 2)
    offset = draw.choice((0, 0, 1, -1))
    if x.diagonal(offset, a, b).numel() == 0:
        return None
    return lambda t: t.diagonal(offset, a, b)


def step_unfold(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) < 2:
        return None
    size = draw.randrange(1, min(3, x.size(d)) + 1)
    step = draw.choice((1, 2, size))
    return lambda t: t.unfold(d, size, step)


def step_split(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) < 2:
        return None
    n = draw.randrange(1, x.size(d))
    which = draw.randrange(2)
    return lambda t: t.split(n, d)[which]


def step_chunk(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) < 2:
        return None
    return lambda t: t.chunk(2, d)[1]


def step_unbind(draw, x):
    d = dim_of(draw, x)
    if d is None or x.size(d) == 0:
        return None
    return lambda t: t.unbind(d)[-1]


def step_movedim(draw, x):
    if x.dim() < 2:
        return None
    a, b = draw.randrange(x.dim()), draw.randrange(x.dim())
    return lambda t: t.movedim(a, b)


def step_conj(draw, x):
    return lambda t: t.conj()


def step_real(draw, x):
    if not x.is_complex():
        return None
    return draw.choice((lambda t: t.real, lambda t: t.imag, lambda t: torch.view_as_real(t.resolve_conj())))


def step_as_strided(draw, x):
    """Any window onto the storage, overlaps included."""
    room = x.untyped_storage().nbytes() // x.element_size()
    if room < 6:
        return None
    rank = draw.randrange(1, 4)
    sizes = [draw.randrange(1, 4) for _ in range(rank)]
    strides = [draw.randrange(0, 7) for _ in range(rank)]
    last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if last >= room:
        return None
    offset = draw.randrange(room - last)
    return lambda t: t.as_strided(sizes, strides, offset)


def step_dtype(draw, x):
    """The same bytes under another dtype."""
    if x.is_conj() or x.is_neg():
        return None
    targets = [torch.int8, torch.int16, torch.int32, torch.float32, torch.int64, torch.uint8, torch.bfloat16]
    target = draw.choice(targets)
    try:
        x.view(target)
    except RuntimeError:
        return None
    return lambda t: t.view(target)


STEPS = [
    step_slice, step_slice, step_select, step_narrow, step_transpose, step_permute, step_unsqueeze, step_squeeze, step_expand,
    step_reshape, step_unflatten, step_diagonal, step_unfold, step_split, step_chunk, step_unbind, step_movedim, step_conj,
    step_real, step_as_strided,
]  # fmt: skip


def draw_chain(draw, x, most, steps=STEPS):
    """Up to `most` steps; returns the functions and the CPU result."""
    functions = []
    for _ in range(draw.randrange(1, most + 1)):
        function = draw.choice(steps)(draw, x)
        if function is None:
            continue
        view = function(x)
        if view.numel() > 4000:
            continue
        functions.append(function)
        x = view
    return functions, x


def apply(functions, x):
    for function in functions:
        x = function(x)
    return x


def base_of(draw):
    kind = draw.randrange(6)
    if kind == 0:
        return torch.arange(120, dtype=torch.float32).view(4, 6, 5)
    if kind == 1:
        return torch.arange(24, dtype=torch.int64)
    if kind == 2:
        return torch.complex(torch.arange(24.0), -torch.arange(24.0)).view(4, 6)
    if kind == 3:
        return torch.arange(96, dtype=torch.float32).view(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    if kind == 4:
        return torch.arange(60, dtype=torch.float32).view(5, 12).t()
    return torch.arange(48, dtype=torch.int16).view(2, 4, 6)


def overlaps(x):
    """Some element of the storage is named twice."""
    return any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True)) or not is_injective(x)


def is_injective(x):
    positions = torch.zeros(x.shape, dtype=torch.int64)
    for d, (n, s) in enumerate(zip(x.shape, x.stride(), strict=True)):
        positions += (torch.arange(n) * s).view([-1] + [1] * (x.dim() - d - 1))
    return positions.unique().numel() == positions.numel()


@pytest.mark.parametrize("seed", range(80))
def test_reads(seed):
    draw = random.Random(seed)
    cpu, device = pair(base_of(draw))
    same_geometry(device, cpu)
    functions, want = draw_chain(draw, cpu, 5)
    got = apply(functions, device)
    same_geometry(got, want)
    same(got, want)
    assert got.untyped_storage()._cdata == device.untyped_storage()._cdata


WRITES = {
    "add_": lambda t: t.add_(3),
    "mul_": lambda t: t.mul_(2),
    "fill_": lambda t: t.fill_(7),
    "zero_": lambda t: t.zero_(),
    "copy_": lambda t: t.copy_(torch.arange(t.numel(), device=t.device).view(t.shape)),
    "masked_fill_": lambda t: t.masked_fill_(torch.arange(t.numel(), device=t.device).view(t.shape) % 2 == 0, 5),
    "index_put_": lambda t: t.index_put_(
        (torch.tensor([0, -1], device=t.device),), torch.tensor(9, device=t.device).to(t.dtype)
    ),
    "setitem": lambda t: t.__setitem__((Ellipsis, slice(None, None, 2)), 4),
}


@pytest.mark.parametrize("seed", range(100))
def test_writes(seed):
    draw = random.Random(1000 + seed)
    cpu, device = pair(base_of(draw))
    siblings, sibling_wanted = draw_chain(draw, cpu, 2)
    sibling = apply(siblings, device)
    functions, cpu_view = draw_chain(draw, cpu, 4)
    view = apply(functions, device)
    name = draw.choice(list(WRITES))
    if cpu_view.dim() == 0 and name in ("index_put_", "setitem"):
        name = "add_"
    if cpu_view.numel() == 0 and name == "index_put_":
        name = "zero_"
    if overlaps(cpu_view):
        # the CPU refuses what it can tell at once, and leaves the rest undefined
        if any(n > 1 and s == 0 for n, s in zip(cpu_view.shape, cpu_view.stride(), strict=True)):
            with pytest.raises(
                RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
            ):
                view.add_(1)
        return
    version, cpu_version = view._version, cpu_view._version
    WRITES[name](cpu_view)
    WRITES[name](view)
    assert view._version - version == cpu_view._version - cpu_version
    assert device._version == cpu._version
    same(view, cpu_view)
    same(device, cpu)
    same(sibling, sibling_wanted)


@pytest.mark.parametrize("seed", range(25))
def test_dtype_views(seed):
    """Storages under two dtypes, with offsets, read and written."""
    draw = random.Random(2000 + seed)
    cpu, device = pair(torch.arange(96, dtype=torch.int32).view(4, 6, 4))
    functions, cpu_view = draw_chain(draw, cpu, 4, [step_dtype, step_dtype, step_slice, step_select, step_transpose])
    view = apply(functions, device)
    same_geometry(view, cpu_view)
    same(view, cpu_view)
    cpu_view.fill_(3)
    view.fill_(3)
    same(device, cpu)


def test_dtype_view_pairs():
    bits = (torch.arange(128) * 37 % 124).to(torch.int8)  # no NaN of float8: a copy may change its payload
    for dtype in (torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.uint16, torch.int32, torch.float32,
                  torch.uint32, torch.int64, torch.float64, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2):  # fmt: skip
        cpu, device = pair(bits.abs() % 2 if dtype == torch.bool else bits)
        assert torch.equal(device.view(dtype).cpu().view(torch.int8), cpu), dtype
        part = 128 // 4
        assert torch.equal(device[part:].view(dtype).clone().cpu().view(torch.int8), cpu[part:]), dtype
        if dtype != torch.bool:
            back = cpu.view(dtype).to(DEVICE)
            assert torch.equal(back.view(torch.int8).cpu(), cpu), dtype
    z = torch.randn(6, dtype=torch.complex64)
    assert torch.equal(z.to(DEVICE).view(torch.float32).cpu(), z.view(torch.float32))
    assert torch.equal(z.to(DEVICE).view(torch.int16).cpu(), z.view(torch.int16))
    assert torch.equal(z.view(torch.float32).to(DEVICE)[2:].view(torch.complex64).cpu(), z[1:])


# ---- single cases ---------------------------------------------------------------------------------------------------


def test_high_rank():
    cpu, device = pair(torch.arange(2.0**12).view([2] * 12))
    same(device.permute(list(range(11, -1, -1))), cpu.permute(list(range(11, -1, -1))))
    same(device[1, :, 0, :, 1, :, 0], cpu[1, :, 0, :, 1, :, 0])
    cpu.transpose(0, 11)[1, :, 0].add_(1)
    device.transpose(0, 11)[1, :, 0].add_(1)
    same(device, cpu)
    many = torch.arange(8.0).view([1] * 20 + [2, 2, 2] + [1] * 20)
    same(many.to(DEVICE).flip(20).movedim(20, 0), many.flip(20).movedim(20, 0))


def test_flip_is_a_copy():
    cpu, device = pair(torch.arange(6.0))
    flipped = device.flip(0)
    flipped.add_(1)
    same(device, cpu)
    same(flipped, cpu.flip(0) + 1)


def test_empty_views():
    cpu, device = pair(torch.arange(12.0).view(3, 4))
    for f in (
        lambda t: t[3:],
        lambda t: t[:, 2:2],
        lambda t: t[0:0].t(),
        lambda t: t[1:1, 1:1].unsqueeze(0),
        lambda t: t.narrow(0, 3, 0),
    ):
        same_geometry(f(device), f(cpu))
        same(f(device), f(cpu))
        f(device).add_(1).fill_(2).copy_(f(device))
    same(device, cpu)
    empty = torch.empty(0, 3, device=DEVICE)
    assert empty.stride() == (3, 1)
    assert torch.empty(2, 0, 3, device=DEVICE).transpose(0, 2).stride() == torch.empty(2, 0, 3).transpose(0, 2).stride()
    assert empty.sum().item() == 0
    assert empty.sum(1).shape == (0,)
    assert torch.cat([empty, torch.ones(1, 3, device=DEVICE)]).tolist() == [[1, 1, 1]]


def test_zero_dim():
    cpu, device = pair(torch.arange(12.0).view(3, 4))
    for f in (lambda t: t[1, 2], lambda t: t.flatten()[5], lambda t: t[2][3].view(()), lambda t: t.diagonal()[1]):
        same_geometry(f(device), f(cpu))
        same(f(device), f(cpu))
        f(device).add_(10)
        f(cpu).add_(10)
        same(device, cpu)
    x = torch.tensor(3.0, device=DEVICE)
    same(x.expand(4).contiguous(), torch.full((4,), 3.0))
    same(x.view(1, 1).t(), torch.full((1, 1), 3.0))
    x.unsqueeze(0)[0] = 5
    assert x.item() == 5


def test_uninitialised_storage():
    """Memory that was never written may be read, and written in parts."""
    x = torch.empty(4, 5, device=DEVICE)
    assert x.cpu().shape == (4, 5)
    assert x.t()[1:3].clone().shape == (2, 4)
    y = torch.empty(4, 5, device=DEVICE)
    for i in range(4):
        y[i] = i
    same(y, torch.arange(4.0).view(4, 1).expand(4, 5))
    z = torch.empty_strided((3, 4), (1, 3), device=DEVICE)
    z.t()[1] = 1
    z[:, 0] = 2
    assert z[:, :2].tolist() == [[2, 1]] * 3
    gaps = torch.empty_strided((3, 4), (8, 2), device=DEVICE)
    assert gaps.untyped_storage().nbytes() == torch.empty_strided((3, 4), (8, 2)).untyped_storage().nbytes()
    gaps.copy_(torch.arange(12.0).view(3, 4))
    same(gaps, torch.arange(12.0).view(3, 4))
    typed = torch.empty(8, dtype=torch.int32, device=DEVICE)
    typed.view(torch.float32).fill_(1)
    assert typed.tolist() == [0x3F800000] * 8


def test_channels_last():
    cpu, device = pair(torch.arange(96.0).view(2, 3, 4, 4).to(memory_format=torch.channels_last))
    assert device.is_contiguous(memory_format=torch.channels_last)
    for f in (
        lambda t: t.contiguous(),
        lambda t: t + 1,
        lambda t: t.clone(),
        lambda t: torch.empty_like(t).copy_(t),
        lambda t: t.clone(memory_format=torch.contiguous_format),
        lambda t: t.contiguous().to(memory_format=torch.channels_last),
        lambda t: t * torch.ones(3, 1, 1, device=t.device),
        lambda t: t.permute(0, 2, 3, 1),
    ):
        same_geometry(f(device), f(cpu))
        same(f(device), f(cpu))
    cpu[:, 1].mul_(2)
    device[:, 1].mul_(2)
    same(device, cpu)


def test_result_strides_follow_operands():
    cpu, device = pair(torch.arange(24.0).view(2, 3, 4))
    for f in (
        lambda t: t.transpose(0, 2) + 1,
        lambda t: t.permute(1, 0, 2).exp(),
        lambda t: t.permute(1, 0, 2) + t.permute(1, 0, 2),
        lambda t: t.transpose(1, 2) * t.transpose(1, 2).contiguous(),
        lambda t: t.transpose(1, 2).contiguous() * t.transpose(1, 2),
        lambda t: t[:, ::2].neg(),
        lambda t: t[:, :1].expand(2, 3, 4) + 1,
        lambda t: torch.zeros_like(t.permute(2, 0, 1)),
        lambda t: t.permute(2, 0, 1).clone(),
        lambda t: torch.where(t.permute(2, 0, 1) > 3, t.permute(2, 0, 1), 0.0),
        lambda t: t.t() if t.dim() == 2 else t[0].t() > 1,
    ):
        same_geometry(f(device), f(cpu))


def test_windows_that_overlap():
    cpu, device = pair(torch.arange(10.0))
    same(device.unfold(0, 4, 2), cpu.unfold(0, 4, 2))
    same(device.as_strided((3, 2, 2), (2, 1, 2), 1), cpu.as_strided((3, 2, 2), (2, 1, 2), 1))
    for f in (lambda t: t.expand(3, 10), lambda t: t.as_strided((2, 5), (0, 1))):
        for write in (
            lambda t: t.add_(1),
            lambda t: t.fill_(1),
            lambda t: t.copy_(torch.zeros(t.shape)),
            lambda t: t.zero_(),
        ):
            with pytest.raises(RuntimeError, match="single memory location"):
                write(f(device))
    same(device, cpu)


def test_partial_overlap_of_operands():
    device = torch.arange(10.0, device=DEVICE)
    with pytest.raises(RuntimeError, match="single memory location"):
        device[:-1].add_(device[1:])
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(device[:-1], 1, out=device[1:])
    same(device, torch.arange(10.0))
    device[:5].add_(device[5:])  # disjoint parts
    same(device, torch.tensor([5.0, 7, 9, 11, 13, 5, 6, 7, 8, 9]))


def test_resized_storages():
    cpu, device = pair(torch.arange(6.0))
    view, cpu_view = device.view(2, 3), cpu.view(2, 3)
    device.resize_(10)
    cpu.resize_(10)
    device[6:] = 1
    cpu[6:] = 1
    same(device, cpu)
    same(view, cpu_view)
    view.add_(1)
    cpu_view.add_(1)
    same(device, cpu)
    device.resize_(2, 2)
    cpu.resize_(2, 2)
    same(device, cpu)
    storage = device.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(16)
    device.fill_(3)
    same(device, torch.full((2, 2), 3.0))


def test_storages_with_bytes_left_over():
    for device in ("cpu", DEVICE):
        raw = torch.arange(11, dtype=torch.uint8, device=device)
        raw[:8].view(torch.float32).fill_(1)
        assert raw.tolist() == [0, 0, 128, 63] * 2 + [8, 9, 10]
        assert raw[4:8].view(torch.int32).item() == 0x3F800000
        assert (raw[4:8].view(torch.int32) + 1).item() == 0x3F800001
        storage = torch.UntypedStorage(10, device=device)
        x = torch.empty(0, device=device).set_(storage, 0, (2,), (1,))
        assert x.fill_(3).tolist() == [3, 3] and storage.nbytes() == 10


def test_storages_that_are_too_small():
    x = torch.arange(6.0, device=DEVICE)
    x.untyped_storage().resize_(12)
    assert x[:3].tolist() == [0, 1, 2]
    for use in (
        lambda: x + 1,
        lambda: x.add_(1),
        lambda: x.cpu(),
        lambda: x.copy_(torch.ones(6)),
        lambda: x[4:].clone(),
    ):
        with pytest.raises(RuntimeError):
            use()
    x.untyped_storage().resize_(24)
    x[3:] = 7
    assert x.tolist() == [0, 1, 2, 7, 7, 7]


ORDERED = {
    "median": lambda x, dim: x.median(dim).values,
    "nanmedian": lambda x, dim: x.nanmedian(dim).values,
    "masked median": lambda x, dim: torch.masked.median(x, dim),
    "median of all": lambda x, dim: x.median(),
    "kthvalue": lambda x, dim: x.kthvalue(2, dim).values,
    "mode": lambda x, dim: x.mode(dim).values,
    "quantile": lambda x, dim: x.quantile(0.3, dim),
    "sort": lambda x, dim: x.sort(dim).values,
    "topk": lambda x, dim: x.topk(2, dim).values,
    "argsort": lambda x, dim: x.argsort(stable=True, dim=dim),
    "cummax": lambda x, dim: x.cummax(dim).values,
    "max": lambda x, dim: x.max(dim).values,
    "unique": lambda x, dim: x.unique(dim=dim),
    "msort": lambda x, dim: x.msort(),
}


@pytest.mark.parametrize("operation", ORDERED.values(), ids=ORDERED)
def test_order_statistics_of_expanded_operands(operation):
    """Against the CPU's on a copy: its median along a dimension reads beside an operand whose elements share memory."""
    base = torch.tensor([[-8.0, -4.0, 3.0, 9.0, 1.0], [2.0, torch.nan, -1.0, 0.0, 5.0], [7.0, 6.0, 0.5, -3.0, 4.0]])
    ours = base.to("tpu")
    views = [
        lambda x: x[0, :1].expand(5),
        lambda x: x[:1].expand(4, 5),
        lambda x: x[:, None].expand(3, 4, 5),
        lambda x: x.t()[2:3].expand(4, 3),
    ]
    for i, view in enumerate(views):
        for dim in range(view(base).dim()):
            want, got = (
                operation(view(base).clone(memory_format=torch.contiguous_format), dim),
                operation(view(ours), dim),
            )
            torch.testing.assert_close(
                got.cpu(), want, equal_nan=True, msg=lambda text, i=i, dim=dim: f"{i} {dim} {text}"
            )


def test_real_and_imaginary_parts():
    cpu, device = pair(torch.complex(torch.arange(6.0), 10 + torch.arange(6.0)).view(2, 3))
    for f in (
        lambda t: t.real,
        lambda t: t.imag,
        lambda t: torch.view_as_real(t),
        lambda t: t.conj().imag,
        lambda t: t.t().conj(),
        lambda t: t.conj().imag.neg(),
        lambda t: t[:, 1:].conj().real,
    ):
        same(f(device), f(cpu))
    for write in (
        lambda t: t.imag.mul_(2),
        lambda t: t.conj().add_(1j),
        lambda t: t.conj().imag.fill_(4),
        lambda t: torch.view_as_real(t)[..., 0].zero_(),
        lambda t: t.conj()[0].copy_(torch.tensor([1 + 1j, 2 + 2j, 3 - 1j])),
        lambda t: t.copy_(t.clone().conj()),
        lambda t: t[1].conj().mul_(t[0].conj()),
    ):
        write(cpu)
        write(device)
        same(device, cpu)
    assert device.conj().is_conj() and not device.conj().resolve_conj().is_conj()
    assert device.conj()[0, 1].item() == cpu.conj()[0, 1].item()
    assert torch._neg_view(device.real).is_neg()
    same(torch._neg_view(device.real), torch._neg_view(cpu.real))


def test_views_keep_their_base_in_view_after_synchronisation():
    base = torch.zeros(1, 10, device=DEVICE)
    view = base.view(10, 1)
    torch.tpu.synchronize()
    view[0, 0] = 1
    assert base[0, 0].item() == 1
    base[0, 3] = 2
    assert view[3, 0].item() == 2


def test_what_is_the_same_tensor():
    x = torch.arange(6.0, device=DEVICE)
    assert x.is_set_to(x) and x.is_set_to(x[:]) and not x.is_set_to(x[1:]) and not x.is_set_to(x.clone())
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[1:])
    assert torch.equal(x[:0], x[3:3]) and torch.equal(x[::2], x.view(3, 2)[:, 0])
    nan = torch.tensor([float("nan")], device=DEVICE)
    assert torch.equal(nan, nan) == torch.equal(nan.cpu(), nan.cpu())
    with pytest.raises(RuntimeError, match="data type"):
        torch.equal(x, x.double())
    with pytest.raises(RuntimeError, match="device"):
        torch.equal(x, x.cpu())
    z = torch.complex(x, x)
    assert torch.equal(z.conj(), torch.complex(x, -x)) and torch.equal(z.clone().conj_physical_(), z.conj())
    assert "aten::equal" not in torch.tpu.fallbacks()


def test_addresses():
    x = torch.empty(10, device=DEVICE)
    y = torch.empty(10, device=DEVICE)
    assert x.data_ptr() != y.data_ptr()
    assert x.data_ptr() == x.view(2, 5).data_ptr()
    assert x[3:].data_ptr() == x.data_ptr() + 12
    before = x.data_ptr()
    x.add_(1)
    assert x.data_ptr() == before
