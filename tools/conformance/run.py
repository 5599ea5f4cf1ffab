#!/usr/bin/env python3
"""Compares device "tpu" with the CPU, over the databases of tests that PyTorch ships (torch.testing._internal).

    python tools/conformance/run.py                                 # every section
    python tools/conformance/run.py errors,out --ops 'add,linalg.*' -v
    python tools/conformance/run.py ops --dtypes bfloat16 --stride 20 --offset 3
    python tools/conformance/run.py --rows run.jsonl --json run.json   # goes on where the file of rows ends

The exit status is 0 when every case agrees but the known differences of expected.toml, and each section that ran in
full has the share that is expected of it there.
"""

import argparse
import collections
import fnmatch
import json
import sys
import tempfile
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from conformance import harness  # noqa: E402
from conformance.sections import SECTIONS  # noqa: E402


class Summary:
    """What the rows of a section come to, beside what is expected of it."""

    def __init__(self, section: str, rows: list[harness.Row], expected: dict[str, Any]) -> None:
        self.section = section
        self.rows = [row for row in rows if row.state != harness.NO_SAMPLE]
        self.states = collections.Counter(row.state for row in self.rows)
        self.by_cpu = [row for row in self.rows if row.state == harness.OK and row.fallbacks]
        known = expected.get("known", {})
        self.reasons = {
            row.key: reason for row in self.bad for p, reason in known.items() if fnmatch.fnmatch(row.key, p)
        }
        self.unmet = [p for p in known if not any(fnmatch.fnmatch(row.key, p) for row in self.bad)]
        self.news = [row for row in self.bad if row.key not in self.reasons]
        self.at_least = float(expected.get("at_least", 100))

    @property
    def bad(self) -> list[harness.Row]:
        return [row for row in self.rows if row.state != harness.OK]

    def percent(self, n: int) -> float:
        return 100 * n / len(self.rows) if self.rows else 100.0

    @property
    def agreement(self) -> float:
        return self.percent(self.states[harness.OK])

    def line(self) -> str:
        others = ", ".join(f"{state} {n}" for state, n in self.states.most_common() if state != harness.OK)
        return (
            f"{self.section:10}{len(self.rows):7}{self.states[harness.OK]:7}{self.agreement:9.2f}"
            f"{self.percent(len(self.by_cpu)):9.2f}{len(self.reasons):7}{len(self.news):6}  {others}"
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "cases": len(self.rows),
            "states": dict(self.states),
            "percent_ok": self.agreement,
            "percent_ok_by_way_of_cpu": self.percent(len(self.by_cpu)),
            "fallbacks": dict(collections.Counter(op for row in self.by_cpu for op in row.fallbacks).most_common()),
            "known": self.reasons,
            "new": [row.key for row in self.news],
            "rows": [asdict(row) for row in self.rows],
        }


HEADER = f"{'section':10}{'cases':>7}{'OK':>7}{'% OK':>9}{'% by CPU':>9}{'known':>7}{'new':>6}  states"


def show(row: harness.Row) -> None:
    if row.state not in (harness.OK, harness.NO_SAMPLE):
        print(f"{row.section} {row.state:16}{row.name:44}{row.dtype:10}{row.detail[:160]}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sections", nargs="?", default="", help=f"of {', '.join(SECTIONS)}; default all")
    p.add_argument("--ops", default="", help="comma list of names or patterns")
    p.add_argument("--dtypes", default="", help="comma list; default those of the section")
    p.add_argument("--stride", type=int, default=1, help="every n-th case")
    p.add_argument("--offset", type=int, default=0, help="the first of them")
    p.add_argument("--json", type=Path, help="write the summary and all rows here")
    p.add_argument("--rows", type=Path, help="keep the rows here as they come; a run with rows goes on after them")
    p.add_argument("--at-least", type=float, help="the %% that must agree, in place of expected.toml")
    p.add_argument("-v", action="store_true", help="each difference as it is found, on stderr")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    args.sections = [name for name in args.sections.split(",") if name] or list(SECTIONS)
    for name in args.sections:
        if name not in SECTIONS:
            p.error(f"no section {name!r}: there are {', '.join(SECTIONS)}")
    return args


def split(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def main() -> int:
    args = parse()
    selection = harness.Selection(split(args.ops), split(args.dtypes), args.stride, args.offset)
    if args.worker:
        for section in args.sections:
            harness.work(section, selection, args.rows)
        return 0
    expected = tomllib.loads((HERE / "expected.toml").read_text())
    summaries = []
    with tempfile.TemporaryDirectory() as folder:
        rows = args.rows or Path(folder, "rows.jsonl")
        chosen = [
            "--ops",
            args.ops,
            "--dtypes",
            args.dtypes,
            "--stride",
            str(args.stride),
            "--offset",
            str(args.offset),
        ]
        for section in args.sections:
            command = [sys.executable, __file__, section, *chosen, "--worker", f"--rows={rows}"]
            found = harness.run_section(command, section, rows, show if args.v else lambda row: None)
            summaries.append(Summary(section, found, expected.get(section, {})))
    print(HEADER, *(summary.line() for summary in summaries), sep="\n")
    for summary in summaries:
        for row in summary.news:
            print(f"new: {row.section}: {row.key}: {row.state} {row.detail[:120]}")
        for pattern in summary.unmet if selection.is_everything else []:
            print(f"agrees now: {summary.section}: {pattern}")
    if args.json:
        args.json.write_text(json.dumps({summary.section: summary.as_dict() for summary in summaries}, indent=1))
    if args.at_least is not None:
        return int(any(summary.agreement < args.at_least for summary in summaries))
    below = [summary for summary in summaries if selection.is_everything and summary.agreement < summary.at_least]
    for summary in below:
        print(f"{summary.section}: {summary.agreement:.2f} % agree, {summary.at_least} % are expected")
    return int(bool(below) or any(summary.news for summary in summaries))


if __name__ == "__main__":
    sys.exit(main())
