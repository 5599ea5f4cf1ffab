"""The first use of the device: it creates the client, in the process that uses it."""

import threading
from collections.abc import Callable

from torch_pjrt import _C

# Held while the client is made and while a call is queued or run at once. Reentrant: a queued call may use the device.
_lock = threading.RLock()
_queued: list[Callable[[], None]] = []


def is_initialized() -> bool:
    """Whether this process has used the device."""
    return _C.started() and not _C.in_bad_fork()


def _is_in_bad_fork() -> bool:
    """Whether the device was used before this process was forked: it cannot be used here then."""
    return _C.in_bad_fork()


def _lazy_init() -> None:
    """Create the client if there is none. PyTorch calls this when Python code first names the device."""
    if not _queued and is_initialized():
        return
    with _lock:
        _C.load_settings()
        _C.start()
        while _queued:
            _queued.pop(0)()


def init() -> None:
    """Make the device ready now; otherwise its first use does."""
    _lazy_init()


def _lazy_call(call: Callable[[], None]) -> None:
    """Run `call` now if the device is in use, else when it is first used."""
    with _lock:
        if is_initialized():
            call()
        else:
            _queued.append(call)
