"""Train a byte-level GPT on the source of Python's own standard library.

    python examples/train_gpt.py --device tpu
    python examples/train_gpt.py --device cpu --compare out/train_gpt_tpu.json

Ordinary PyTorch: nothing here knows what device it runs on but the report at the end. Initial weights and the order of
the data come from a seeded generator on the CPU, so they are the same on every device. What differs is the order in
which floating-point sums are taken, and the masks of dropout, which each device draws from its own generator. So

  * with --dropout 0, the training losses of two devices agree to 1e-4 in each of the first 100 steps;
  * with dropout, the means of the last 50 training losses agree to 0.03, and so do the held-out losses (two seeds of
    dropout on one device differ by 0.01).

--compare checks this, and the exit status says whether it holds.
"""

import argparse
import json
import math
import sys
import sysconfig
import time
import zlib
from pathlib import Path

import torch
from gpt import GPT, Config, generate, parameter_groups
from safetensors.torch import load_model, save_model
from tqdm import tqdm

LOGITS_TOLERANCE = 1e-4  # largest difference between the device's logits and the CPU's
CURVE_STEPS, CURVE_TOLERANCE = 100, 1e-4  # without dropout: each of the first losses
TAIL_STEPS, TAIL_TOLERANCE = 50, 0.03  # with dropout: the mean of the last losses, and the held-out loss
HELD_OUT_BATCHES = 20


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--dropout", type=float, default=Config.dropout)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the files that are written")
    parser.add_argument("--json", type=Path, help="the results (default: OUT/train_gpt_DEVICE.json)")
    parser.add_argument("--compare", type=Path, help="another run's JSON file: overlay both, check that they agree")
    return parser.parse_args()


def read_standard_library() -> tuple[torch.Tensor, torch.Tensor]:
    """The bytes of the training files and of the held-out files. Which a file is depends on its name alone."""
    root = Path(sysconfig.get_path("stdlib"))
    apart = {"site-packages", "dist-packages", "test", "tests", "idlelib", "__pycache__"}
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if not apart.intersection(name.parts):
            is_held_out = zlib.crc32(name.as_posix().encode()) % 10 == 0
            parts[is_held_out].append(path.read_bytes())
    train, held_out = (torch.frombuffer(bytearray(b"\n".join(part)), dtype=torch.uint8) for part in parts)
    return train, held_out


def draw_batch(text: torch.Tensor, batch: int, context: int, generator: torch.Generator, device: torch.device):
    start = torch.randint(len(text) - context - 1, (batch, 1), generator=generator)
    window = text[start + torch.arange(context + 1)].long()
    return window[:, :-1].to(device, non_blocking=True), window[:, 1:].to(device, non_blocking=True)


def learning_rate_factor(step: int, n_steps: int) -> float:
    """Linear warm-up over the first twentieth, then a cosine down to a tenth."""
    warmup = max(1, n_steps // 20)
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, n_steps - warmup)))


def train(model: GPT, text: torch.Tensor, args: argparse.Namespace, device: torch.device) -> tuple[list[float], float]:
    """The loss of each step, and tokens per second once the first tenth, which compiles, is behind."""
    order = torch.Generator().manual_seed(args.seed + 1)
    optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=0.1), lr=args.lr, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, args.steps))
    tokens_per_step = args.batch * model.config.context
    losses: list[torch.Tensor] = []
    warm_steps = args.steps // 10
    warm_time = window_time = time.perf_counter()
    window_step = 0
    model.train()
    with tqdm(total=args.steps, unit="step", mininterval=0.5 if sys.stderr.isatty() else 10) as bar:
        for step in range(args.steps):
            data, target = draw_batch(text, args.batch, model.config.context, order, device)
            loss = model.loss(data, target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
            if step + 1 == warm_steps:
                loss.item()
                warm_time = time.perf_counter()
            if step % 10 == 9 or step + 1 == args.steps:
                value = loss.item()  # waits for the device, so only now and then
                now = time.perf_counter()
                rate = tokens_per_step * (step + 1 - window_step) / (now - window_time)
                window_step, window_time = step + 1, now
                bar.set_postfix_str(f"loss {value:.3f}, {rate:,.0f} tokens/s", refresh=False)
                bar.update(step + 1 - bar.n)
    rate = tokens_per_step * (args.steps - warm_steps) / (time.perf_counter() - warm_time)
    return torch.stack(losses).tolist(), rate


@torch.no_grad()
def held_out_loss(model: GPT, text: torch.Tensor, args: argparse.Namespace, device: torch.device) -> float:
    order = torch.Generator().manual_seed(args.seed + 2)
    model.eval()
    batches = (draw_batch(text, args.batch, model.config.context, order, device) for _ in range(HELD_OUT_BATCHES))
    return torch.stack([model.loss(data, target) for data, target in batches]).mean().item()


@torch.no_grad()
def check_on_cpu(model: GPT, path: Path, text: torch.Tensor, args: argparse.Namespace, device: torch.device) -> float:
    """Save the model, load it on the CPU, and return the largest difference between the logits of the two."""
    save_model(model, str(path))
    copy = GPT(model.config)
    load_model(copy, str(path))
    copy.eval()
    order = torch.Generator().manual_seed(args.seed + 3)
    data, _ = draw_batch(text, args.batch, model.config.context, order, torch.device("cpu"))
    return (model(data.to(device)).cpu() - copy(data)).abs().max().item()


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def agree(ours: dict, other: dict) -> bool:
    """Print how far two runs are apart, by the rule in this file's docstring."""
    same = ("steps", "batch", "dropout", "lr", "seed")
    different = [name for name in same if ours["arguments"][name] != other["arguments"][name]]
    if different:
        print(f"not comparable: {', '.join(different)} differ")
        return False
    if ours["arguments"]["dropout"] == 0:
        pairs = list(zip(ours["losses"], other["losses"], strict=True))[:CURVE_STEPS]
        checks = [(f"first {len(pairs)} losses", max(abs(a - b) for a, b in pairs), CURVE_TOLERANCE)]
    else:
        tail = abs(mean(ours["losses"][-TAIL_STEPS:]) - mean(other["losses"][-TAIL_STEPS:]))
        checks = [
            (f"mean of the last {TAIL_STEPS} losses", tail, TAIL_TOLERANCE),
            ("held-out loss", abs(ours["held_out_loss"] - other["held_out_loss"]), TAIL_TOLERANCE),
        ]
    for what, difference, tolerance in checks:
        print(f"{ours['device']} and {other['device']}: {what}: differ by {difference:.2e}, allowed {tolerance:.0e}")
    return all(difference <= tolerance for _, difference, tolerance in checks)


def draw_curves(runs: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for run in runs:
        losses, span = run["losses"], 20
        smooth = [mean(losses[max(0, step - span + 1) : step + 1]) for step in range(len(losses))]
        (line,) = axes.plot(smooth, linewidth=1.5, label=f"{run['device']}, training (mean of {span} steps)")
        axes.plot(losses, linewidth=0.5, alpha=0.3, color=line.get_color())
        label = f"{run['device']}, held out"
        axes.axhline(run["held_out_loss"], linestyle="--", linewidth=1, color=line.get_color(), label=label)
    axes.set(xlabel="step", ylabel="loss (nats per byte)", title="Byte-level GPT on Python's standard library")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def main() -> int:
    args = parse_arguments()
    start = time.perf_counter()
    device = torch.device(args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"train_gpt_{device.type}"
    torch.manual_seed(args.seed)  # dropout

    train_text, held_out_text = read_standard_library()
    model = GPT(Config(dropout=args.dropout)).initialize(torch.Generator().manual_seed(args.seed)).to(device)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"device {device}: {n_parameters / 1e6:.2f}M parameters, ", end="")
    print(f"{len(train_text) / 1e6:.1f} MB to train on, {len(held_out_text) / 1e6:.1f} MB held out", flush=True)

    losses, tokens_per_second = train(model, train_text, args, device)
    held_out = held_out_loss(model, held_out_text, args, device)
    print(f"held-out loss {held_out:.3f} nats per byte (an untrained model has {math.log(256):.3f})")
    sampler = torch.Generator().manual_seed(args.seed)
    sample = generate(model, b"class Reader:\n    def __init__(self, ", 400, temperature=0.8, generator=sampler)
    print("sample:\n" + "\n".join("  | " + line for line in sample.decode("utf-8", "replace").splitlines()))

    weights = stem.with_suffix(".safetensors")
    difference = check_on_cpu(model, weights, held_out_text, args, device)
    logits_agree = difference <= LOGITS_TOLERANCE
    print(f"{weights}: loaded on the CPU, logits differ by {difference:.1e} at most, allowed {LOGITS_TOLERANCE:.0e}")

    result = {
        "device": device.type,
        "arguments": {name: value for name, value in vars(args).items() if isinstance(value, int | float)},
        "n_parameters": n_parameters,
        "losses": losses,
        "held_out_loss": held_out,
        "logits_difference": difference,
        "tokens_per_second": tokens_per_second,
        "seconds": time.perf_counter() - start,
    }
    if device.type == "tpu":
        result |= report_device()
    path = args.json or stem.with_suffix(".json")
    path.write_text(json.dumps(result, indent=1) + "\n")
    other = [json.loads(args.compare.read_text())] if args.compare else []
    draw_curves([result, *other], stem.with_suffix(".png"))
    curves_agree = all(agree(result, run) for run in other)
    print(f"{tokens_per_second:,.0f} tokens/s, {result['seconds']:.0f} s in all; see {path} and {stem}.png")
    return 0 if logits_agree and curves_agree else 1


def report_device() -> dict:
    """What ran where: the one part that asks the device's own module."""
    tpu = torch.get_device_module("tpu")
    properties, stats, fallbacks = tpu.get_device_properties(), tpu.compile_stats(), tpu.fallbacks()
    print(f"device {tpu.current_device()} is {properties.name}, plugin {properties.plugin}")
    made = f"{stats['programs'] - stats['loaded']} programs compiled and {stats['loaded']} loaded from earlier runs"
    print(f"{made} in {stats['seconds']:.1f} s, reused {stats['hits']:,} times")
    print("operators that fell back to the CPU:", ", ".join(f"{op} ({n})" for op, n in fallbacks.items()) or "none")
    return {"properties": str(properties), "compile_stats": stats, "fallbacks": fallbacks}


if __name__ == "__main__":
    sys.exit(main())
