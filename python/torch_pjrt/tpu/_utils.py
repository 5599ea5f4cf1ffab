"""Device arguments."""

from typing import TypeAlias

import torch

DeviceLike: TypeAlias = "torch.device | str | int | None"


def _get_device_index(device: DeviceLike, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that a device argument names: None, or a device without an index, is the current one if `optional`."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "tpu":
            raise ValueError(f"expected a tpu device, got {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise TypeError(f"expected a device, its index or None, got {type(device).__name__}")
    if not optional:
        raise ValueError(f"expected a device with an index, such as tpu:0, got {device}")
    return torch._C._accelerator_getDeviceIndex()
