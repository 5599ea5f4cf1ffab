"""Simulated quantisation and products of quantised matrices: values, masks, gradients and errors are the CPU's."""

import pytest
import torch
import twins
from twins import DEVICE

aten = torch.ops.aten
inf, nan = torch.inf, torch.nan
X = torch.tensor([-3.0, -0.25, 0.25, 0.3, 0.35, 2.5, 1e30, nan, inf, -inf])
SCALES, POINTS = torch.tensor([0.1, 0.5]), torch.tensor([3, 0], dtype=torch.int32)
LOW, HIGH = -8, 7


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def agree(call, *operands, **tolerance):
    """The results are the CPU's, or the type of the exception is."""
    try:
        call(*operands)
    except Exception as error:
        with pytest.raises(type(error)):
            call(*twins.moved(operands))
            torch.tpu.synchronize()
        return
    twins.agree(call, *operands, **tolerance)


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zero_point", [3, -8, 7, 30, -9])
def test_per_tensor(dtype, zero_point):
    x = X.to(dtype)
    agree(aten.fake_quantize_per_tensor_affine_cachemask, x, 0.1, zero_point, LOW, HIGH)
    agree(aten.fake_quantize_per_tensor_affine_cachemask, x, 0.3, 0, 0, 255)
    agree(aten.fake_quantize_per_tensor_affine_cachemask, x, 0.3, 8, HIGH + 1, HIGH)
    point = torch.tensor([zero_point], dtype=torch.int32)
    if LOW <= zero_point <= HIGH:
        for on in (0, 1):
            operands = x, SCALES[:1], point, torch.tensor([on])
            agree(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams, *operands, LOW, HIGH)


@pytest.mark.parametrize("dtype", FLOATS)
def test_per_channel(dtype):
    x = X.to(dtype).view(2, 5)
    op = aten.fake_quantize_per_channel_affine_cachemask
    agree(op, x, SCALES, POINTS, 0, LOW, HIGH)
    agree(op, x.t().contiguous(), SCALES, POINTS, 1, LOW, HIGH)
    agree(op, x.t(), SCALES, POINTS, 1, LOW, HIGH)
    agree(op, x.view(1, 2, 5), SCALES, POINTS, 1, LOW, HIGH)
    agree(op, x, SCALES, torch.tensor([3.2, 0.5]), 0, LOW, HIGH)


def test_bad_parameters():
    x = X.view(2, 5)
    op = aten.fake_quantize_per_channel_affine_cachemask
    agree(op, x, SCALES, POINTS, 2, LOW, HIGH)
    agree(op, x, SCALES, POINTS, 1, LOW, HIGH)
    agree(op, x, SCALES, POINTS, 0, HIGH, LOW)
    agree(op, x, SCALES, POINTS + 20, 0, LOW, HIGH)
    agree(op, x, SCALES.double(), POINTS, 0, LOW, HIGH)
    agree(op, x, SCALES, POINTS.long(), 0, LOW, HIGH)


@pytest.mark.parametrize("zero_point", [2.4, 2.5, 2.6, 3.5, -2.5, -2.6, 30.0, -30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_learnable(zero_point, dtype):
    """Zero points between the integers: each of the four kernels rounds them in its own way."""
    x, point = X[:6].to(dtype), torch.tensor([zero_point])
    grad = torch.linspace(-1, 1, 6, dtype=dtype)
    agree(aten._fake_quantize_learnable_per_tensor_affine, x, SCALES[:1], point, LOW, HIGH, 0.5)
    agree(
        aten._fake_quantize_learnable_per_tensor_affine_backward,
        grad,
        x,
        SCALES[:1],
        point,
        LOW,
        HIGH,
        0.5,
        rtol=1e-5,
        atol=1e-6,
    )
    x, grad, points = x.view(3, 2), grad.view(3, 2), torch.tensor([zero_point, 1.0])
    agree(aten._fake_quantize_learnable_per_channel_affine, x, SCALES, points, 1, LOW, HIGH, 0.5)
    agree(
        aten._fake_quantize_learnable_per_channel_affine_backward,
        grad,
        x,
        SCALES,
        points,
        1,
        LOW,
        HIGH,
        0.5,
        rtol=1e-5,
        atol=1e-6,
    )


def test_gradients():
    def gradients(device):
        x = X[:6].to(device).requires_grad_()
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, LOW, HIGH).square().sum().backward()
        y = X[:6].view(2, 3).to(device).requires_grad_()
        torch.fake_quantize_per_channel_affine(y, SCALES.to(device), POINTS.to(device), 0, LOW, HIGH).sum().backward()
        return x.grad, y.grad

    for a, b in zip(gradients("cpu"), gradients(DEVICE), strict=True):
        torch.testing.assert_close(b.cpu(), a)


def test_a_changing_scale_compiles_nothing():
    x = X.to(DEVICE)
    for i in range(4):
        if i == 3:
            before = torch.tpu.compile_stats()["programs"]
        aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1 + i, i, LOW, HIGH)
    assert torch.tpu.compile_stats()["programs"] == before


def test_int8_weights():
    torch.manual_seed(0)
    weight, scales = torch.randint(-128, 128, (32, 64), dtype=torch.int8), torch.rand(32)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 1e-3)):
        x = torch.randn(4, 64).to(dtype)
        agree(torch._weight_int8pack_mm, x, weight, scales.to(dtype), rtol=bound, atol=bound)
    agree(torch._weight_int8pack_mm, x[None], weight, scales)
    agree(torch._weight_int8pack_mm, x[:, :32], weight, scales)
    agree(torch._weight_int8pack_mm, x, weight, scales[:4])
    agree(torch._weight_int8pack_mm, x, weight.int(), scales)
    agree(torch._weight_int8pack_mm, x.double(), weight, scales)


FLOAT8 = torch.float8_e4m3fn


@pytest.mark.parametrize("out", [None, torch.float32, torch.bfloat16, torch.float16, FLOAT8])
def test_scaled_product(out):
    torch.manual_seed(0)
    a, b = torch.randn(16, 32).to(FLOAT8), torch.randn(8, 32).to(FLOAT8).t()
    one, bound = torch.tensor(2.0), 1e-6 if out == torch.float32 else 0
    for scale_a, scale_b in ((one, one * 0.25), (torch.rand(16, 1) + 0.5, torch.rand(1, 8) + 0.5)):
        agree(torch._scaled_mm, a, b, scale_a, scale_b, None, None, out, rtol=1e-2, atol=1e-5)
    agree(torch._scaled_mm, a.to(torch.float8_e5m2), b, one, one, None, None, out, rtol=1e-2, atol=1e-5)
    agree(torch._scaled_mm, a, b, one, one, None, torch.tensor(0.25), out, rtol=bound, atol=bound)
    agree(torch._scaled_mm, a, b, one, one, torch.ones(8), None, torch.float32)


def test_scaled_product_refuses():
    a, b, one = torch.ones(3, 5).to(FLOAT8), torch.ones(5, 7).to(FLOAT8), torch.tensor(1.0)
    agree(torch._scaled_mm, a, b, one, one, None, None, torch.float32)
    agree(torch._scaled_mm, a, b[:4], one, one, None, None, torch.float32)
    agree(torch._scaled_mm, a.float(), b.float(), one, one, None, None, torch.float32)
    agree(torch._scaled_mm, a, b, torch.ones(4, 1), torch.ones(1, 7), None, None, torch.float32)
