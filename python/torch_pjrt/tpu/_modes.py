"""How operators run outside torch.compile."""

from types import TracebackType

from torch_pjrt import _C


def check(mode: str) -> None:
    """Raise for a mode that this version does not have."""
    if mode == "fused":
        raise NotImplementedError(
            "eager mode 'fused', which gathers operators into one program, is not implemented yet: use 'strict' (each "
            "operator is launched at once) or 'debug' (each one is waited for)"
        )


def eager_mode() -> str:
    """The current eager mode, "strict" or "debug"."""
    return str(_C.get_setting("eager_mode"))


class _Restore:
    def __init__(self, previous: str) -> None:
        self._previous = previous

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _C.set_setting("eager_mode", self._previous)


def set_eager_mode(mode: str) -> _Restore:
    """Choose the eager mode, for good or, in a `with` statement, for its block.

    "strict" launches each operator at once, asynchronously. "debug" waits for each one and checks its inputs, so that
    an error points at the operator and the line that caused it.
    """
    check(mode)
    previous = eager_mode()
    _C.set_setting("eager_mode", mode)
    return _Restore(previous)
