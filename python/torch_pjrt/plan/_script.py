"""Running a script on the planning device."""

import os
import runpy
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from torch_pjrt.aot import Target
from torch_pjrt.plan._core import PLUGIN, TRUE, Core, Event, Program

PLACEHOLDER = 0  # what is read where nothing is computed: zeros of every dtype
TRUE_AFTER = 32  # but for bools: see _Reads


@dataclass
class Recording:
    """What a script did with the device. Events are in their order; a read's subject is an index of `lines`."""

    target: Target
    script: str
    arguments: list[str]
    executed: bool
    eager_mode: str
    memory_bytes: int  # of a device of the target
    events: list[Event]
    programs: list[Program]
    lines: list[tuple[str, int]]
    peak_types: dict[str, int]
    steppers: list[str]  # what makes steps: names, by the number of their marks
    seconds: float
    error: str | None = None  # of the script
    fallbacks: dict[str, int] = field(default_factory=dict)


class _Reads:
    """Where the device is read: the first frame that is neither PyTorch's nor ours. Bools that are read there are false
    so many times and then true, so that a loop that waits for one ends."""

    def __init__(self, own: tuple[str, ...], true_after: int) -> None:
        self.own = own
        self.true_after = true_after
        self.n_bools: Counter[int] = Counter()
        self.numbers: dict[tuple[str, int], int] = {}

    def __call__(self, n_bytes: int, is_bool: bool) -> int:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(self.own):
            frame = frame.f_back
        place = ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        number = self.numbers.setdefault(place, len(self.numbers))
        self.n_bools[number] += is_bool
        return number | TRUE if self.n_bools[number] > self.true_after else number


def choose(target: Target, *, execute: bool, version: str, memory_bytes: int) -> Core:
    """Make the planning device the one that PyTorch will use in this process. Before torch is imported; RuntimeError
    when it is too late, or when there is no CPU plugin that could execute."""
    if "torch" in sys.modules:
        raise RuntimeError("a plan has to begin before torch is imported")
    core = Core()
    plugin = None
    if execute:
        from torch_pjrt import _discovery

        found = (_discovery.find_in_package(*place) for place in _discovery.CPU_PLUGINS)
        plugin = os.environ.get("TORCH_PJRT_PLUGIN") or next((path for path in found if path), None)
        if plugin is None:
            raise RuntimeError("--execute needs a CPU plugin: pip install fastatomstruct-xla-cpu")
    core.begin(target.chip.kind, version, target.n_devices, memory_bytes, plugin)
    os.environ["TORCH_PJRT_PLUGIN"] = PLUGIN
    os.environ["TORCH_PJRT_NUM_DEVICES"] = str(min(target.n_devices, 1024))
    return core


def _run(script: str, arguments: list[str]) -> str | None:
    """Run a script as Python would. The error that ended it, also told on stderr; None when it ended well."""
    saved = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path[0:0] = [str(Path(script).resolve().parent)]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        return None if ended.code in (None, 0) else f"it ended with status {ended.code}"
    except (Exception, KeyboardInterrupt) as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        sys.argv, sys.path[:] = saved
    return None


def _name(stepped: Any) -> str:
    """Of an optimizer, or of a function that compile_step compiled."""
    if hasattr(stepped, "param_groups"):
        return f"{type(stepped).__name__}.step()"
    return "calls of what compile_step returned"


def run(
    core: Core,
    script: str,
    arguments: list[str],
    target: Target,
    *,
    execute: bool,
    memory_bytes: int,
    true_after: int = TRUE_AFTER,
) -> Recording:
    """Run the script on the device that `choose` made, and take what was recorded. `true_after`: see _Reads."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from torch_pjrt import _C, tpu
    from torch_pjrt.compile._step import observers as compiled_steps

    own = (os.path.dirname(torch.__file__) + os.sep, str(Path(__file__).parent.parent) + os.sep, "<frozen")
    reads = _Reads(own, true_after)
    steppers: dict[int, tuple[int, Any]] = {}  # each kept alive, so that no other gets its id

    def mark(stepped: Any, *_: Any) -> None:
        number, _ = steppers.setdefault(id(stepped), (len(steppers), stepped))
        core.mark(number)

    hook = register_optimizer_step_post_hook(mark)
    compiled_steps.append(mark)
    core.on_read(reads)
    start = time.monotonic()
    try:
        error = _run(script, arguments)
        try:
            _C.flush()
            tpu.synchronize()
        except RuntimeError as late:
            error = error or str(late)
    finally:
        hook.remove()
        compiled_steps.remove(mark)
        core.on_read(None)
    return Recording(
        target=target,
        script=script,
        arguments=arguments,
        executed=execute,
        eager_mode=str(_C.get_setting("eager_mode")),
        memory_bytes=memory_bytes,
        events=core.events(),
        programs=core.programs(),
        lines=list(reads.numbers),
        peak_types=core.peak_types(0),
        steppers=[_name(stepped) for _, stepped in steppers.values()],
        seconds=time.monotonic() - start,
        error=error,
        fallbacks=_C.fallbacks(),
    )
