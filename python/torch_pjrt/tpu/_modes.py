"""How operators run outside torch.compile."""

from types import TracebackType

from torch_pjrt import _C


def eager_mode() -> str:
    """The current eager mode: "strict", "debug" or "fused"."""
    return str(_C.get_setting("eager_mode"))


def change(mode: str) -> None:
    """Switch to a mode; what fused mode has gathered is launched first, in the mode that gathered it.

    Raises ValueError for what is no mode, and what the device reports of those operators.
    """
    previous = eager_mode()
    _C.set_setting("eager_mode", mode)
    if previous == "fused" != mode:
        _C.flush()


class _Restore:
    def __init__(self, previous: str) -> None:
        self._previous = previous

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        change(self._previous)


def set_eager_mode(mode: str) -> _Restore:
    """Choose the eager mode, for good or, in a `with` statement, for its block.

    "strict" launches each operator at once, asynchronously. "debug" waits for each one and checks its inputs, so that
    an error points at the operator and the line that caused it. "fused" gathers operators and launches them as one
    program when a result is read (docs/fused.md). The mode is that of the whole process: backward passes, which run
    on a thread of their own, follow it.
    """
    previous = eager_mode()
    change(mode)
    return _Restore(previous)
