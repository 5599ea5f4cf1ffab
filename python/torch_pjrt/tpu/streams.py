"""Streams and events.

All work of a device runs in the order of its launches, on whichever stream: a stream is a name, and waiting for one
waits for the device. So programs that use several streams are right as they are, and gain nothing by them.
"""

from typing import Any

import torch

from torch_pjrt.tpu._lazy import _lazy_init
from torch_pjrt.tpu._utils import DeviceLike, _get_device_index


class _OfThisDevice(type):
    """Makes isinstance true for PyTorch's own streams and events of this device. They are not subclassed, because
    PyTorch takes only its own class in places."""

    kind: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kind) and getattr(instance, "device", torch.device("cpu")).type == "tpu"


class Stream(metaclass=_OfThisDevice):
    """A stream of a device, the current one for None: a `torch.Stream`."""

    kind = torch.Stream

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> torch.Stream:  # type: ignore[misc]
        _lazy_init()
        if "stream_id" in kwargs:
            return torch.Stream(priority=priority, **kwargs)
        return torch.Stream(torch.device("tpu", _get_device_index(device, optional=True)), priority=priority)


class Event(metaclass=_OfThisDevice):
    """A point in the order of a device's work: a `torch.Event`. Two with `enable_timing` know the time between them."""

    kind = torch.Event

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError("events of the tpu device cannot be shared between processes")
        _lazy_init()
        return torch.Event(torch.device("tpu"), enable_timing=enable_timing, blocking=blocking)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """The calling thread's current stream of a device."""
    _lazy_init()
    return torch._C._accelerator_getStream(_get_device_index(device, optional=True))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """The stream that is current where none was chosen."""
    current = current_stream(device)
    return torch.Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream the current one of its device, and its device the current one. None changes nothing."""
    if stream is not None:
        _lazy_init()
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """A context in which a stream is current, with its device. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: list[tuple[torch.Stream, int]] = []

    def __enter__(self) -> None:
        if self.stream is None:
            return
        _lazy_init()
        device = torch._C._accelerator_getDeviceIndex()
        self._previous.append((torch._C._accelerator_getStream(self.stream.device_index), device))
        torch._C._accelerator_setStream(self.stream)

    def __exit__(self, *exception: object) -> None:
        if self.stream is None:
            return
        stream, device = self._previous.pop()
        torch._C._accelerator_setStream(stream)
        torch._C._accelerator_setDeviceIndex(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """A context in which `stream` is current."""
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured: there is no such capture on this device."""
    return False
