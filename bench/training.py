"""One training step of a small GPT, in every way that this device and others have, in turn.

python bench/training.py [--rounds 9] [--steps 3] [--jax PYTHON] [--peer PYTHON] [--json FILE] [SIDE ..]

Each side is a process that stays: a round asks each for a few steps, so that all see the same weather. The table gives
the median and the least of the rounds, and the median of the ratios to `whole`. All begin with the same weights and
tokens, and their losses must agree. Sides:

strict, fused    PyTorch's eager mode on the device
compiled         the network under torch.compile(backend="tpu"): two programs, and the optimizer eagerly
three            that and the optimizer under torch.compile: forward, backward and optimizer, a program each
whole            torch_pjrt.compile_step: all in one program
cpu, inductor    PyTorch's CPU, eagerly and under torch.compile
jax              the same network in JAX under jax.jit (bench/jax_twin.py), with --jax, a Python that has JAX
peer             torch_tpu's eager mode on the same plugin, with --peer, a Python that has it
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OURS = ("strict", "fused", "compiled", "three", "whole")
N_LOSSES = 3


def tokens() -> Any:
    import torch

    return torch.randint(0, 256, (8, 128), generator=torch.Generator().manual_seed(1))


def build(side: str) -> Callable[[], Any]:
    """A step of the side, which returns the loss."""
    from workloads import load, model

    load("peer" if side == "peer" else "product" if side in OURS else "cpu")
    import torch

    device = "cpu" if side in ("cpu", "inductor") else "tpu"
    network, inputs = model().to(device), tokens().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, capturable=side in ("three", "whole"))
    run, update = network, optimizer.step
    if side in ("compiled", "three", "inductor"):
        run = torch.compile(network, backend="inductor" if side == "inductor" else "tpu")
    if side == "three":
        update = torch.compile(optimizer.step, backend="tpu")

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(run(inputs).flatten(0, 1), inputs.flatten())
        loss.backward()
        update()
        return loss

    if side == "whole":
        import torch_pjrt

        return torch_pjrt.compile_step(step)
    return step


def serve(step: Callable[[], Any]) -> None:
    """Prints the first losses and their seconds; then, for each line of input, the milliseconds of so many steps."""
    began = time.perf_counter()
    losses = [float(step().item()) for _ in range(N_LOSSES)]
    print(json.dumps({"losses": losses, "first s": time.perf_counter() - began}), flush=True)
    for _ in range(3):
        step().item()
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            loss = step()
        loss.item()
        print(json.dumps((time.perf_counter() - began) / int(line) * 1e3), flush=True)


def answer(process: "subprocess.Popen[str]") -> Any:
    """The next line of JSON that the process prints; what libraries print besides is passed over."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            return json.loads(line)
        except ValueError:
            continue
    sys.exit(f"{process.args!r} ended with {process.wait()}")


def save_weights(folder: Path) -> None:
    import torch
    from torch_pjrt import _safetensors
    from workloads import model

    with torch.no_grad():
        _safetensors.write(folder / "weights.safetensors", {**model().state_dict(), "tokens": tokens()})


def start(side: str, args: argparse.Namespace, folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--serve", side]
    environment = dict(os.environ)
    if side == "fused":
        environment["TORCH_PJRT_EAGER_MODE"] = "fused"
    if side in ("jax", "peer"):
        environment.pop("PYTHONPATH", None)
    if side == "jax":
        save_weights(folder)
        command = [args.jax, str(HERE / "jax_twin.py"), str(folder / "weights.safetensors")]
    if side == "peer":
        from run import plugin

        command[0], environment["PEER_PLUGIN"] = args.peer, os.environ.get("PEER_PLUGIN") or plugin()
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure(sides: list[str], args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """What each side said at first, and its milliseconds a step in each round."""
    first, rounds = {}, {side: [] for side in sides}  # type: dict[str, Any], dict[str, list[float]]
    processes: dict[str, subprocess.Popen[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for side in sides:  # one after the other: compiling is not measured, and takes all processors
                processes[side] = start(side, args, Path(folder))
                first[side] = answer(processes[side])
            for _ in range(args.rounds):
                for side, process in processes.items():
                    assert process.stdin is not None
                    process.stdin.write(f"{args.steps}\n")
                    process.stdin.flush()
                    rounds[side].append(answer(process))
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    return first, rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--jax", default="", help="a Python that has JAX")
    parser.add_argument("--peer", default="", help="a Python that has torch_tpu")
    parser.add_argument("--json", default="")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(build(args.serve))
        return
    sides = args.sides or [*OURS, "cpu", "inductor", *["jax"] * bool(args.jax), *["peer"] * bool(args.peer)]
    first, rounds = measure(sides, args)
    wanted = first[sides[0]]["losses"]
    for side in sides:
        if any(abs(a - b) > 1e-3 * b for a, b in zip(first[side]["losses"], wanted, strict=True)):
            sys.exit(f"the losses of {side} are {first[side]['losses']}, those of {sides[0]} {wanted}")
    base = "whole" if "whole" in sides else sides[0]
    print(
        f"{'step ms':12}{'median':>10}{'least':>10}{'to ' + base:>12}   (median of the ratios of {args.rounds} rounds)"
    )
    figures = {}
    for side in sides:
        ratio = statistics.median(a / b for a, b in zip(rounds[side], rounds[base], strict=True))
        figures[side] = {"median": statistics.median(rounds[side]), "least": min(rounds[side]), "ratio": ratio}
        print(f"{side:12}{figures[side]['median']:10.2f}{figures[side]['least']:10.2f}{ratio:12.3f}")
    if args.json:
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        Path(args.json).write_text(json.dumps({"training": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
