"""Device memory: how much there is and who has it.

"Allocated" is what live tensors take, by our own count. "Reserved" is what the plugin holds, programs and temporaries
included, where it has statistics; else it is the same as allocated.
"""

from collections.abc import Callable
from typing import Any

import torch

from torch_pjrt import _C
from torch_pjrt.tpu._lazy import _lazy_init, is_initialized
from torch_pjrt.tpu._utils import DeviceLike, _get_device_index

_MOST_HOLDERS = 10


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """The statistics of `memory_stats`, nested by the parts of their names. Empty before the device is used."""
    if not is_initialized():
        return {}
    return torch._C._accelerator_getDeviceStats(_get_device_index(device, optional=True))


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """All statistics of a device, with the names of `torch.cuda.memory_stats` ("allocated_bytes.all.peak")."""
    flat: dict[str, Any] = {}

    def flatten(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            flat[prefix] = value
            return
        for key, part in value.items():
            flatten(f"{prefix}.{key}" if prefix else str(key), part)

    flatten("", memory_stats_as_nested_dict(device))
    return dict(sorted(flat.items()))


def _statistic(device: DeviceLike, amount: str, part: str) -> int:
    stats = memory_stats_as_nested_dict(device)
    return stats[amount]["all"][part] if stats else 0


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of live tensors."""
    return _statistic(device, "allocated_bytes", "current")


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that live tensors took since the start, or since `reset_peak_memory_stats`."""
    return _statistic(device, "allocated_bytes", "peak")


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the plugin holds."""
    return _statistic(device, "reserved_bytes", "current")


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes that the plugin held."""
    return _statistic(device, "reserved_bytes", "peak")


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start to watch for new peaks."""
    _lazy_init()
    torch._C._accelerator_resetPeakStats(_get_device_index(device, optional=True))


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """As `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Set the totals of what was ever allocated and freed to 0."""
    _lazy_init()
    torch._C._accelerator_resetAccumulatedStats(_get_device_index(device, optional=True))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of a device; of the host for a CPU plugin."""
    _lazy_init()
    return torch._C._accelerator_getMemoryInfo(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Give freed memory back to the system as far as the plugin lets us. Nothing is cached here."""
    if is_initialized():
        torch._C._accelerator_emptyCache()


def ipc_collect() -> None:
    """For code written for CUDA. Device memory is not shared between processes, so there is nothing to collect."""


def memory_snapshot(device: DeviceLike = None) -> list[dict[str, Any]]:
    """What the device holds, as one segment a device: the plugin does not tell where its blocks lie."""
    if not is_initialized():
        return []
    devices = range(_C.device_count()) if device is None else [_get_device_index(device, optional=True)]
    return [
        {
            "device": index,
            "address": 0,
            "segment_type": "large",
            "total_size": memory_reserved(index),
            "allocated_size": memory_allocated(index),
            "active_size": memory_allocated(index),
            "blocks": [],
        }
        for index in devices
    ]


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a table to print, and which operators made what the largest share of the memory holds."""
    stats = memory_stats(device)
    index = _get_device_index(device, optional=True)
    title = f"tpu:{index}"
    lines = [f"{title:<24}{'current':>14}{'peak':>14}{'allocated':>14}{'freed':>14}"]
    rows: list[tuple[str, str, Callable[[int], str]]] = [
        ("memory of tensors", "allocated_bytes", _size),
        ("memory reserved", "reserved_bytes", _size),
    ]
    if not abbreviated:
        rows.append(("storages", "allocation", str))
    for label, name, show in rows:
        values = (show(stats.get(f"{name}.all.{part}", 0)) for part in ("current", "peak", "allocated", "freed"))
        lines.append(f"{label:<24}" + "".join(f"{value:>14}" for value in values))
    if not abbreviated:
        lines.append("held by")
        lines += [f"  {line}" for line in _C.memory_holders(index, _MOST_HOLDERS).splitlines()]
    return "\n".join(lines)
