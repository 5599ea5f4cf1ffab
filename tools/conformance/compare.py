"""When a result of the device agrees with the CPU's, and how an argument gets a twin on the device."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch_pjrt import tpu

from conformance.harness import Mismatch, one_line

DEVICE = "tpu"
# Relative and absolute; dtypes that are not here are compared exactly.
TOLERANCE = {
    torch.float32: 1e-4,
    torch.bfloat16: 2e-2,
    torch.float16: 4e-3,
    torch.float64: 1e-7,
    torch.complex64: 1e-4,
    torch.complex128: 1e-7,
}
GRADIENT_TOLERANCE = dict.fromkeys(TOLERANCE, 1e-3)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, function, tree)


def to_device(tree: Any) -> Any:
    """Arguments as a user moves them: `.to("tpu")`; names of the CPU become those of the device."""

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.detach().to(DEVICE).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return torch.device(DEVICE)
        return x

    return pytree.tree_map(one, tree)


def twin(t: torch.Tensor, bases: dict[tuple[int, torch.dtype], torch.Tensor]) -> torch.Tensor:
    """The tensor on the device with its strides, its offset, its whole storage, and its conj and neg bits. `bases`: the
    storages that are on the device already, by where they are on the CPU."""
    if t.layout != torch.strided:
        return t.detach().to(DEVICE).requires_grad_(t.requires_grad)
    plain = t.detach()
    if t.is_neg():
        plain = plain._neg_view()
    if t.is_conj():
        plain = plain.conj()
    n = plain.untyped_storage().nbytes() // plain.element_size()
    key = plain.untyped_storage().data_ptr(), plain.dtype
    if key not in bases or n == 0:
        bases[key] = plain.as_strided((n,), (1,), 0).to(DEVICE)
    base = bases[key]
    made = base.as_strided(plain.size(), plain.stride(), plain.storage_offset())
    if t.is_conj():
        made = made.conj()
    if t.is_neg():
        made = made._neg_view()
    return made.requires_grad_(t.requires_grad)


def twins(tree: Any) -> Any:
    """As to_device, each tensor by its twin. Tensors that are one object, or share memory, do so on the device."""
    made: dict[int, torch.Tensor] = {}
    bases: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if id(x) not in made:
                made[id(x)] = twin(x, bases)
            return made[id(x)]
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return torch.device(DEVICE)
        return x

    return pytree.tree_map(one, tree)


CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def channels_last(t: torch.Tensor) -> torch.Tensor:
    """Images and volumes in channels_last; others as they are."""
    moved = t.detach().contiguous(memory_format=CHANNELS_LAST.get(t.dim(), torch.preserve_format))
    return moved.requires_grad_(t.requires_grad)


def random_like(given: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The same numbers on each device."""
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(t.device) for t in given]


def significant_strides(t: torch.Tensor) -> list[int]:
    """The strides that lead anywhere."""
    return [stride for size, stride in zip(t.size(), t.stride(), strict=True) if size > 1] if t.numel() else []


def agree(
    want: Any,
    got: Any,
    tolerance: dict[torch.dtype, float] = TOLERANCE,
    values: bool = True,
    strides: bool = False,
) -> None:
    """Raises Mismatch unless both have one structure, and dtypes, shapes, values and (if asked) strides agree."""
    want_leaves, got_leaves = pytree.tree_leaves(want), pytree.tree_leaves(got)
    if len(want_leaves) != len(got_leaves):
        raise Mismatch("STRUCTURE", f"{len(want_leaves)} outputs, got {len(got_leaves)}")
    for a, b in zip(want_leaves, got_leaves, strict=True):
        if isinstance(a, torch.Tensor):
            agree_tensor(a, b, tolerance, values, strides)
        elif values and a != b and not (a != a and b != b):
            raise Mismatch("VALUE", f"{a!r} vs {b!r}")


def agree_tensor(a: torch.Tensor, b: Any, tolerance: dict[torch.dtype, float], values: bool, strides: bool) -> None:
    if not isinstance(b, torch.Tensor):
        raise Mismatch("STRUCTURE", f"a tensor, got {type(b).__name__}")
    if b.device.type != DEVICE:
        raise Mismatch("DEVICE", f"output on {b.device}")
    if a.dtype != b.dtype:
        raise Mismatch("DTYPE", f"{a.dtype} vs {b.dtype}")
    if a.shape != b.shape:
        raise Mismatch("SHAPE", f"{tuple(a.shape)} vs {tuple(b.shape)}")
    if strides and a.layout == torch.strided and significant_strides(a) != significant_strides(b):
        raise Mismatch("STRIDE", f"{tuple(a.shape)}: {a.stride()} vs {b.stride()}")
    if not values:
        return
    bound = tolerance.get(a.dtype, 0.0)
    try:
        torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=bound, atol=bound, equal_nan=True)
    except AssertionError as e:
        raise Mismatch("VALUE", one_line(e)[:160]) from None


def agree_gradients(
    want: Sequence[torch.Tensor | None], got: Sequence[torch.Tensor | None], tolerance: dict[torch.dtype, float]
) -> None:
    """Gradients of the same inputs. Raises Mismatch with a state that starts with GRAD_."""
    for a, b in zip(want, got, strict=True):
        if (a is None) != (b is None):
            raise Mismatch("GRAD_MISSING", "gradient is None on one side")
        try:
            if a is not None:
                agree(a, b, tolerance)
        except Mismatch as e:
            raise Mismatch("GRAD_" + e.state, e.detail) from None


class Attempt:
    """A call that may raise: its result or exception, and what it warned of."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.result: Any = None
        self.exception: Exception | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.set_warn_always(True)
            try:
                self.result = function()
                tpu.synchronize()  # what the device finds out late
            except TimeoutError:
                raise
            except Exception as e:
                self.exception = e
            finally:
                torch.set_warn_always(False)
        self.warnings = [str(warning.message) for warning in caught]


def same_exception(want: Attempt, got: Attempt) -> bool:
    """True when both raised, the same type; False when neither did. Raises Mismatch otherwise."""
    a, b = want.exception, got.exception
    if a is None and b is None:
        return False
    if a is None:
        assert b is not None
        raise Mismatch("ERROR", f"{type(b).__name__}: {one_line(b)[:200]}")
    if b is None:
        raise Mismatch("NO_ERROR", f"the CPU: {type(a).__name__}: {one_line(a)[:160]}")
    if type(a) is not type(b):
        texts = f"{type(a).__name__}: {one_line(a)[:100]} vs {type(b).__name__}: {one_line(b)[:160]}"
        raise Mismatch("OTHER_ERROR", texts)
    return True


def all_of(checks: Iterable[tuple[str, Callable[[], None]]]) -> str:
    """Runs named checks, all of them, and raises one Mismatch that lists those that failed, the first one's state."""
    failed: list[tuple[str, Mismatch]] = []
    n = 0
    for name, check in checks:
        n += 1
        try:
            check()
        except Mismatch as e:
            failed.append((name, e))
    if failed:
        raise Mismatch(failed[0][1].state, "; ".join(f"[{name}] {e.state} {e.detail[:200]}" for name, e in failed))
    return f"{n} checks"
