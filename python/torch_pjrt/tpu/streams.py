"""Streams and events.

All work of a device runs in the order of its launches, on whichever stream: a stream is a name, and waiting for one
waits for the device. So programs that use several streams are right as they are, and gain nothing by them.
"""

from typing import Any

import torch

from torch_pjrt.tpu._lazy import _lazy_init
from torch_pjrt.tpu._utils import DeviceLike, _get_device_index


class Stream(torch.Stream):
    """A stream of a device, the current one for None."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> "Stream":
        _lazy_init()
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, torch.device("tpu", _get_device_index(device, optional=True)), priority=priority)

    def __repr__(self) -> str:
        return f"torch.tpu.Stream(device={self.device}, stream_id={self.stream_id})"


class Event(torch.Event):
    """A point in the order of a device's work. With `enable_timing`, the time between two of them can be asked for."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> "Event":
        if interprocess:
            raise NotImplementedError("events of the tpu device cannot be shared between processes")
        _lazy_init()
        return super().__new__(cls, torch.device("tpu"), enable_timing=enable_timing, blocking=blocking)

    def __repr__(self) -> str:
        return f"torch.tpu.Event(device={self.device})"


def _as_stream(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    """The calling thread's current stream of a device."""
    _lazy_init()
    return _as_stream(torch._C._accelerator_getStream(_get_device_index(device, optional=True)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that is current where none was chosen."""
    _lazy_init()
    current = torch._C._accelerator_getStream(_get_device_index(device, optional=True))
    return Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


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
