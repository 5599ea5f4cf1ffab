"""What becomes of graphs, for those who look: torch_pjrt.explain, and PyTorch's structured trace (TORCH_TRACE)."""

import contextlib
import dataclasses
import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch._dynamo.utils import counters, get_compilation_metrics
from torch._logging import trace_structured
from torch._logging._internal import trace_log

from torch_pjrt.compile._options import Options

_reports: list["Report"] = []
log = logging.getLogger("torch_pjrt.compile")


def is_on() -> bool:
    """Whether anybody wants to hear of programs: the compiler is then asked for memory and cost."""
    return bool(_reports or trace_log.handlers)


def graph(name: str, text: str, options: Options) -> None:
    """A graph was packed for the core."""
    _artifact(f"{name}.graph", text)
    _artifact(f"{name}.options", json.dumps(dataclasses.asdict(options), default=str), "json")


def program(name: str, module: str, facts: dict[str, Any]) -> None:
    """A program was made; the glue calls this."""
    _artifact(f"{name}.mlir", module)
    _artifact(f"{name}.costs", json.dumps(facts), "json")
    for report in _reports:
        report.programs.append({"name": name, "module": module, **facts})


def note(text: str, *values: Any) -> None:
    """Something that the user may want to know of a graph: it was cut, or made for its sizes."""
    log.info(text, *values)
    for report in _reports:
        report.notes.append(text % values)


def _artifact(name: str, payload: str, encoding: str = "string") -> None:
    trace_structured("artifact", metadata_fn=lambda: {"name": name, "encoding": encoding}, payload_fn=lambda: payload)


def graph_file(name: str, text: str, options: Options) -> Path:
    """A file with the readable graph, for an error to name."""
    folder = Path(options.dump_dir) if options.dump_dir is not None else Path(tempfile.mkdtemp(prefix="torch_pjrt_"))
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


class Report:
    """What `torch_pjrt.explain` saw. Printed, it is a page.

    `programs`: a dict each, "name", "module" (StableHLO), "flops", "bytes_accessed", "temp_bytes", "argument_bytes",
    "output_bytes", "code_bytes", .. (-1 where the plugin does not tell). `notes`: graphs that were cut or made for
    their sizes, and why. `graph_breaks`: Dynamo's reasons, and how often. `captures`: a dict each, "function", "file",
    "line", and "recompile_reason", None for a first one.
    """

    def __init__(self) -> None:
        self.programs: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.graph_breaks: dict[str, int] = {}
        self.captures: list[dict[str, Any]] = []

    @property
    def recompiles(self) -> list[dict[str, Any]]:
        return [capture for capture in self.captures if capture["recompile_reason"]]

    def __str__(self) -> str:
        lines = [f"{len(self.captures)} captures, {len(self.recompiles)} of them again"]
        for capture in self.captures:
            lines.append(f"  {capture['function']} ({capture['file']}:{capture['line']})")
            lines += [f"    again, because {reason}" for reason in _lines(capture["recompile_reason"])]
        lines.append(f"{sum(self.graph_breaks.values())} graph breaks")
        for reason, n in self.graph_breaks.items():
            lines += [f"  {n} x " + "\n    ".join(_lines(reason))]
        lines.append(f"{len(self.programs)} programs")
        for made in self.programs:
            lines.append(f"  {made['name']}: {_size(made)}")
        lines += [*(f"note: {text}" for text in self.notes)]
        return "\n".join(lines)


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _size(made: dict[str, Any]) -> str:
    known = {
        "flops": f"{made['flops']:.3g} flops",
        "bytes_accessed": f"{made['bytes_accessed']:.3g} bytes read and written",
        "argument_bytes": f"{made['argument_bytes']} bytes of arguments",
        "output_bytes": f"{made['output_bytes']} of results",
        "temp_bytes": f"{made['temp_bytes']} of temporaries",
    }
    return ", ".join(text for name, text in known.items() if made[name] >= 0) or "the plugin tells no costs"


@contextlib.contextmanager
def explain() -> Iterator[Report]:
    """Collects what torch.compile does for the device within the block: programs with their costs, graph breaks,
    recompiles and the reasons. What was compiled before is not made again: torch._dynamo.reset() forgets it.

        with torch_pjrt.explain() as report:
            step(x)
        print(report)
    """
    report = Report()
    breaks = Counter(counters["graph_break"])
    known = {id(metrics) for metrics in get_compilation_metrics()}
    _reports.append(report)
    try:
        yield report
    finally:
        _reports.remove(report)
        report.graph_breaks = dict(Counter(counters["graph_break"]) - breaks)
        for metrics in get_compilation_metrics():
            if id(metrics) not in known and metrics.co_name is not None:
                report.captures.append(
                    {
                        "function": metrics.co_name,
                        "file": metrics.co_filename,
                        "line": metrics.co_firstlineno,
                        "recompile_reason": metrics.recompile_reason,
                    }
                )
