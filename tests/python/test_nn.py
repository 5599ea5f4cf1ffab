"""The operators of neural networks: modules and functions run forward and backward on the device and on the CPU, which is
the judge. What PyTorch's operator database covers is not repeated: this is about wholes (modules with state), corners
(labels to ignore, windows that overhang, rows that see nothing) and errors."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "tpu"


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch.manual_seed(0)
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def to_device(value):
    return value.detach().to(DEVICE).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def check(function, *arguments, tolerance=1e-4, **options):
    """Values, types and the gradients of all arguments that want one agree."""
    ours = [to_device(a) for a in arguments]
    our_options = {name: to_device(value) for name, value in options.items()}
    want, got = function(*arguments, **options), function(*ours, **our_options)
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not want.requires_grad:
        return
    weight = torch.randn_like(want)
    want.backward(weight)
    got.backward(weight.to(DEVICE))
    for a, b in zip(arguments, ours, strict=True):
        if isinstance(a, torch.Tensor) and a.requires_grad:
            torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=tolerance, atol=tolerance)


def check_module(module, *arguments, tolerance=1e-4):
    """The same with the gradients of parameters, and the module's buffers afterwards."""
    module.zero_grad()
    ours = copy.deepcopy(module).to(DEVICE)

    def first(result):
        return result[0] if isinstance(result, tuple) else result

    our_arguments = [to_device(a) for a in arguments]
    want, got = first(module(*arguments)), first(ours(*our_arguments))
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)
    want.square().sum().backward()
    got.square().sum().backward()
    pairs = list(zip(module.parameters(), ours.parameters(), strict=True)) + list(
        zip(arguments, our_arguments, strict=True)
    )
    for a, b in pairs:
        if a.grad is not None:
            torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=10 * tolerance, atol=10 * tolerance)
    for a, b in zip(module.buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=tolerance, atol=tolerance)


# ---- convolution ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_convolution(dimensions, transposed, groups):
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dimensions}d")
    options = {"output_padding": 1} if transposed else {}
    module = kind(4, 8, 3, stride=2, padding=1, dilation=2, groups=groups, **options)
    check_module(module, leaf(2, 4, *(6, 7, 8)[:dimensions]))


def test_convolution_crops_what_a_large_output_padding_adds():
    check_module(nn.ConvTranspose2d(2, 3, 3, dilation=3, output_padding=2), leaf(1, 2, 5, 5))


def test_convolution_of_an_empty_batch():
    check(F.conv2d, leaf(0, 3, 5, 5), leaf(4, 3, 2, 2), torch.zeros(4).requires_grad_())


def test_convolution_keeps_channels_last():
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 3, 3)
    want, got = F.conv2d(x, weight), F.conv2d(x.to(DEVICE), weight.to(DEVICE))
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape, message", [((1, 2, 5, 5), "channels"), ((1, 3, 2, 2), "greater than actual input size")]
)
def test_convolution_says_what_does_not_fit(shape, message):
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(torch.ones(shape, device=DEVICE), torch.ones(4, 3, 3, 3, device=DEVICE))


# ---- pooling and interpolation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 9, 10), (3, 9, 10)])
def test_max_pool(ceil_mode, shape):
    x = torch.randn(shape).mul(2).round().requires_grad_()  # with equal elements: the first one wins
    check(F.max_pool2d, x, kernel_size=3, stride=2, padding=1, ceil_mode=ceil_mode)
    _, places = F.max_pool2d(x, 3, 2, 1, ceil_mode=ceil_mode, return_indices=True)
    _, ours = F.max_pool2d(x.detach().to(DEVICE), 3, 2, 1, ceil_mode=ceil_mode, return_indices=True)
    assert torch.equal(ours.cpu(), places)


def test_max_pool_carries_nan_and_takes_minus_infinity():
    x = torch.full((1, 1, 6, 6), -float("inf"))
    x[0, 0, 3, 3] = float("nan")
    want, places = F.max_pool2d(x, 2, return_indices=True)
    got, ours = F.max_pool2d(x.to(DEVICE), 2, return_indices=True)
    torch.testing.assert_close(got.cpu(), want, equal_nan=True)
    assert torch.equal(ours.cpu(), places)


def test_max_pool_with_a_large_kernel_scatters_its_gradient():
    check(F.max_pool2d, leaf(1, 2, 16, 16), kernel_size=7, stride=3, padding=3)


@pytest.mark.parametrize("options", [{"count_include_pad": False}, {"divisor_override": 3}, {"ceil_mode": True}])
def test_avg_pool(options):
    check(F.avg_pool2d, leaf(2, 3, 9, 10), kernel_size=3, stride=2, padding=1, **options)


@pytest.mark.parametrize("size", [1, (3, 5), (12, 4)])
def test_adaptive_pool(size):
    check(F.adaptive_avg_pool2d, leaf(2, 3, 9, 10), output_size=size)
    check(F.adaptive_max_pool2d, leaf(2, 3, 9, 10), output_size=size)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(10, 14), (3, 11)])
def test_interpolate(mode, size):
    check(F.interpolate, leaf(2, 3, 5, 7), size=size, mode=mode)
    if mode.startswith("bi"):
        check(F.interpolate, leaf(2, 3, 5, 7), size=size, mode=mode, align_corners=True)
        check(F.interpolate, leaf(2, 3, 5, 7), size=size, mode=mode, antialias=True)


@pytest.mark.parametrize(
    "mode, padding",
    [
        ("bilinear", "zeros"),
        ("bilinear", "reflection"),
        ("nearest", "border"),
        ("bicubic", "zeros"),
        ("bicubic", "reflection"),
    ],
)
def test_grid_sample(mode, padding):
    grid = (torch.rand(2, 6, 3, 2) * 3 - 1.5).requires_grad_()
    check(F.grid_sample, leaf(2, 3, 4, 5), grid, mode=mode, padding_mode=padding, align_corners=False, tolerance=1e-3)


# ---- normalisation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("tracked", [False, True])
def test_batch_norm_trains_then_evaluates(affine, tracked):
    module = nn.BatchNorm2d(3, affine=affine, track_running_stats=tracked)
    for _ in range(2):
        check_module(module, leaf(4, 3, 5, 6))
    if tracked:
        assert module.num_batches_tracked == 2
    check_module(module.eval(), leaf(4, 3, 5, 6))


def test_batch_norm_updates_the_tensors_that_it_was_given():
    mean, var = torch.zeros(3, device=DEVICE), torch.ones(3, device=DEVICE)
    alias = mean.view(3, 1)
    F.batch_norm(torch.randn(8, 3, device=DEVICE) + 5, mean, var, training=True, momentum=0.5)
    assert mean.min() > 1
    assert torch.equal(alias.flatten().cpu(), mean.cpu())


def test_layer_norm_keeps_digits_far_from_zero():
    x = (torch.randn(4, 256) + 1000).requires_grad_()
    check(F.layer_norm, x, (256,), leaf(256), leaf(256), tolerance=1e-3)


@pytest.mark.parametrize(
    "module", [nn.GroupNorm(2, 6), nn.InstanceNorm2d(6, affine=True), nn.LayerNorm((6, 4, 5)), nn.RMSNorm(5)]
)
def test_norms(module):
    check_module(module, leaf(2, 6, 4, 5))


def test_layer_norm_says_which_shape_it_wants():
    with pytest.raises(RuntimeError, match=r"Given normalized_shape=\[3\], expected input with shape \[\*, 3\]"):
        F.layer_norm(torch.ones(2, 4, device=DEVICE), (3,))


# ---- attention ------------------------------------------------------------------------------------------------------


def is_fused(result):
    return "FusedAttention" in type(result.grad_fn).__name__


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("case", ["plain", "causal", "scaled", "boolean", "bias"])
def test_attention(kv_heads, case):
    query, key, value = leaf(2, 4, 5, 8), leaf(2, kv_heads, 5, 8), leaf(2, kv_heads, 5, 6)
    mask = {"boolean": torch.rand(2, 1, 5, 5) > 0.7, "bias": leaf(4, 5, 5)}.get(case)

    def attention(q, k, v, m):
        return F.scaled_dot_product_attention(
            q, k, v, m, is_causal=case == "causal", scale=0.3 if case == "scaled" else None, enable_gqa=kv_heads != 4
        )

    assert is_fused(attention(*map(to_device, (query, key, value, mask))))
    check(attention, query, key, value, mask)


def test_attention_of_a_row_that_sees_nothing_is_zero():
    query, key, value = leaf(1, 1, 2, 4), leaf(1, 1, 3, 4), leaf(1, 1, 3, 4)
    mask = torch.tensor([[True, False, True], [False, False, False]])
    check(F.scaled_dot_product_attention, query, key, value, mask)


def test_attention_drops_the_same_in_both_directions():
    """With value = identity the output is the dropped matrix of probabilities, and the gradient of value its transpose."""
    query, key = torch.randn(1, 1, 16, 8, device=DEVICE), torch.randn(1, 1, 16, 8, device=DEVICE)
    value = torch.eye(16, device=DEVICE).reshape(1, 1, 16, 16).requires_grad_()
    output = F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert is_fused(output)
    output.backward(torch.eye(16, device=DEVICE).reshape(1, 1, 16, 16))
    torch.testing.assert_close(value.grad.cpu(), output.detach().cpu().transpose(2, 3))
    whole = F.scaled_dot_product_attention(query, key, value.detach()).cpu()
    kept = output.detach().cpu() != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(output.detach().cpu()[kept], 2 * whole[kept], rtol=1e-4, atol=1e-6)


def test_attention_that_does_not_fit_the_fused_row_runs_all_the_same():
    check(F.scaled_dot_product_attention, leaf(4, 5, 8), leaf(4, 6, 8), leaf(4, 6, 8))
    check(F.scaled_dot_product_attention, leaf(2, 4, 5, 8), leaf(1, 4, 5, 8), leaf(1, 4, 5, 8))


# ---- losses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(reduction, weighted):
    weight = torch.rand(7) if weighted else None
    labels = torch.tensor([1, 2, -100, 0, 6])
    check(F.cross_entropy, leaf(5, 7), labels, weight=weight, reduction=reduction)
    check(
        F.cross_entropy,
        leaf(2, 7, 3, 4),
        torch.randint(0, 7, (2, 3, 4)),
        weight=weight,
        reduction=reduction,
        ignore_index=3,
    )
    check(F.cross_entropy, leaf(7), torch.tensor(3), weight=weight, reduction=reduction)


def test_cross_entropy_of_nothing_is_nan():
    check(F.cross_entropy, leaf(3, 5), torch.full((3,), -100), reduction="mean")


def test_cross_entropy_reports_a_label_out_of_range():
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        F.cross_entropy(torch.randn(2, 5, device=DEVICE), torch.tensor([1, 7], device=DEVICE)).item()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_elementwise_losses(reduction):
    x, target = leaf(4, 5), torch.randn(4, 5)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        check(loss, x, target, reduction=reduction)
        x.grad = None
    probability = torch.rand(4, 5)
    probability[0, 0], probability[0, 1] = 0, 1  # their logarithms are held at -100
    check(F.binary_cross_entropy, probability.requires_grad_(), torch.rand(4, 5), reduction=reduction)


# ---- recurrent layers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bias", [False, True])
def test_recurrent_layers(kind, bias):
    check_module(kind(5, 7, num_layers=2, bias=bias, bidirectional=True, batch_first=True), leaf(3, 4, 5))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_recurrent_cells(kind):
    check_module(kind(5, 7), leaf(3, 5))


# ---- half precision -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_computed_in_float32_and_rounded_once(dtype):
    """The result is the rounded float32 result: no closer one exists."""
    x = torch.randn(64, 96).to(dtype)
    for function in (
        F.gelu,
        F.silu,
        lambda t: F.softmax(t, -1),
        lambda t: F.log_softmax(t, 0),
        lambda t: F.layer_norm(t, (96,)),
    ):
        got, want = function(x.to(DEVICE)).cpu(), function(x.float())
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), want, rtol=torch.finfo(dtype).eps, atol=1e-6)
