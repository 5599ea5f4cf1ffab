"""Rules that a compiler does not check: layers, sizes, and what only one place may touch. See ARCHITECTURE.md.

Run it without arguments: it prints what breaks a rule, and its exit status says whether anything does.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_CAP, FILE_SOFT_CAP, FUNCTION_CAP = 1000, 800, 80
NATIVE = {".c", ".h", ".cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
# The layer that a public header belongs to; those that are not listed (status, dtype) are below all.
PUBLIC_LAYERS = {"tpj/pjrt.h": "pjrt", "tpj/graph.h": "ir", "tpj/lower.h": "lower", "tpj/program.h": "exec"}
# A name that only the given folders or files may use.
CONFINED = [
    (re.compile(r"\b(?:secure_)?getenv\s*\("), ("src/base/config.c",), "read settings through src/base/config.def"),
    (re.compile(r"\bPJRT_[A-Z]\w*"), ("src/pjrt/",), "only src/pjrt sees the PJRT C API"),
    (re.compile(r"\bTORCH_VERSION_M\w+"), ("glue/compat.h",), "versions of PyTorch are told apart in glue/compat.h"),
]
CONFINED_HEADERS = [
    (re.compile(r"^(ATen|c10|torch)/"), ("glue/",), "only the glue includes PyTorch"),
    (re.compile(r"^Python\.h$"), ("pyext/",), "only pyext includes Python"),
]


def read_layers() -> dict[str, int]:
    level: dict[str, int] = {}
    lines = [line.split("#")[0].split() for line in (ROOT / "src" / "LAYERS").read_text().splitlines()]
    for number, names in enumerate(filter(None, lines)):
        for name in names:
            level[name] = number
    return level


def native_files() -> Iterator[Path]:
    for folder in ("src", "include", "glue", "pyext", "tests", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in NATIVE:
                yield path


def all_files() -> Iterator[Path]:
    yield from native_files()
    for folder in ("python", "tests", "examples", "tools", "bench", "integrations"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def strip_comments(text: str) -> str:
    """Blank out comments and string literals, keeping the line numbers."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def check_includes(path: Path, name: str, text: str, level: dict[str, int]) -> Iterator[str]:
    parts = name.split("/")
    own = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        quote, header = match.groups()
        for pattern, homes, why in CONFINED_HEADERS:
            if pattern.match(header) and not name.startswith(homes):
                yield f"{name}:{number}: includes {header}: {why}"
        if quote == '"' and header.startswith("tpj/"):
            home = PUBLIC_LAYERS.get(header)
            if own and home and own != home and level[home] >= level[own] and not name.endswith("_test.c"):
                yield f"{name}:{number}: src/{own} includes {header}, which belongs to src/{home} (src/LAYERS)"
            continue
        if quote != '"':
            continue
        beside = path.parent / header
        target = beside if beside.exists() else ROOT / "src" / header
        if not target.exists():
            continue  # the compiler complains of that
        target_parts = os.path.relpath(target, ROOT).split("/")
        other = target_parts[1] if target_parts[0] == "src" and len(target_parts) > 2 else None
        if name.startswith("include/"):
            yield f"{name}:{number}: a public header includes the private {header}"
        if own is None or other is None or own == other or name.endswith("_test.c"):
            continue
        if level[other] >= level[own]:
            yield f"{name}:{number}: src/{own} includes {header} of src/{other}, which is not below it (src/LAYERS)"


def check_confined(name: str, code: str) -> Iterator[str]:
    if not name.startswith(("src/", "include/", "glue/", "pyext/")) or name.endswith("_test.c"):
        return
    for number, line in enumerate(code.splitlines(), 1):
        for pattern, homes, why in CONFINED:
            if pattern.search(line) and not name.startswith(homes):
                yield f"{name}:{number}: {line.strip()[:60]}: {why}"


def check_function_sizes(name: str, code: str) -> Iterator[str]:
    """A function's body is what lies between a line that ends with ") {" and starts at column 0, and the next "}"."""
    start = None
    for number, line in enumerate(code.splitlines(), 1):
        if start is None and re.match(r"[A-Za-z_ ].*\{\s*$", line) and ")" in line and "=" not in line:
            start = number if not line.startswith(("    ", "namespace", "struct", "enum")) else None
        elif start is not None and line.startswith("}"):
            if number - start + 1 > FUNCTION_CAP:
                yield f"{name}:{start}: a function of {number - start + 1} lines, the cap is {FUNCTION_CAP}"
            start = None


def check_size(name: str, text: str) -> Iterator[str]:
    n_lines = text.count("\n")
    if n_lines > FILE_CAP:
        yield f"{name}: {n_lines} lines, the cap is {FILE_CAP}"
    elif n_lines > FILE_SOFT_CAP:
        print(f"{name}: {n_lines} lines, more than {FILE_SOFT_CAP}: think of splitting it")


def main() -> int:
    level = read_layers()
    problems = [
        f"src/{path.name}: a folder that src/LAYERS does not name"
        for path in sorted((ROOT / "src").iterdir())
        if path.is_dir() and path.name not in level
    ]
    n_files = 0
    for path in all_files():
        n_files += 1
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        problems += check_size(name, text)
        if path.suffix in NATIVE:
            code = strip_comments(text)
            problems += check_includes(path, name, text, level)
            problems += check_confined(name, code)
            problems += check_function_sizes(name, code)
    for problem in problems:
        print(problem)
    print(f"check_sources: {n_files} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
