"""A second process takes graphs from PyTorch's cache and programs from the folder of kept ones."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys
import torch
from torch import nn

given = json.loads(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).to("tpu")

@torch.compile(backend="tpu", dynamic=given["dynamic"], fullgraph=True, options=given["options"])
def run(x):
    return nn.functional.dropout(model(x), 0.5).softmax(0).square().sum()

torch.tpu.synchronize()
torch.tpu.reset_compile_stats()
values = []
for n in given["sizes"]:
    x = torch.ones(n, 8).to("tpu").requires_grad_()
    loss = run(x)
    loss.backward()
    values += [loss.item(), x.grad.abs().sum().item()]
with torch.no_grad():
    values.append(run(x).item())
values.append(sum(p.grad.abs().sum().item() for p in model.parameters()))
torch.tpu.synchronize()
counts = torch._dynamo.utils.counters["aot_autograd"]
print(json.dumps({"values": values, "counts": counts, **torch.tpu.compile_stats()}))
"""


def run(
    folder: Path, dynamic: bool, sizes: list[int], options: dict[str, Any] | None = None, program: str = PROGRAM
) -> dict[str, Any]:
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "graphs"),
        "TORCH_PJRT_CACHE_DIR": str(folder / "programs"),
    }
    given = json.dumps({"dynamic": dynamic, "sizes": sizes, "options": options})
    command = [sys.executable, "-c", program, given]
    done = subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("dynamic", "sizes"), [(False, [5, 5]), (True, [5, 6, 9])])
def test_a_second_process_neither_traces_nor_compiles(tmp_path: Path, dynamic: bool, sizes: list[int]) -> None:
    first, second = (run(tmp_path, dynamic, sizes) for _ in range(2))
    assert first["counts"].get("autograd_cache_hit", 0) == 0
    assert first["counts"]["autograd_cache_saved"] == second["counts"]["autograd_cache_hit"] == 2
    assert second["counts"].get("autograd_cache_saved", 0) == 0
    assert second["programs"] == second["loaded"] > 0
    assert second["programs"] == first["programs"]
    assert second["values"] == first["values"]


def test_other_options_are_another_entry(tmp_path: Path) -> None:
    run(tmp_path, False, [5])
    other = run(tmp_path, False, [5], {"precision": "high"})
    assert other["counts"].get("autograd_cache_hit", 0) == 0


EFFECTS = """
import json, sys
import torch
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._higher_order_ops.flex_attention import flex_attention
from torch.nn.attention.flex_attention import create_block_mask

seen = []

@torch.library.custom_op("cache_test::record", mutates_args=())
def record(x: torch.Tensor) -> None:
    seen.append(x.sum().item())

@record.register_fake
def _(x):
    return None

_register_effectful_op("cache_test::record", _EffectType.ORDERED)

def recorded(x):
    record(x)
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

def attended(q, mask):
    options = {"BACKEND": "AUTO", "PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False, "WRITE_DQ": True}
    options |= {"BLOCKS_ARE_CONTIGUOUS": False, "OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False}
    return flex_attention(q, q, q, lambda s, b, h, i, j: s + i - j, mask.as_tuple(), 0.5, options)[0]

x = torch.ones(2, 2, device="tpu")
q = torch.ones(1, 1, 8, 4).to("tpu").requires_grad_()
mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 8, 8, device="tpu")
got = torch.compile(recorded, backend="tpu")(x).sum().item()
out = torch.compile(attended, backend="tpu")(q, mask).square().sum()
(gradient,) = torch.autograd.grad(out, q)
print(json.dumps({"values": [got, out.item(), gradient.sum().item(), *seen]}))
"""


def test_graphs_within_graphs_and_effects(tmp_path: Path) -> None:
    first, second = (run(tmp_path, False, [], program=EFFECTS) for _ in range(2))
    assert first == second and first["values"][-1] == 4
