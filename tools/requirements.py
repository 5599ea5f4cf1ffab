"""Print requirements from pyproject.toml, one a line, for a pip that is older than dependency groups.

    python tools/requirements.py project demo group:lint   # run-time needs, an extra, a dependency group
    python tools/requirements.py --constraints             # pins the torch that is installed now

torch itself is left out of the lists: the Makefile installs it first, pinned, and never again.
"""

import importlib.metadata
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> None:
    if sys.argv[1:] == ["--constraints"]:
        print(f"torch=={importlib.metadata.version('torch')}")
        return
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines: list[str] = []
    for name in sys.argv[1:]:
        if name == "project":
            lines += data["project"]["dependencies"]
        elif name.startswith("group:"):
            lines += data["dependency-groups"][name.removeprefix("group:")]
        else:
            lines += data["project"]["optional-dependencies"][name]
    for line in dict.fromkeys(lines):
        if re.match(r"torch\b(?!-)", line) is None:
            print(line)


if __name__ == "__main__":
    main()
