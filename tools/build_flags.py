"""Write the compiler flags of the running Python and its torch to files that a compiler reads with @file.

    python tools/build_flags.py OUTPUT_FOLDER

torch.cflags and torch.ldflags are for the glue, python.cflags for the extension. Nothing absolute ends up in the
binaries: torch's libraries are already loaded when the glue is, and are found by their names.
"""

import importlib.util
import pathlib
import sys
import sysconfig
from typing import NoReturn


def fail(message: str) -> NoReturn:
    sys.exit(f"build_flags: {message}")


def quote(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    if len(sys.argv) != 2:
        fail("usage: build_flags.py OUTPUT_FOLDER")
    output = pathlib.Path(sys.argv[1])
    headers = sysconfig.get_path("include")
    if not (pathlib.Path(headers) / "Python.h").exists():
        fail(f"{headers}/Python.h is missing: install Python's development files (Debian: apt-get install python3-dev)")
    # torch is found and not imported: its import would load the device that is being built.
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        fail(f"{sys.executable} has no torch: install it first, see README.md")
    root = pathlib.Path(spec.origin).parent
    include = root / "include"
    version: dict[str, str] = {}
    exec((root / "version.py").read_text(), version)
    major, minor = version["__version__"].split(".")[:2]

    flags = [f"-isystem {quote(str(path))}" for path in (include, include / "torch" / "csrc" / "api" / "include")]
    flags += ["-DNDEBUG", f"-DTPJ_TORCH_MAJOR={major}", f"-DTPJ_TORCH_MINOR={minor}"]
    (output / "torch.cflags").write_text("\n".join(flags) + "\n")
    libraries = [f"-L{quote(str(root / 'lib'))}", "-lc10", "-ltorch_cpu"]
    (output / "torch.ldflags").write_text("\n".join(libraries) + "\n")
    (output / "python.cflags").write_text(f"-isystem {quote(headers)}\n")


if __name__ == "__main__":
    main()
