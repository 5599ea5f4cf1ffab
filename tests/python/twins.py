"""A call on the CPU and the same on the device, whose results agree."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

DEVICE = "tpu"


def moved(arguments: Sequence[Any]) -> list[Any]:
    """Tensors on the device, each by a copy; what is none as it is."""
    return [a.to(DEVICE) if isinstance(a, torch.Tensor) else a for a in arguments]


def same(want: Any, got: Any, exact: bool = False, strides: bool = False, **tolerance: float) -> None:
    """Two results, or lists of them: on the device, of one dtype, shape and layout, close or (`exact`) equal, NaN with
    NaN. What is no tensor is equal."""
    if isinstance(want, (list, tuple)):
        for a, b in zip(want, got, strict=True):
            same(a, b, exact, strides, **tolerance)
        return
    if not isinstance(want, torch.Tensor):
        assert want == got
        return
    assert got.device.type == DEVICE
    assert (got.layout, got.dtype, got.shape) == (want.layout, want.dtype, want.shape)
    assert not strides or got.stride() == want.stride()
    if exact:
        tolerance = {"rtol": 0, "atol": 0}
    if want.is_floating_point() and want.element_size() == 1:
        want, got = want.float(), got.float()  # float8 is compared by its bits alone
    torch.testing.assert_close(got.detach().cpu(), want.detach(), equal_nan=True, **tolerance)


def agree(function: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
    """Calls the function with the arguments, and with their twins on the device; the results are the `same` (`how`), and so
    are the arguments afterwards. Returns the device's result."""
    ours = moved(arguments)
    want, got = function(*arguments), function(*ours)
    same(want, got, **how)
    how.pop("strides", None)
    for a, b in zip(arguments, ours, strict=True):
        if isinstance(a, torch.Tensor):
            same(a, b, **how)
    return got
