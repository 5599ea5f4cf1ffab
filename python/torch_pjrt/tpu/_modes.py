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


class debug:
    """Debug mode with checks of values, from the call on, or in a `with` statement for its block.

    Each operator is waited for, and raises at its own line. `check_nan`: also where it reads or makes NaN; `check_inf`:
    the same for infinities, which masks are often made of. Errors name the operator with its operands, your line, and
    a file that now holds the StableHLO of the program (in `torch.tpu.config.dump_dir`, else where temporary files are).
    """

    def __init__(self, check_nan: bool = False, check_inf: bool = False) -> None:
        wanted = {"eager_mode": "debug", "check_nan": str(int(check_nan)), "check_inf": str(int(check_inf))}
        self._previous = {name: str(_C.get_setting(name)) for name in wanted}
        for name, value in wanted.items():
            _C.set_setting(name, value)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name, value in self._previous.items():
            _C.set_setting(name, value)
