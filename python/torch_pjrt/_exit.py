"""Leaves the interpreter cleanly after a backward pass.

Autograd runs backward on a thread per device. PyTorch keeps the caller's contextvars with each backward pass, and the
thread that drops the pass last takes the GIL for it. If that is the device's thread and the interpreter is being
finalised by then, Python ends the thread by unwinding it, and C++ ends the process: "terminate called without an
active exception". A script that ends right after `backward()` met this in one of three runs on a loaded machine. So
wait at exit, without the GIL, until those threads sleep again: about a millisecond.

Compilations on other threads are waited for as well, those that have begun: a compiler whose process tears it down
while it works crashes.
"""

import atexit
import time
from pathlib import Path

from torch_pjrt import _C

_TASKS = Path("/proc/self/task")
_AUTOGRAD_THREADS = "pt_autograd"  # PyTorch's name of them
_LONGEST_WAIT = 0.5  # seconds


_LONGEST_COMPILATION = 10_000  # milliseconds


def register() -> None:
    atexit.register(_leave)


def _leave() -> None:
    if not _C.started() or _C.in_bad_fork():
        return
    _C.stop_compiling(_LONGEST_COMPILATION)
    _wait_for_autograd()


def _wait_for_autograd() -> None:
    deadline = time.monotonic() + _LONGEST_WAIT
    asleep = 0
    while asleep < 2 and time.monotonic() < deadline:
        time.sleep(0.0003)  # gives the GIL to a thread that waits for it
        asleep = asleep + 1 if _all_asleep() else 0


def _all_asleep() -> bool:
    try:
        for task in _TASKS.iterdir():
            name, _, state = (task / "stat").read_text().partition("(")[2].rpartition(") ")
            if name.startswith(_AUTOGRAD_THREADS) and not state.startswith("S"):
                return False
    except OSError:  # a thread that ended in between, or no /proc
        pass
    return True
