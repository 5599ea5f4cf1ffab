"""Products of groups (`_grouped_mm`, which models with experts call) under torch.compile."""

import pytest
import torch

GROUPS = {  # shapes of the operands; 3 groups end at 2, 2 and 7
    "rows": ((7, 4), (3, 4, 5)),
    "columns": ((3, 5, 4), (4, 7)),
    "contraction": ((5, 7), (7, 4)),
    "batches": ((3, 5, 4), (3, 4, 6)),
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_products_of_every_dtype(kind: str, dtype: torch.dtype) -> None:
    """PyTorch's fake kernel takes bfloat16 alone; the device's and its gradients give what eager mode gives."""
    first, second = GROUPS[kind]
    ends = None if kind == "batches" else torch.tensor([2, 2, 7], dtype=torch.int32, device="tpu")
    x, y = (torch.randn(shape, device="tpu").to(dtype).requires_grad_() for shape in (first, second))

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(x, y, offs=ends)

    want = product(x, y)
    got = torch.compile(product, backend="tpu", fullgraph=True)(x, y)
    assert got.dtype == want.dtype and got.stride() == want.stride()
    torch.testing.assert_close(got, want)
    seed = torch.randn_like(want)
    for a, b in zip(torch.autograd.grad(got, (x, y), seed), torch.autograd.grad(want, (x, y), seed), strict=True):
        torch.testing.assert_close(a, b)


def test_grouped_products_of_other_devices_keep_pytorchs_fake_kernel() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        ends = torch.empty(3, dtype=torch.int32)
        x, y = (torch.empty(shape, dtype=torch.bfloat16) for shape in ((16, 8), (3, 8, 16)))
        assert torch._grouped_mm(x, y, offs=ends).shape == (16, 16)
        with pytest.raises(RuntimeError, match="BF16"):
            torch._grouped_mm(x.float(), y.float(), offs=ends)
