#!/usr/bin/env python3
"""Compiles the programs of the product for TPUs that are not there, with libtpu.

    python tools/aot/run.py                                     # all of it: make aot
    python tools/aot/run.py --sources ops --ops 'linalg.*' -v    # some operators, each failure as it is found
    python tools/aot/run.py --samples 24 --targets v6e           # more samples of each operator, for one TPU

Programs are collected first (`collect.py`: PyTorch's operator database; `programs.py`: the demo and the models), each
once, and then compiled for every target. Both go on where an earlier run with the same --folder was stopped. The exit
status is 0 when every program compiles but those that known.toml names with a reason, when each target has the share
that is expected there, and when no donation is lost.
"""

import argparse
import collections
import fnmatch
import json
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "python")]

from torch_pjrt import aot  # noqa: E402

from aot import collect, programs  # noqa: E402
from aot.modules import Module, Modules  # noqa: E402

TARGETS = ("v5e", "v6e", "tpu7x")
SECONDS_PER_PROGRAM = 600
IN_FLIGHT = 32


@dataclass(frozen=True)
class Outcome:
    module: Module
    target: str
    compiled: aot.Compiled | None
    reason: str = ""  # libtpu's, where it failed

    @property
    def lost_bytes(self) -> int:
        """Of donated arguments whose memory the compiler does not use for the result."""
        return 0 if self.compiled is None else max(self.module.donated_bytes - self.compiled.memory.alias_bytes, 0)


def compile_all(modules: list[Module], target: str, folder: Path) -> Iterator[Outcome]:
    """In no order that matters. A few are in flight at a time, so that memory stays small."""
    compiler = aot.Compiler(target, store=folder / "results.sqlite", timeout=SECONDS_PER_PROGRAM)
    pending: collections.deque[tuple[Module, Future[aot.Compiled]]] = collections.deque()

    def first() -> Outcome:
        module, result = pending.popleft()
        try:
            return Outcome(module, target, result.result())
        except aot.CompileError as error:
            return Outcome(module, target, None, str(error))

    for module in modules:
        pending.append((module, compiler.submit(module.code, aot.Options(portable=True))))
        if len(pending) >= IN_FLIGHT:
            yield first()
    while pending:
        yield first()


def short_reason(reason: str) -> str:
    """Without what differs from program to program."""
    line = next((line for line in reason.splitlines() if line.strip()), "")
    return line.removeprefix("PJRT_Compile: ")[:160]


class Summary:
    """What the programs of a source come to for a target."""

    def __init__(self, source: str, target: str, outcomes: list[Outcome], known: list[dict[str, Any]]) -> None:
        self.source, self.target, self.outcomes = source, target, outcomes
        self.bad = [outcome for outcome in outcomes if outcome.compiled is None]
        self.new = [outcome for outcome in self.bad if not self._is_known(outcome, known)]
        self.lossy = [outcome for outcome in outcomes if outcome.lost_bytes > 0]

    @staticmethod
    def _is_known(outcome: Outcome, known: list[dict[str, Any]]) -> bool:
        return any(
            fnmatch.fnmatchcase(outcome.module.op, row)
            and entry["reason"] in outcome.reason
            and outcome.target in entry.get("targets", TARGETS)
            for entry in known
            for row in entry["rows"]
        )

    @property
    def percent(self) -> float:
        n = len(self.outcomes)
        return 100 * (n - len(self.bad)) / n if n else 100.0

    def rows(self) -> tuple[int, int]:
        """Of rows of the op table: how many made programs, and of how many each compiles."""
        bad = {outcome.module.op for outcome in self.bad}
        every = {outcome.module.op for outcome in self.outcomes}
        return len(every), len(every - bad)

    def line(self) -> str:
        n_rows, n_good = self.rows()
        return (
            f"{self.source:12}{self.target:8}{len(self.outcomes):9}{self.percent:11.2f}{n_rows:7}{n_good:9}"
            f"{len(self.new):6}{len(self.lossy):10}"
        )


HEADER = f"{'source':12}{'target':8}{'programs':>9}{'% compile':>11}{'rows':>7}{'all well':>9}{'new':>6}{'lost':>10}"


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--targets", default=",".join(TARGETS), help="comma list of chips, one each")
    p.add_argument("--sources", default="ops," + ",".join(programs.SOURCES), help="comma list; default all")
    p.add_argument("--ops", default="", help="comma list of names of operators, or patterns; default all")
    p.add_argument("--stride", type=int, default=1, help="every n-th operator and dtype")
    p.add_argument("--samples", type=int, default=collect.SAMPLES, help="of each operator and dtype")
    p.add_argument("--folder", type=Path, default=Path("out/aot"), help="what has been done; remove it to begin anew")
    p.add_argument("--json", type=Path, help="write all outcomes here")
    p.add_argument("-v", action="store_true", help="each failure as it is found, on stderr")
    return p.parse_args()


def collect_all(args: argparse.Namespace, sources: list[str]) -> list[Module]:
    args.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    if "ops" in sources:
        rows = collect.collect(args.folder, args.ops, args.stride, args.samples, n_workers=2)
        states = collections.Counter(row.state for row in rows)
        print("operators and dtypes:", ", ".join(f"{state} {n}" for state, n in states.most_common()))
    made = programs.collect(args.folder, [source for source in sources if source != "ops"])
    modules = [module for module in Modules(args.folder / "modules.sqlite") if module.source in sources]
    print(f"{len(modules)} programs, {time.monotonic() - began:.0f} s", flush=True)
    if not made:
        sys.exit(1)
    return modules


def report(summaries: list[Summary], known: dict[str, Any]) -> bool:
    """Whether all is as it should be."""
    print(HEADER, *(summary.line() for summary in summaries), sep="\n")
    good = True
    for summary in summaries:
        by_reason = collections.defaultdict(list)
        for outcome in summary.new:
            by_reason[short_reason(outcome.reason)].append(outcome)
        for reason, outcomes in sorted(by_reason.items(), key=lambda item: -len(item[1])):
            rows = ", ".join(sorted({outcome.module.op for outcome in outcomes}))
            print(f"new: {summary.target}: {len(outcomes)} programs of {rows}: {reason}")
        for outcome in summary.lossy:
            print(f"lost: {summary.target}: {outcome.module.op}: {outcome.lost_bytes} bytes ({outcome.module.case})")
        if summary.percent < known["at_least"]:
            print(f"{summary.source}, {summary.target}: {summary.percent:.2f} % compile, not {known['at_least']} %")
        good = good and not summary.new and not summary.lossy and summary.percent >= known["at_least"]
    return good


def main() -> int:
    args = parse()
    sources = [source for source in args.sources.split(",") if source]
    known = tomllib.loads((HERE / "known.toml").read_text())
    modules = collect_all(args, sources)
    summaries: list[Summary] = []
    for target in args.targets.split(","):
        began, outcomes = time.monotonic(), collections.defaultdict(list)
        for outcome in compile_all(modules, target, args.folder):
            outcomes[outcome.module.source].append(outcome)
            if args.v and outcome.compiled is None:
                print(f"{target} {outcome.module.op:32}{short_reason(outcome.reason)}", file=sys.stderr, flush=True)
        summaries += [Summary(source, target, outcomes[source], known["known"]) for source in sources]
        print(f"{target}: {time.monotonic() - began:.0f} s", flush=True)
    if args.json:
        rows = [
            {
                "target": outcome.target,
                "op": outcome.module.op,
                "case": outcome.module.case,
                "digest": outcome.module.digest,
                "reason": outcome.reason,
                "lost_bytes": outcome.lost_bytes,
            }
            for summary in summaries
            for outcome in summary.outcomes
        ]
        args.json.write_text(json.dumps(rows, indent=1))
    return 0 if report(summaries, known) else 1


if __name__ == "__main__":
    sys.exit(main())
