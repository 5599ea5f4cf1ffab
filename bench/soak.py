"""Trains for thousands of steps and watches the memory of the process and of the device: both must stay flat.

python bench/soak.py [--steps 10000] [--mode strict|debug|fused|compiled] [--json FILE]

After each tenth of the run a line gives the steps, the resident memory, the device's bytes and the programs. The exit
status is 1 when in the second half the device holds more bytes, more programs were made, or the process grew by more
than half a percent.
"""

import argparse
import gc
import json
import sys

import torch
import torch.nn.functional as F


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


class Model(torch.nn.Module):
    """A bit of everything that keeps state: an embedding, dropout, running statistics, an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.lstm = torch.nn.LSTM(16, 16, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(16)
        self.head = torch.nn.Linear(16, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(F.dropout(self.embedding(tokens), 0.1, self.training))
        return self.head(self.norm(hidden.flatten(0, 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--mode", choices=["strict", "debug", "fused", "compiled"], default="strict")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.tpu.set_eager_mode("strict" if args.mode == "compiled" else args.mode)
    model = Model().to("tpu")
    run = torch.compile(model, backend="tpu") if args.mode == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    lines, losses = [], []
    for step in range(1, args.steps + 1):
        tokens = torch.randint(0, 50, (4, 9)).to("tpu")
        loss = F.cross_entropy(run(tokens[:, :-1]), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % 100 == 0:
            losses.append(loss.item())
        if step % max(args.steps // 10, 1) == 0:
            del tokens, loss
            gc.collect()
            torch.tpu.synchronize()
            lines.append(
                {
                    "step": step,
                    "resident MB": resident_bytes() / 1e6,
                    "device bytes": torch.tpu.memory_allocated(),
                    "programs": torch.tpu.compile_stats()["programs"],
                }
            )
            print(
                "  ".join(
                    f"{name} {value:,.1f}" if isinstance(value, float) else f"{name} {value:,}"
                    for name, value in lines[-1].items()
                ),
                flush=True,
            )
    if args.json:
        with open(args.json, "w") as file:
            json.dump(lines, file, indent=1)
    settled, last = lines[len(lines) // 2], lines[-1]
    grown = [name for name in ("device bytes", "programs") if last[name] > settled[name]]
    if last["resident MB"] > settled["resident MB"] * 1.005:
        grown.append("resident MB")
    if not all(torch.isfinite(torch.tensor(losses))):
        sys.exit("the loss is not finite")
    sys.exit(f"grew after step {settled['step']}: {', '.join(grown)}" if grown else 0)


if __name__ == "__main__":
    main()
