"""Running Python in a process of its own: for what concerns importing, forking, settings and plugins."""

import os
import subprocess
import sys

TIMEOUT = 120


def run(code: str, *options: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` with TORCH_PJRT_* as given here and not as in the caller's environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_PJRT_")}
    finished = subprocess.run(
        [sys.executable, *options, "-c", code],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if check:
        assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished
