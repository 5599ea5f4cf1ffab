"""How results lie in memory: channels_last goes in, and comes out where it does on the CPU."""

import pytest
import torch
import torch.nn.functional as F

DEVICE = "tpu"
IMAGES = torch.linspace(-1, 1, 2 * 6 * 4 * 4).view(2, 6, 4, 4).contiguous(memory_format=torch.channels_last)
VOLUMES = torch.linspace(-1, 1, 2 * 6 * 4 * 4 * 4).view(2, 6, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d)


def zeros_like(x):
    return torch.zeros(x.shape, dtype=torch.long, device=x.device)


def two(x):
    return torch.tensor([0, 1], device=x.device)


BOTH = {
    "batch_norm that keeps statistics": lambda x: F.batch_norm(x, *torch.ones(2, 6, device=x.device), training=True),
    "batch_norm of its own statistics": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm in evaluation": lambda x: F.batch_norm(x, *torch.ones(2, 6, device=x.device)),
    "roll": lambda x: x.roll(1, 1),
    "roll of two dimensions": lambda x: x.roll((1, -1), (2, 0)),
    "roll by nothing": lambda x: x.roll(0, 1),
    "roll once around": lambda x: x.roll((1, 12), (0, 1)),
    "roll of all as one row": lambda x: x.roll(1),
    "roll of a transpose": lambda x: x.transpose(0, 1).roll(1, 0),
    "rot90": lambda x: x.rot90(1, (2, 3)),
    "fftshift": lambda x: torch.fft.fftshift(x.transpose(2, 3)),
    "cat": lambda x: [torch.cat([x, x, x], dim) for dim in range(x.dim())],
    "cat with rows behind": lambda x: torch.cat([x, x.contiguous()]),
    "cat with rows in front": lambda x: torch.cat([x.contiguous(), x]),
    "cat with rows after many": lambda x: torch.cat([x] * 20 + [x.contiguous()]),
    "cat with nothing": lambda x: torch.cat([x, torch.empty(0, device=x.device)]),
    "cat of transposes": lambda x: torch.cat([x.transpose(0, 1)] * 2),
    "cat of dtypes": lambda x: torch.cat([x, x.double()]),
    "stack": lambda x: [torch.stack([x, x], dim) for dim in range(-1, x.dim())],
    "stack with rows": lambda x: torch.stack([x, x.contiguous()]),
    "vstack": lambda x: torch.vstack([x, x]),
    "dstack": lambda x: torch.dstack([x, x]),
    "angle": lambda x: x.angle(),
    "angle of complex": lambda x: torch.complex(x, x).angle(),
    "angle of a transpose": lambda x: [x.transpose(0, 1).angle(), torch.complex(x, x).transpose(0, 1).angle()],
    "abs of complex": lambda x: torch.complex(x, x).abs(),
    "nonzero": lambda x: (x > 0).nonzero(),
    "nonzero as a tuple": lambda x: (x > 0).nonzero(as_tuple=True),
    "argwhere": lambda x: torch.argwhere(x > 0),
    "glu": lambda x: F.glu(x, 1),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 3),
    "slice_scatter": lambda x: x.slice_scatter(x[:1], 0, 0, 1),
    "select_scatter": lambda x: x.select_scatter(x[0], 0, 0),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x.diagonal()),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "masked_fill by a tensor": lambda x: x.masked_fill(x > 0, torch.ones((), device=x.device)),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "scatter": lambda x: x.scatter(1, zeros_like(x), x),
    "scatter of a number": lambda x: x.scatter(1, zeros_like(x), 1.0),
    "scatter_add": lambda x: x.scatter_add(1, zeros_like(x), x),
    "scatter_reduce": lambda x: x.scatter_reduce(1, zeros_like(x), x, "amax"),
    "index_add": lambda x: x.index_add(1, two(x), x[:, :2]),
    "index_copy": lambda x: x.index_copy(1, two(x), x[:, :2]),
    "index_reduce": lambda x: x.index_reduce(1, two(x), x[:, :2], "amax"),
    "index_fill": lambda x: x.index_fill(1, two(x), 2.0),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, 3),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, 3, return_indices=True),
}
OF_IMAGES = {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :4].contiguous(memory_format=torch.channels_last), 1),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 3),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "conv2d": lambda x: F.conv2d(x, torch.ones(4, 6, 1, 1, device=x.device)),
    "group_norm": lambda x: F.group_norm(x, 3),
}
OF_VOLUMES = {
    "max_pool3d": lambda x: F.max_pool3d(x, 2, return_indices=True),
    "max_unpool3d": lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2),
}


@pytest.mark.parametrize(
    ("x", "operation"),
    [(x, operation) for x in (IMAGES, VOLUMES) for operation in BOTH.values()]
    + [(IMAGES, operation) for operation in OF_IMAGES.values()]
    + [(VOLUMES, operation) for operation in OF_VOLUMES.values()],
    ids=[f"{name} of {what}" for what in ("images", "volumes") for name in BOTH] + [*OF_IMAGES, *OF_VOLUMES],
)
def test_order_is_the_cpus(x, operation):
    want, got = operation(x), operation(x.to(DEVICE))
    for a, b in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (want, got)), strict=True):
        assert a.stride() == b.stride()
        torch.testing.assert_close(b.cpu(), a)


SPECTRA = {
    "fft": lambda x: torch.fft.fft(x, dim=0),
    "fft of complex": lambda x: torch.fft.fft(torch.complex(x, x), dim=1),
    "fft2": lambda x: torch.fft.fft2(torch.complex(x, x), dim=(0, 2)),
    "fftn": lambda x: torch.fft.fftn(x, dim=(2, 0, 1)),
    "fftn of complex": lambda x: torch.fft.fftn(torch.complex(x, x).transpose(0, 2)),
    "ifft": lambda x: torch.fft.ifft(x, dim=1),
    "rfft": lambda x: torch.fft.rfft(x, dim=1),
    "rfft2": lambda x: torch.fft.rfft2(x.transpose(0, 1), dim=(1, 0)),
    "irfft": lambda x: torch.fft.irfft(torch.complex(x, x), dim=0),
    "irfftn": lambda x: torch.fft.irfftn(torch.complex(x, x), dim=(2, 0)),
    "hfft": lambda x: torch.fft.hfft(torch.complex(x, x), dim=1),
}


@pytest.mark.parametrize("transform", SPECTRA.values(), ids=SPECTRA)
def test_spectra_lie_as_the_cpus(transform):
    x = torch.linspace(-1, 1, 3 * 4 * 5).view(3, 4, 5)
    want, got = transform(x), transform(x.to(DEVICE))
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_unsafe_splits_are_views():
    """As on the CPU: the parts share the whole's memory, and nothing is copied."""
    x = torch.arange(12.0, device=DEVICE).view(3, 4)
    launches = torch.tpu.compile_stats()["launches"]
    parts = [*x.unsafe_split(2), *x.unsafe_chunk(2, 1), *x.unsafe_split_with_sizes([1, 3], 1)]
    reshaped = torch.ops.aten._unsafe_view(x, [4, 3])
    assert torch.tpu.compile_stats()["launches"] == launches
    assert all(part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for part in [*parts, reshaped])
    assert [part.tolist() for part in parts] == [
        part.tolist() for part in [*x.cpu().split(2), *x.cpu().chunk(2, 1), *x.cpu().split([1, 3], 1)]
    ]
