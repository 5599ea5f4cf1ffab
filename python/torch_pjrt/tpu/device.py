"""Devices: how many there are, which one is current, what they are."""

from dataclasses import dataclass
from typing import Any

import torch

from torch_pjrt import _C
from torch_pjrt.tpu._lazy import _lazy_init
from torch_pjrt.tpu._utils import DeviceLike, _get_device_index

_works: bool | None = None


def is_available() -> bool:
    """Whether the device works here. The first call may create the client; the answer is kept. Never raises."""
    global _works
    if _C.in_bad_fork():
        return False
    if _works is None:
        try:
            _lazy_init()
            _works = _C.device_count() > 0
        except Exception:
            _works = False
    return _works


def device_count() -> int:
    """The number of devices; 0 where none can be used."""
    try:
        return _C.device_count()
    except RuntimeError:
        return 0


def current_device() -> int:
    """The index of the calling thread's current device."""
    _lazy_init()
    return torch._C._accelerator_getDeviceIndex()


def set_device(device: DeviceLike) -> None:
    """Make a device the calling thread's current one. A negative index changes nothing."""
    _lazy_init()
    torch._C._accelerator_setDeviceIndex(_get_device_index(device, optional=True))


class device:
    """A context in which a device is the current one. None, or a negative index, changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            _lazy_init()
            self.prev_idx = torch._C._accelerator_exchangeDevice(self.idx)

    def __exit__(self, *exception: object) -> None:
        if self.prev_idx >= 0:
            torch._C._accelerator_maybeExchangeDevice(self.prev_idx)


class device_of(device):
    """A context in which the device of a tensor or storage is the current one; for one of the CPU, nothing changes."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor.device if tensor.device.type == "tpu" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work on a device (the current one for None), and raise what it reported."""
    _lazy_init()
    torch._C._accelerator_synchronizeDevice(_get_device_index(device, optional=True))


@dataclass(frozen=True)
class DeviceProperties:
    """What is known of a device."""

    name: str
    """The kind of device: "TPU v6 lite", "cpu"."""
    type: str
    """The plugin's platform: "tpu", "cpu"."""
    total_memory: int
    """Bytes; the host's memory for a CPU plugin, 0 where the plugin does not say."""
    device_id: int
    """The plugin's number for the device, unique among all processes of a program."""
    platform_version: str
    plugin: str


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """The properties of a device, the current one for None."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    info, client = _C.device_info(index), _C.client_info()
    try:
        total_memory = torch._C._accelerator_getMemoryInfo(index)[1]
    except NotImplementedError:
        total_memory = 0
    return DeviceProperties(
        info["kind"], client["platform"], total_memory, info["id"], client["platform_version"], client["plugin"]
    )


def get_device_name(device: DeviceLike = None) -> str:
    """The kind of a device: "TPU v6 lite", "cpu"."""
    _lazy_init()
    return _C.device_info(_get_device_index(device, optional=True))["kind"]


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """What a device can do, as `torch.accelerator.get_device_capability` says it: the dtypes that it supports."""
    _lazy_init()
    return torch._C._accelerator_getDeviceCapability(_get_device_index(device, optional=True))
