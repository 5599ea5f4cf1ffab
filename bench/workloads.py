"""Times of one device in this process, as a line of JSON. `bench/run.py` runs this in turn for several devices.

python bench/workloads.py product|cpu|peer [ops] [train] [decode]

Every figure is better when it is less. Small operators: microseconds a call, the best of five rounds, with the device
synchronised at the end of each.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def load(provider: str) -> None:
    """Make the device's name known: the product by PyTorch's autoload, torch_tpu on the CPU plugin of PEER_PLUGIN."""
    if provider == "product":
        return
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if provider == "peer":
        os.environ["TPU_LIBRARY_PATH"] = os.environ["PEER_PLUGIN"]
        os.environ["TPU_SKIP_MDS_QUERY"] = "1"
        from torch_tpu._internal.utils import hardware

        hardware.get_tpu_device_count = lambda *_args, **_kwargs: 1  # it looks for a TPU on the PCI bus
        import torch_tpu._loader

        torch_tpu._loader.load()


def wait(value: Any) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        value.reshape(-1)[:1].cpu()


def best(call: Callable[[], Any], n: int, warm: int = 20) -> float:
    for _ in range(warm):
        value = call()
    wait(value)
    least = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(n):
            value = call()
        wait(value)
        least = min(least, time.perf_counter() - began)
    return least / n * 1e6


def ops(device: str) -> dict[str, float]:
    import torch
    from torch.nn import functional

    x, y, a = (torch.ones(8, 8, device=device) for _ in range(3))
    bias = torch.ones(8, device=device)

    def chain() -> Any:
        z = x
        for _ in range(20):
            z = z * 1.01 + 0.5
        return z

    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "x + 1": (lambda: x + 1, 1),
        "x + y": (lambda: x + y, 1),
        "a.add_(1)": (lambda: a.add_(1), 1),
        "x.t() + 1": (lambda: x.t() + 1, 1),
        "x[1:5] + 1": (lambda: x[1:5] + 1, 1),
        "a[1:5].add_(1)": (lambda: a[1:5].add_(1), 1),
        "x.sum()": (lambda: x.sum(), 1),
        "softmax": (lambda: torch.softmax(x, -1), 1),
        "layer_norm": (lambda: functional.layer_norm(x, (8,), bias, bias), 1),
        "linear": (lambda: functional.linear(x, y, bias), 1),
        "x.sum().item()": (lambda: x.sum().item(), 1),
        "one of a chain of 40": (chain, 40),
    }
    return {f"{name} us": best(call, 1000 // n) / n for name, (call, n) in calls.items()}


def model(width: int = 128, layers: int = 4, vocabulary: int = 256) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(vocabulary, width), encoder, nn.Linear(width, vocabulary))


def train(device: str) -> dict[str, float]:
    import torch

    network = model().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    tokens = torch.randint(0, 256, (8, 128)).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        return loss

    began = time.perf_counter()
    step().item()
    first = time.perf_counter() - began
    return {"train, first step s": first, "train, a step ms": best(step, 3, warm=3) / 1e3}


def decode(device: str) -> dict[str, float]:
    """A sequence that grows by a token a step, so that all shapes are new the first time."""
    import torch

    network = model().to(device).eval()

    def generate() -> float:
        began = time.perf_counter()
        with torch.no_grad():
            tokens = torch.zeros(1, 1, dtype=torch.long, device=device)
            for _ in range(12):
                tokens = torch.cat([tokens, network(tokens)[:, -1].argmax(-1, keepdim=True)], 1)
            tokens.cpu()
        return time.perf_counter() - began

    return {"decode, new shapes s": generate(), "decode, seen shapes s": generate()}


WORKLOADS = {"ops": ops, "train": train, "decode": decode}


def main() -> None:
    provider, *names = sys.argv[1:]
    began = time.perf_counter()
    load(provider)
    import torch

    figures = {"import s": time.perf_counter() - began}
    device = "cpu" if provider == "cpu" else "tpu"
    (torch.ones(3, device=device) + 1).cpu()
    for name in names or WORKLOADS:
        figures |= WORKLOADS[name](device)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
