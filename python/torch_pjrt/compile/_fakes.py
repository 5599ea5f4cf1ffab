"""Fake kernels: what an op gives, by shapes alone, where PyTorch's own allows less than the device computes."""

from typing import Any

import torch

from torch_pjrt import _loader

_library = torch.library.Library("aten", "FRAGMENT")  # what is registered lives as long as this


def grouped_mm(
    self: torch.Tensor,
    mat2: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """`_grouped_mm`: PyTorch's takes bfloat16 alone, the device every dtype of a product.

    Tensors of other devices are handed to PyTorch's own. A 2-d operand is one whose rows, columns or contraction are
    cut into groups by `offs` (int32 [groups]); the result is contiguous, as in eager mode.
    """
    if self.device.type != _loader.BACKEND:
        from torch._meta_registrations import meta_grouped_mm  # slow to import

        return meta_grouped_mm(self, mat2, offs, bias, out_dtype)
    torch._check(self.dim() in (2, 3) and mat2.dim() in (2, 3), lambda: "mat_a and mat_b have to be 2-d or 3-d")
    torch._check(self.dtype == mat2.dtype, lambda: f"mat_a is {self.dtype}, mat_b is {mat2.dtype}")
    torch._check(self.size(-1) == mat2.size(-2), lambda: "contraction dimension of mat_a and mat_b must match")
    torch._check(bias is None, lambda: "Bias not supported yet")
    flat = self.dim() == 2 or mat2.dim() == 2
    torch._check(
        flat == (offs is not None),
        lambda: "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d",
    )
    size = [self.size(-2), mat2.size(-1)]
    if self.dim() == mat2.dim():
        size.insert(0, self.size(0) if offs is None else offs.size(0))
    return self.new_empty(size, dtype=out_dtype)


def register() -> None:
    """Called once, before anything is traced for the backend."""
    torch.library.register_fake("aten::_grouped_mm", grouped_mm, lib=_library)
