"""`torch_pjrt plan` and `torch_pjrt compile`."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_pjrt.aot import Compiled, Compiler, Target, Unavailable

if TYPE_CHECKING:
    from torch_pjrt.plan._core import Core
    from torch_pjrt.plan._script import Recording


def _target(text: str) -> Target:
    try:
        return Target.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _record(args: argparse.Namespace, version: str, memory_bytes: int) -> "tuple[Core, Recording]":
    """Run the script on the planning device, which presents itself as the target."""
    from torch_pjrt.plan import _script

    try:
        core = _script.choose(args.target, execute=args.execute, version=version, memory_bytes=memory_bytes)
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return core, _script.run(
        core,
        args.script,
        args.args,
        args.target,
        execute=args.execute,
        memory_bytes=memory_bytes,
        true_after=args.true_after,
    )


def plan(args: argparse.Namespace) -> int:
    """Run a script on a TPU that is not there: what it compiles and launches, its memory, the best step time."""
    compiler = None
    version, memory = "", args.target.chip.memory_bytes // args.target.chip.devices_per_chip
    if not args.no_compile:
        try:
            compiler = Compiler(args.target, timeout=args.timeout)
            version, memory = compiler.version, compiler.memory_bytes
        except Unavailable as error:
            print(f"torch_pjrt: programs are recorded and not compiled: {error}", file=sys.stderr)
    _, recording = _record(args, version, memory)

    from torch_pjrt.plan import _advice, _analysis, _html, _text

    made = _analysis.analyse(recording, compiler)
    made.advice = _advice.advise(made)
    print(_text.report(made), end="")
    if args.json:
        args.json.write_text(json.dumps(made.to_json(), indent=1) + "\n")
    if args.html:
        args.html.write_text(_html.page(made))
    return 1 if recording.error else 0 if made.fits else 2


def compile_(args: argparse.Namespace) -> int:
    """Compile what a script launches for a TPU, into the folder of programs: there, its first step compiles nothing."""
    compiler = Compiler(args.target, timeout=args.timeout)
    core, recording = _record(args, compiler.version, compiler.memory_bytes)

    from torch_pjrt import _C
    from torch_pjrt.plan import _analysis

    folder = args.dir or _C.cache_folder()
    if folder is None:
        raise ValueError("programs are kept nowhere (TORCH_PJRT_CACHE_DIR, TORCH_PJRT_CACHE_BYTES): give --dir")
    groups, _ = _analysis.group(recording.programs)
    results = _analysis.compile_all(compiler, recording.programs, groups, serialized=True)
    n_kept = n_bytes = 0
    for numbers, result in zip(groups, results, strict=True):
        program = recording.programs[numbers[0]]
        if not isinstance(result, Compiled) or result.serialized is None:
            print(f"torch_pjrt: not compiled: {result}", file=sys.stderr)
            continue
        core.keep(
            Path(folder), compiler.libtpu, compiler.version, compiler.device_kind, program.options, program.module,
            result.serialized,
        )  # fmt: skip
        n_kept, n_bytes = n_kept + 1, n_bytes + len(result.serialized)
    seconds = sum(result.seconds for result in results if isinstance(result, Compiled))
    print(
        f"{n_kept} of {len(groups)} programs for {args.target.name} ({seconds:.1f} s of compiling, "
        f"{n_bytes / 2**20:.1f} MiB) are in {folder}"
    )
    return 1 if recording.error or n_kept < len(groups) else 0


def add_commands(commands: Any) -> None:
    for name, run in (("plan", plan), ("compile", compile_)):
        parser = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        parser.add_argument("--target", type=_target, required=True, help="chips and their grid, such as v6e:2x4")
        parser.add_argument(
            "--execute", action="store_true", help="let the CPU compute; else reads give 0, and nothing is computed"
        )
        parser.add_argument(
            "--true-after",
            type=int,
            default=32,
            metavar="N",
            help="a bool that is read at one line is false N times and then true, so that loops end; default 32",
        )
        parser.add_argument("--timeout", type=float, default=1800, help="seconds for one program; default 1800")
        if name == "plan":
            parser.add_argument("--json", type=Path, help="a file for all figures")
            parser.add_argument("--html", type=Path, help="a file for the page")
            parser.add_argument("--no-compile", action="store_true", help="record only; temporaries are not known then")
        else:
            parser.add_argument("--dir", type=Path, help="the folder of programs; default the one of the settings")
        parser.add_argument("script", help="a Python file")
        parser.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
        parser.set_defaults(run=run)
