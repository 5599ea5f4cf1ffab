"""The device's first use, for doctor: started as a file, writes a JSON line at the end of each stage."""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 2.0  # of the self-test


def tell(stage: str, facts: dict[str, Any], following: str) -> None:
    os.write(answers, (json.dumps({"stage": stage, "facts": facts, "next": following}) + "\n").encode())


def cases(torch: Any) -> dict[str, Callable[[str], Any]]:
    """Each gives the same on every device: sums of small integers are exact."""
    base = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64) % 7

    def gradient(device: str) -> Any:
        x = base.to(device).requires_grad_()
        torch.nn.functional.relu(x @ x - 3).sum().backward()
        return x.grad

    def write(device: str) -> Any:
        x = base.to(device).clone()
        x.t()[2:5].add_(1)
        return x

    return {
        "add": lambda device: base.to(device) + 1,
        "sum": lambda device: base.to(device).sum(0),
        "matmul": lambda device: base.to(device) @ base.to(device),
        "matmul in bfloat16": lambda device: base.to(device).bfloat16() @ base.to(device).bfloat16()[:, :8],
        "index": lambda device: base.to(device)[torch.tensor([3, 1, 2], device=device)],
        "sort": lambda device: base.to(device).sort(dim=1, stable=True)[1],
        "a view that is written": write,
        "a gradient": gradient,
    }


def self_test(torch: Any) -> dict[str, Any]:
    wrong, tests = [], cases(torch)
    for name, case in tests.items():
        if not torch.equal(case("tpu").cpu(), case("cpu")):
            wrong.append(name)
    x = torch.ones(5, 7, device="tpu")
    began = time.perf_counter()
    (x * 3).cpu()
    first = time.perf_counter() - began
    n, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS / 2:
        for _ in range(100):
            x = x * 1
        x.cpu()
        n += 100
    return {
        "checked": len(tests),
        "wrong": wrong,
        "fallbacks": sorted(torch.tpu.fallbacks()),
        "first_ms": first * 1e3,
        "launch_us": took / n * 1e6,
    }


def main() -> None:
    tell("start", {}, "importing torch")
    import torch

    from torch_pjrt import _discovery, _loader

    tell("torch", {"version": torch.__version__, "loaded": _loader.loaded}, "the plugin")
    plugin = _discovery.discover()
    facts: dict[str, Any] = dataclasses.asdict(plugin)
    facts["off"] = os.environ.get("TORCH_PJRT_PLUGIN") == "none"
    tell("plugin", facts, "the device's first use")
    if plugin.inert:
        return
    if not _loader.loaded:
        sys.exit("the device was not registered")
    from torch_pjrt import _C, tpu

    began = time.perf_counter()
    tpu.init()
    client = _C.client_info()
    devices = [tpu.get_device_properties(i) for i in range(tpu.device_count())]
    facts = {
        "api_version": client["api_version"],
        "platform": client["platform"],
        "seconds": time.perf_counter() - began,
        "devices": [{"name": one.name, "memory": one.total_memory} for one in devices],
    }
    tell("device", facts, "the self-test")
    tell("selftest", self_test(torch), "the end")


if __name__ == "__main__":
    answers = os.dup(1)
    os.dup2(2, 1)
    main()
