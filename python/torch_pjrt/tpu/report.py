"""What the device did: programs compiled, ops that fell back to the CPU, windows of fused mode."""

import json
from collections import Counter
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


class FusionReport(list[dict[str, Any]]):
    """One dict a window, the oldest first; printed, it is a table.

    "ops", how many; "inputs" and "results" of its program; "seconds" that making the program took, and "hits", how
    often it was used again; "cuts", how often a window ended there because of a "read", a "repeat", or a bound ("ops",
    "bytes"); "calls", the operators as (name, file, line), the file None where it is not known.
    """

    def __str__(self) -> str:
        lines = []
        for number, window in enumerate(self):
            cuts = ", ".join(f"{count} x {why}" for why, count in window["cuts"].items())
            lines.append(
                f"window {number}: {window['ops']} ops, {window['inputs']} inputs, {window['results']} results, "
                f"made in {window['seconds']:.2f} s, used again {window['hits']} times, ended by {cuts}"
            )
            places: dict[str, Counter[str]] = {}
            for name, file, line in window["calls"]:
                places.setdefault(f"{file}:{line}" if file else "(line not known)", Counter())[name] += 1
            for place, names in places.items():
                ops = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in names.items())
                lines.append(f"  {place}: {ops}")
        return "\n".join(lines) if lines else "no windows: see torch.tpu.set_eager_mode('fused')"


def fusion_report() -> FusionReport:
    """The windows of fused mode that programs were made for and are still kept: see docs/fused.md."""
    return FusionReport(
        {**window, "calls": [tuple(call) for call in window["calls"]]} for window in json.loads(_C.fusion_report())
    )
