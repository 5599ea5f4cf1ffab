"""The folder of compiled programs, seen from outside. The files are those of src/cache/disk.c."""

import argparse
import collections
import os
import re
import struct
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER = struct.Struct("=5Q")  # magic, checksum, bytes of the client's text, of the module and of the program
MAGIC = 0x315045434A505401
NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{30}\.program")  # under the folder
SIGNATURE = re.compile(r"function_type = (.*?), sym_name")
INSTRUCTION = re.compile(r'^%\S* = "', re.M)


@dataclass(frozen=True)
class Program:
    """A kept program. `client` is the text that tells compilers and machines apart, `module` the StableHLO text."""

    path: Path
    n_bytes: int
    last_use: float  # seconds since the epoch, to the hour
    client: str
    module: str

    @property
    def target(self) -> str:
        """The plugin and its platform, on one line."""
        facts = dict(line.split(": ", 1) for line in self.client.splitlines() if ": " in line)
        plugin = facts.get("plugin", "?").split(",")[0]
        return f"{plugin} ({facts.get('platform', '?').split(',')[0]}, {facts.get('devices', '?')})"

    @property
    def signature(self) -> str:
        found = SIGNATURE.search(self.module)
        return found[1] if found else "?"


def read(path: Path) -> Program | None:
    """None for a file that is damaged or of another version: the device takes such a one for missing."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            magic, _, n_client, n_module, n_program = HEADER.unpack(file.read(HEADER.size))
            if magic != MAGIC or HEADER.size + n_client + n_module + n_program != status.st_size:
                return None
            client, module = file.read(n_client).decode(), file.read(n_module).decode()
    except (OSError, ValueError, struct.error):
        return None
    return Program(path, status.st_size, status.st_mtime, client, module)


def files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.glob("??/*.program")):
        if NAME.fullmatch(path.relative_to(folder).as_posix()):
            yield path


def programs(folder: Path) -> list[Program]:
    return [program for path in files(folder) if (program := read(path)) is not None]


def shown_bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"


def shown_age(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600)):
        if seconds >= size:
            n = int(seconds // size)
            return f"{n} {unit}{'s' if n > 1 else ''} ago"
    return "this hour"


# ---- the commands ---------------------------------------------------------------------------------------------------


def ls(folder: Path, args: argparse.Namespace) -> int:
    """List the programs, those that were used last first: size, last use, instructions, parameters and results."""
    now = time.time()
    for program in sorted(programs(folder), key=lambda program: -program.last_use):
        n = len(INSTRUCTION.findall(program.module))
        age = shown_age(now - program.last_use)
        print(f"{shown_bytes(program.n_bytes):>10}  {age:13} {n:5} instructions  {program.signature}")
    return 0


def stats(folder: Path, args: argparse.Namespace) -> int:
    """Say how many programs there are, of which size, and for which plugin."""
    found = programs(folder)
    n_damaged = sum(1 for _ in files(folder)) - len(found)
    print(f"{folder}: {len(found)} programs, {shown_bytes(sum(program.n_bytes for program in found))}")
    by_target = collections.defaultdict(list)
    for program in found:
        by_target[program.target].append(program.n_bytes)
    for target, sizes in sorted(by_target.items()):
        print(f"  {target}: {len(sizes)} programs, {shown_bytes(sum(sizes))}")
    if n_damaged:
        print(f"  damaged, or of another version: {n_damaged}; such a file goes when it is looked up, or with `clear`")
    return 0


def prune(folder: Path, args: argparse.Namespace) -> int:
    """Remove the programs that were not used for longest until the rest fits, with a quarter to spare."""
    from torch_pjrt import _C

    if not folder.is_dir():
        return 0
    print(f"{shown_bytes(_C.cache_prune(folder, args.bytes))} stay")
    return 0


def clear(folder: Path, args: argparse.Namespace) -> int:
    """Remove all programs."""
    found = list(files(folder))
    for path in found:
        path.unlink(missing_ok=True)
    print(f"{len(found)} programs removed")
    return 0


def export(folder: Path, args: argparse.Namespace) -> int:
    """Write all programs into a tar file, for another machine of the same kind."""
    n = 0
    with tarfile.open(args.file, "w") as archive:
        for program in programs(folder):
            archive.add(program.path, program.path.relative_to(folder).as_posix(), recursive=False)
            n += 1
    print(f"{n} programs written to {args.file}")
    return 0


def import_(folder: Path, args: argparse.Namespace) -> int:
    """Take the programs of a tar file that `export` wrote. Those of other plugins or machines do no harm."""
    n = 0
    with tarfile.open(args.file, "r") as archive:
        for member in archive:
            file = archive.extractfile(member) if NAME.fullmatch(member.name) and member.isreg() else None
            if file is None:
                raise ValueError(f"{args.file}: {member.name!r} is no program; nothing after it was taken")
            _put(folder / member.name, file.read())
            n += 1
    print(f"{n} programs taken into {folder}")
    return 0


def _put(path: Path, data: bytes) -> None:
    """Under its name when it is whole, as the device writes it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.parent.parent / f"draft-{os.getpid()}-import"
    draft.write_bytes(data)
    draft.chmod(0o600)
    draft.replace(path)


def _bytes(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, such as 500M")
    return int(match[1]) << units.get(match[2], 0)


def add_command(commands: Any) -> None:
    """`cache` and what can be done with it."""
    parser = commands.add_parser("cache", help="The folder of compiled programs.", description=__doc__)
    parser.add_argument("--dir", type=Path, help="the folder; default the one that the settings name")
    actions = parser.add_subparsers(dest="action", required=True)

    def add(name: str, action: Any) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=action.__doc__, description=action.__doc__)
        added.set_defaults(run=lambda args: run(action, args))
        return added

    for name, action in (("ls", ls), ("stats", stats), ("clear", clear)):
        add(name, action)
    add("prune", prune).add_argument("--bytes", type=_bytes, default=0, help="that may stay, such as 500M; default 0")
    add("export", export).add_argument("file", type=Path, help="a tar file that is written")
    add("import", import_).add_argument("file", type=Path, help="a tar file that `export` wrote")


def run(action: Any, args: argparse.Namespace) -> int:
    import torch  # noqa: F401, it brings the libraries that _C needs

    from torch_pjrt import _C

    folder = args.dir
    if folder is None:
        _C.load_settings()
        named = _C.cache_folder()
        if named is None:
            print("nothing is kept: TORCH_PJRT_CACHE_DIR is none, TORCH_PJRT_CACHE_BYTES is 0, or there is no HOME")
            return 1
        folder = Path(named)
    result: int = action(folder, args)
    return result
