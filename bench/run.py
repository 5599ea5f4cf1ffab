"""A table of times: this device beside PyTorch's CPU or, with --peer, beside torch_tpu on the same plugin.

python bench/run.py [--rounds 3] [--peer PYTHON] [--json FILE] [ops] [train] [decode]

The two take turns, a process each, so that both see the same weather; the ratio is the median over the rounds. PYTHON
is an interpreter that has torch_tpu. The parts of a call come from build/bench/dispatch, where it is built.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DISPATCH = HERE.parent / "build" / "bench" / "dispatch"


def plugin() -> str:
    code = "from torch_pjrt import _discovery; print(_discovery.discover().path)"
    return (
        os.environ.get("TORCH_PJRT_PLUGIN") or subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    )


def run(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)} failed with {finished.returncode}:\n{finished.stderr[-2000:]}")
    return json.loads(lines[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", default="", help="a Python that has torch_tpu")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    workloads = str(HERE / "workloads.py")
    other = [args.peer, workloads, "peer"] if args.peer else [sys.executable, workloads, "cpu"]
    environment = {**os.environ, "PEER_PLUGIN": plugin(), "TORCH_PJRT_PLUGIN": plugin()}
    foreign = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(run([sys.executable, workloads, "product", *args.workloads], environment))
        theirs.append(run([*other, *args.workloads], foreign if args.peer else environment))
    rows = {
        name: {
            "product": min(a[name] for a in ours),
            other[2]: min(b[name] for b in theirs),
            "ratio": statistics.median(a[name] / b[name] for a, b in zip(ours, theirs, strict=True)),
        }
        for name in ours[0]
        if name in theirs[0]
    }
    print(f"{'':28}{'product':>12}{other[2]:>12}{'ratio':>10}   (best of {args.rounds}; median ratio)")
    for name, row in rows.items():
        print(f"{name:28}{row['product']:12.3f}{row[other[2]]:12.3f}{row['ratio']:10.3f}")
    parts = {}
    if DISPATCH.exists():
        parts = run([str(DISPATCH), plugin()], environment)
        for name, value in parts.items():
            print(f"{name:28}{value:12.1f}")
    if args.json:
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        Path(args.json).write_text(json.dumps({"against": other[2], "figures": rows, "parts": parts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
