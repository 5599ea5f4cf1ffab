"""Jagged nested tensors on the device: values, offsets and gradients of PyTorch's CPU."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from twins import same

JAGGED = torch.jagged


@pytest.fixture(autouse=True)
def settings():
    """Nothing goes by way of the CPU."""
    before, torch.tpu.config.fallback = torch.tpu.config.fallback, "error"
    yield
    torch.tpu.config.fallback = before


def make(device, width=4, lengths=(2, 3, 1), seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(n, width, generator=generator).to(device) for n in lengths]
    return torch.nested.nested_tensor(parts, layout=JAGGED, **options)


def parts_of(value):
    """Values and offsets of nested tensors, others as they are."""
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in parts_of(one)]
    return [value.values(), value.offsets()] if isinstance(value, torch.Tensor) and value.is_nested else [value]


def agree(f):
    same(list(parts_of(f("cpu"))), list(parts_of(f("tpu"))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "f",
    [
        make,
        lambda d: torch.nested.as_nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=JAGGED, device=d),
        lambda d: torch.nested.nested_tensor_from_jagged(
            torch.arange(10.0, device=d).view(5, 2), torch.tensor([0, 2, 5], device=d)
        ),
        lambda d: torch.nested.narrow(
            torch.arange(24.0, device=d).view(2, 4, 3),
            1,
            torch.tensor([0, 1], device=d),
            torch.tensor([2, 3], device=d),
            layout=JAGGED,
        ).unbind(),
        lambda d: torch.nested.masked_select(
            torch.arange(6.0, device=d).view(2, 3), torch.tensor([[True, False, True], [False, True, False]], device=d)
        ),
        lambda d: [make("cpu").to(d), make(d).clone(), make(d).to(torch.float64), make(d)[1], *make(d).unbind()],
        lambda d: [make(d).dim(), make(d).size(0), make(d).numel(), make(d).offsets()],
        lambda d: [make(d).to_padded_tensor(-1.0), make(d).to_padded_tensor(0.0, (3, 5, 4))],
        lambda d: [torch.zeros_like(make(d)), torch.full_like(make(d), 3.0), make(d) > 0],
        lambda d: [make(d).amax(-1), make(d).argmax(-1), (make(d) > 0).any(), *make(d).chunk(3, 0)],
    ],
)
def test_construction_and_reading(f):
    agree(f)


def linear(d):
    torch.manual_seed(0)
    return nn.Linear(4, 6).to(d)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + x * 2,
        lambda x: x * torch.arange(4.0, device=x.device),
        lambda x: F.gelu(x).sin(),
        lambda x: torch.where(x > 0, x, x * 2),
        lambda x: x.masked_fill(x > 0, -1.0),
        lambda x: linear(x.device)(x),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: x.softmax(-1),
        lambda x: x.softmax(1),
        lambda x: x.sum(),
        lambda x: x.mean(-1, keepdim=True),
        lambda x: x.chunk(2, -1)[1],
        lambda x: torch.cat([x, x * 2], -1),
        lambda x: x @ torch.arange(12.0, device=x.device).view(4, 3),
        lambda x: x.transpose(1, 2).transpose(1, 2) * 2,
        lambda x: x.to_padded_tensor(0.0),
        lambda x: torch.nested._internal.nested_tensor.nested_from_padded(x.to_padded_tensor(0.0) * 2, x.offsets()),
    ],
)
def test_gradients(f):
    def gradient(d):
        x = make(d, requires_grad=True)
        y = f(x)
        dense = y.values() if y.is_nested else y
        (dense * torch.arange(dense.numel(), device=d).view(dense.shape)).sum().backward()
        return y, x.grad

    agree(gradient)


def test_attention():
    def attention(d):
        operands = [make(d, width=8, seed=seed, requires_grad=True) for seed in range(3)]
        heads = [x.unflatten(-1, [2, 4]).transpose(1, 2) for x in operands]
        y = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(-2)
        y.values().pow(2).sum().backward()
        return [y, *(x.grad for x in operands)]

    agree(attention)


def test_embedding():
    def embedded(d):
        torch.manual_seed(0)
        model = nn.Embedding(10, 4).to(d)
        x = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=JAGGED, device=d)
        model(x).values().pow(2).sum().backward()
        return model.weight.grad

    agree(embedded)


def test_printing():
    assert "NestedTensor" in repr(make("tpu")) and "jagged" in str(make("tpu").layout)


def test_strided_layout_says_what_to_do():
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided, device="tpu")
    with pytest.raises(NotImplementedError, match=r"layout=torch\.jagged"):
        x.sum(-1)


# ---- the ops beneath ----

FORMATS = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_jagged_and_padded(dtype):
    def both(d):
        values = torch.arange(12, device=d).view(6, 2).to(dtype)
        offsets = torch.tensor([0, 2, 2, 6], device=d)  # one row is empty
        padded = FORMATS._jagged_to_padded_dense_forward(values, [offsets], [4], 1.0)
        short = FORMATS._jagged_to_padded_dense_forward(values[:, 0], [offsets], [3], 0.0)  # a row is cut off
        back = [FORMATS._padded_dense_to_jagged_forward(padded, [offsets], *total) for total in ([6], [])]
        return [padded, short, *back]

    agree(both)


def test_a_row_longer_than_the_padded_batch_is_not_silent():
    dense, offsets = torch.ones(2, 2, 3), torch.tensor([0, 1, 4])
    with pytest.raises(RuntimeError):
        FORMATS._padded_dense_to_jagged_forward(dense, [offsets], 4)
    with pytest.raises((RuntimeError, IndexError)):
        FORMATS._padded_dense_to_jagged_forward(dense.to("tpu"), [offsets.to("tpu")], 4).cpu()


def test_rows_and_offsets():
    def convert(d):
        offsets, columns = torch.tensor([[0, 1, 3], [0, 0, 3]]).to(d), torch.tensor([[0, 1, 2], [0, 1, 0]]).to(d)
        return [
            torch._convert_indices_from_csr_to_coo(offsets, columns),
            torch._convert_indices_from_csr_to_coo(offsets[0], columns[0], transpose=True, out_int32=True),
            torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2], device=d), 4, out_int32=True),
            torch._convert_indices_from_coo_to_csr(torch.tensor([], dtype=torch.int64, device=d), 3),
        ]

    agree(convert)
