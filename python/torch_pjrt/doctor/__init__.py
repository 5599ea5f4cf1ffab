"""`torch_pjrt doctor`: what this machine has, what stands in the way of the device, and what to do about it.

Whatever may hang or end its process (importing torch, loading a plugin, the device's first use) runs in a child with a
time limit. Nothing here asks a metadata server.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"


@dataclass(frozen=True)
class Finding:
    """One line of the report. `level`: "error" is what keeps the device from working, "warning" what may hurt."""

    name: str  # "libtpu"
    level: str
    text: str
    advice: str = ""  # what to do; errors and warnings have it
    facts: dict[str, Any] = field(default_factory=dict)  # for --json


def examine(seconds: float) -> list[Finding]:
    from torch_pjrt.doctor import _device, _environment, _machine

    checks: list[Callable[[], Iterator[Finding]]] = [
        _machine.check_machine,
        _machine.check_memory,
        _machine.check_packages,
        _environment.check_environment,
    ]
    if not _machine.missing_files():  # what follows asks the core
        checks += [
            _machine.check_tpu,
            lambda: _device.check_libtpu(seconds),
            lambda: _device.check_device(seconds),
        ]
    checks.append(_machine.check_cache)
    return [finding for check in checks for finding in check()]


SIGNS = {OK: "ok", NOTE: "note", WARNING: "WARN", ERROR: "ERROR"}


def as_text(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        first, *rest = finding.text.splitlines() or [""]
        lines.append(f"{SIGNS[finding.level]:6}{finding.name:12}{first}")
        lines += [" " * 18 + line for line in rest]
        if finding.advice:
            lines += [
                " " * 18 + ("-> " if i == 0 else "   ") + line for i, line in enumerate(finding.advice.splitlines())
            ]
    n_errors = sum(finding.level == ERROR for finding in findings)
    n_warnings = sum(finding.level == WARNING for finding in findings)
    verdict = "device tpu works" if not n_errors else 'device "tpu" does not work as it should'
    lines.append(f"{verdict}: {n_errors} errors, {n_warnings} warnings")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """0: the device works, perhaps with warnings; 1: it does not."""
    findings = examine(args.timeout)
    usable = not any(finding.level == ERROR for finding in findings)
    if args.json:
        print(json.dumps({"usable": usable, "findings": [asdict(finding) for finding in findings]}, indent=1))
    else:
        print(as_text(findings))
    return 0 if usable else 1


def add_command(commands: Any) -> None:
    help = "Check the machine, torch, the plugin, libtpu, the environment and the device, and say what to do."
    parser = commands.add_parser("doctor", help=help, description=help)
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="SECONDS", help="for the device's first use, and for libtpu's (60)"
    )
    parser.set_defaults(run=run)
