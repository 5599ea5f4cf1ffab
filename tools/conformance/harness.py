"""Runs the cases of a section in worker processes: a case may raise, hang or end its process, and the run goes on.

A worker appends a START row to a file of JSON lines before each case, and a row with the outcome after it. When it
dies, the case that was begun is the one that crashed; the next worker skips every case that has a row. The file is so
all the state there is, and a run that was interrupted goes on with the same file.
"""

import fnmatch
import importlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SECONDS_PER_CASE = 60  # of processor time: how busy the machine is changes no outcome
SECONDS_UNTIL_KILLED = 600  # without a sign of life
OK, NO_SAMPLE, CRASH, TIMEOUT = "OK", "NO_SAMPLE", "CRASH", "TIMEOUT"
DETAIL_LENGTH = 400


class Mismatch(Exception):
    """The device differs from the CPU: `state` is the kind of difference, in capitals."""

    def __init__(self, state: str, detail: str = "") -> None:
        super().__init__(f"{state}: {detail}")
        self.state, self.detail = state, detail


class NoSample(Exception):
    """Nothing to compare: PyTorch has no sample of this kind, or the CPU refuses each. Not counted."""


@dataclass(frozen=True)
class Case:
    """One comparison. `run` returns a remark, and raises Mismatch, NoSample or what the device raised."""

    name: str
    dtype: str  # "float32", or "" where it does not apply
    run: Callable[[], str]
    group: str = ""  # another name by which --ops finds it: an OpInfo's name without the variant


@dataclass(frozen=True)
class Row:
    section: str
    name: str
    dtype: str
    state: str
    detail: str = ""
    fallbacks: list[str] = field(default_factory=list)  # the ops that ran on the CPU

    @property
    def key(self) -> str:
        return f"{self.name} {self.dtype}".rstrip()


@dataclass(frozen=True)
class Selection:
    """Which cases of a section run."""

    ops: list[str] = field(default_factory=list)  # patterns of names; none: all
    dtypes: list[str] = field(default_factory=list)
    stride: int = 1
    offset: int = 0

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    def of(self, cases: Iterable[Case]) -> Iterator[Case]:
        for k, case in enumerate(cases):
            names = (case.name, case.group)
            if k % self.stride != self.offset or (self.dtypes and case.dtype and case.dtype not in self.dtypes):
                continue
            if not self.ops or any(fnmatch.fnmatchcase(name, op) for name in names for op in self.ops):
                yield case


def read_rows(path: Path, section: str) -> list[Row]:
    """The rows of one section; the last line may be cut off by the end of a process."""
    rows = []
    for line in path.read_text().split("\n"):
        try:
            row = Row(**json.loads(line))
        except ValueError:
            continue
        if row.section == section:
            rows.append(row)
    return rows


def append_row(path: Path, row: Row) -> None:
    with path.open("a") as file:
        file.write(json.dumps(asdict(row)) + "\n")


# ---- in the worker --------------------------------------------------------------------------------------------------


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    def raise_timeout(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, raise_timeout)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def one_line(text: object) -> str:
    return " ".join(str(text).split())[:DETAIL_LENGTH]


def outcome(case: Case) -> tuple[str, str]:
    try:
        with alarm(SECONDS_PER_CASE):
            return OK, case.run()
    except Mismatch as e:
        return e.state, e.detail
    except NoSample as e:
        return NO_SAMPLE, str(e)
    except TimeoutError:
        return TIMEOUT, f"more than {SECONDS_PER_CASE} s"
    except NotImplementedError as e:
        return "NOT_IMPLEMENTED", str(e)
    except Exception as e:
        return "ERROR", f"{type(e).__name__}: {e}"


def work(section: str, selection: Selection, path: Path) -> None:
    """The worker: runs each case that has no row yet."""
    import torch
    from torch_pjrt import tpu

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    done = {row.key for row in read_rows(path, section) if row.state != "START"}
    module = importlib.import_module(f"conformance.sections.{section}")
    for case in selection.of(module.cases()):
        row = Row(section, case.name, case.dtype, "START")
        if row.key in done:
            continue
        append_row(path, row)
        tpu.reset_fallbacks()
        state, detail = outcome(case)
        fallbacks = sorted(tpu.fallbacks())
        append_row(path, Row(section, case.name, case.dtype, state, one_line(detail), fallbacks))


# ---- around it ------------------------------------------------------------------------------------------------------


def is_stuck(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > SECONDS_UNTIL_KILLED


def run_section(command: list[str], section: str, path: Path, progress: Callable[[Row], None]) -> list[Row]:
    """Starts workers (`command`) until one ends in peace. Returns a row for each case."""
    n_told = 0

    def tell() -> list[Row]:
        nonlocal n_told
        rows = [row for row in read_rows(path, section) if row.state != "START"]
        for row in rows[n_told:]:
            progress(row)
        n_told = len(rows)
        return rows

    while True:
        path.touch()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            killed = False
            while process.poll() is None:
                try:
                    process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    tell()
                    if is_stuck(path):
                        killed = True
                        process.kill()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        if process.returncode == 0:
            return tell()
        rows = read_rows(path, section)
        if not rows or rows[-1].state != "START":
            sys.exit(f"{section}: the worker ended with {process.returncode} outside of a case:\n{said[-2000:]}")
        died = (TIMEOUT, "killed") if killed else (CRASH, f"exit {process.returncode}: {said[-200:]}")
        append_row(path, Row(section, rows[-1].name, rows[-1].dtype, died[0], one_line(died[1])))
