"""What the device did: programs compiled, ops that fell back to the CPU."""

from typing import Any

from torch_pjrt import _C


def fallbacks() -> dict[str, int]:
    """Ops that ran on the CPU because the device has no program for them, and how often."""
    return _C.fallbacks()


def reset_fallbacks() -> None:
    """Forget the fallbacks; each op warns again at its next one."""
    _C.reset_fallbacks()


def compile_stats() -> dict[str, Any]:
    """What programs cost, as a dict: "programs" made, of these "loaded" from the folder of kept ones;
    "seconds" that this took; "launches", and of these "hits", which found their program in memory."""
    return _C.compile_stats()


def reset_compile_stats() -> None:
    """Set the numbers of `compile_stats` to 0. Programs stay."""
    _C.reset_compile_stats()
