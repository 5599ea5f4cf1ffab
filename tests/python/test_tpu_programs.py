"""What libtpu makes of our programs: looked at in the optimized program and in its memory figures, not in our text.

Programs are lowered as for a TPU, on a CPU plugin, and compiled for one that is not there. Tensors are never computed with:
what is checked never shows on a CPU.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from native import LIBTPU, needs_libtpu
from torch_pjrt import aot
from torch_pjrt.aot import hlo

pytestmark = [needs_libtpu, pytest.mark.strict]
BF16, F32 = torch.bfloat16, torch.float32
TARGETS = ("v5e", "v6e", "tpu7x")
SPLITS = {"X64SplitLow", "X64SplitHigh", "X64Combine"}  # between a 64-bit array and its halves
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}


class Made:
    """A program that was lowered, and is compiled where it is asked for."""

    def __init__(self, code: str) -> None:
        self.code = code

    def compiled(self, target: str = "v6e") -> aot.Compiled:
        return aot.Compiler(target, libtpu=LIBTPU).compile(self.code, aot.Options(portable=True), optimized=True)


@pytest.fixture
def programs(tmp_path: Path) -> Callable[[Callable[[], Any]], dict[str, Made]]:
    """Runs a function and gives the programs that are new, by the name of the op, the last one of each. A program is made
    once in a process: sizes are those of one test alone."""

    def run(function: Callable[[], Any]) -> dict[str, Made]:
        torch.tpu.synchronize()
        config = torch.tpu.config
        config.lower_for, config.dump_dir = "tpu", str(tmp_path)
        try:
            function()
            torch.tpu.synchronize()
        finally:
            config.lower_for, config.dump_dir = "device", ""
        made = {path.stem.split("_", 1)[1]: Made(path.read_text()) for path in sorted(tmp_path.glob("*.mlir"))}
        for path in tmp_path.glob("*.mlir"):
            path.unlink()
        return made

    return run


def on_tpu(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device="tpu")


def custom_calls(program: hlo.Module) -> set[str]:
    return {i.target for i in program.instructions if i.opcode == "custom-call"}


def kernels(program: hlo.Module) -> list[hlo.Instruction]:
    """What the entry runs, but for moving operands into the chip's fast memory."""
    moves = ("copy-start", "copy-done", "async-start", "async-done", "async-update")
    return [i for i in program.entry.instructions if i.opcode not in FREE | set(moves) and i.shape.n_elements > 1]


def traffic(program: hlo.Module) -> int:
    """Bytes between HBM and the chip: of the entry's kernels, what they read and write there. Fast memory costs nothing."""

    def in_hbm(shape: hlo.Shape) -> int:
        return sum(map(in_hbm, shape.parts)) if shape.parts else shape.n_bytes * (shape.space == 0)

    total = 0
    for i in program.entry.instructions:
        if i.opcode in FREE or i.opcode.endswith(("-done", "-update")):
            continue
        total += sum(in_hbm(operand.shape) for operand in program.entry.operands(i))
        if not i.opcode.endswith("-start"):  # the operand is part of its result
            total += in_hbm(i.shape)
    return total


def relayouts(program: hlo.Module, at_least: int) -> list[str]:
    """Copies and transposes of large arrays that are kernels of their own."""
    return [
        str(i.shape)
        for i in program.entry.instructions
        if i.opcode in ("copy", "transpose") and i.shape.n_elements >= at_least
    ]


# ---- products -------------------------------------------------------------------------------------------------------


def dots(program: hlo.Module) -> list[tuple[hlo.Instruction, list[hlo.Instruction]]]:
    return [
        (i, computation.operands(i))
        for computation in program.computations
        for i in computation.instructions
        if i.opcode in ("dot", "convolution")
    ]


PRODUCTS: dict[str, tuple[str, Callable[[], Any], int]] = {  # the op, the call, and the flops of it
    "mm": ("mm", lambda: on_tpu(256, 384, dtype=BF16) @ on_tpu(384, 640, dtype=BF16), 2 * 256 * 384 * 640),
    "linear": (
        "addmm",
        lambda: F.linear(on_tpu(256, 384, dtype=BF16), on_tpu(640, 384, dtype=BF16), on_tpu(640, dtype=BF16)),
        2 * 256 * 384 * 640,
    ),
    "bmm": ("bmm", lambda: on_tpu(6, 256, 384, dtype=BF16) @ on_tpu(6, 384, 128, dtype=BF16), 2 * 6 * 256 * 384 * 128),
    "conv2d": (
        "convolution",
        lambda: F.conv2d(on_tpu(4, 128, 34, 34, dtype=BF16), on_tpu(128, 128, 3, 3, dtype=BF16)),
        2 * 4 * 128 * 32 * 32 * 128 * 9,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bfloat16_stay_bfloat16(programs: Any, name: str) -> None:
    """Both operands reach the matrix unit as they are, and once: float32 operands would take three or six passes."""
    op, call, flops = PRODUCTS[name]
    compiled = programs(call)[op].compiled()
    found = dots(compiled.program())
    assert len(found) == 1
    assert [operand.shape.dtype for operand in found[0][1]] == ["bf16", "bf16"]
    assert compiled.cost.flops < 1.5 * flops


def test_products_of_bfloat16_are_summed_in_float32(programs: Any) -> None:
    """A bias is added to the sum before it is rounded: the product comes out as float32, in the kernel."""
    made = programs(
        lambda: F.linear(on_tpu(256, 640, dtype=BF16), on_tpu(384, 640, dtype=BF16), on_tpu(384, dtype=BF16))
    )
    compiled = made["addmm"].compiled()
    ((product, _),) = dots(compiled.program())
    assert product.shape.dtype == "f32"
    assert compiled.memory.temp_bytes == 0


def test_attention_by_hand_in_bfloat16_compiles(programs: Any) -> None:
    """libtpu makes a kernel of dot, softmax, dot, and fails on one whose bfloat16 products ask for more precision."""

    @torch.compile(backend="tpu")
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2)).softmax(-1, dtype=F32).to(BF16) @ v

    q = on_tpu(2, 4, 1024, 128, dtype=BF16)
    made = list(programs(lambda: attend(q, q, q)).values())
    assert len(made) == 1
    for target in TARGETS:
        assert made[0].compiled(target).memory.output_bytes == q.numel() * 2


# ---- views ----------------------------------------------------------------------------------------------------------

VIEWS: dict[str, tuple[str, Callable[[], Any]]] = {
    "x @ w.t()": ("mm", lambda: on_tpu(512, 768) @ on_tpu(384, 768).t()),
    "x.t() @ y": ("mm", lambda: on_tpu(512, 768).t() @ on_tpu(512, 384)),
    "x.t() @ y.t()": ("mm", lambda: on_tpu(512, 768).t() @ on_tpu(384, 512).t()),
    "q @ k.transpose": ("bmm", lambda: on_tpu(8, 512, 128) @ on_tpu(8, 384, 128).transpose(1, 2)),
    "x.t() + y.t()": ("add.Tensor", lambda: on_tpu(512, 768).t() + on_tpu(512, 768).t()),
    "x[::2] * 3": ("mul.Tensor", lambda: on_tpu(512, 768)[::2] * 3),
    "x[:, 5:].exp()": ("exp", lambda: on_tpu(512, 768)[:, 5:].exp()),
    "x.expand(..) + y": ("add.Tensor", lambda: on_tpu(1, 768).expand(512, 768) + on_tpu(512, 768)),
    "x.sum(0)": ("sum.dim_IntList", lambda: on_tpu(512, 768).sum(0)),
    "x.t().sum(0)": ("sum.dim_IntList", lambda: on_tpu(512, 896).t().sum(0)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_read_where_they_are(programs: Any, name: str) -> None:
    op, call = VIEWS[name]
    compiled = programs(call)[op].compiled()
    assert relayouts(compiled.program(), 64 * 128) == []
    assert compiled.memory.temp_bytes == 0


# ---- attention ------------------------------------------------------------------------------------------------------

SHAPE = (8, 16, 1024, 128)
SCORES = 4 * math.prod(SHAPE[:3]) * SHAPE[2]  # bytes in float32


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_attention_becomes_one_kernel(programs: Any, dtype: torch.dtype) -> None:
    """The scores are never in memory: at most the scaled query is, and on tpu7x the kernel's output."""
    q = on_tpu(*SHAPE, dtype=dtype)
    made = programs(lambda: F.scaled_dot_product_attention(q, q, q))["_scaled_dot_product_efficient_attention"]
    for target in TARGETS:
        compiled = made.compiled(target)
        assert "tpu_custom_call" in custom_calls(compiled.program())
        if dtype == F32 and target != "tpu7x":
            assert compiled.memory.temp_bytes == 0
        assert compiled.memory.temp_bytes <= 0.2 * SCORES
        assert traffic(compiled.program()) < 0.8 * SCORES


def test_attention_of_grouped_heads_becomes_one_kernel(programs: Any) -> None:
    q, k = on_tpu(4, 16, 512, 128, dtype=BF16), on_tpu(4, 4, 512, 128, dtype=BF16)
    made = programs(lambda: F.scaled_dot_product_attention(q, k, k, enable_gqa=True))
    compiled = made["_scaled_dot_product_efficient_attention"].compiled()
    assert "tpu_custom_call" in custom_calls(compiled.program())


def test_attention_that_is_differentiated_has_its_denominator(programs: Any) -> None:
    q = on_tpu(2, 4, 512, 128, dtype=BF16).requires_grad_()
    made = programs(lambda: F.scaled_dot_product_attention(q, q, q))
    compiled = made["_scaled_dot_product_fused_attention_overrideable"].compiled()
    assert [part.dtype for part in compiled.program().entry.root.shape.parts] == ["bf16", "f32"]
    assert "tpu_custom_call" in custom_calls(compiled.program())


# ---- softmax, norms, losses -----------------------------------------------------------------------------------------

ROWS, COLUMNS = 2048, 4096
FUSED: dict[str, tuple[str, Callable[[torch.Tensor], Any], int]] = {  # the op, the call, and its kernels
    "softmax": ("_softmax", lambda x: x.softmax(-1), 4),
    "log_softmax": ("_log_softmax", lambda x: x.log_softmax(-1), 5),
    "layer_norm": ("native_layer_norm", lambda x: F.layer_norm(x, (COLUMNS,), weight(x), weight(x)), 9),
    "rms_norm": ("_fused_rms_norm", lambda x: F.rms_norm(x, (COLUMNS,), weight(x)), 5),
    "gelu": ("gelu", lambda x: F.gelu(x), 1),
    "silu": ("silu", lambda x: F.silu(x), 1),
    "nll_loss": ("nll_loss_forward", lambda x: F.nll_loss(x, labels()), 8),
}


def weight(x: torch.Tensor) -> torch.Tensor:
    return on_tpu(COLUMNS, dtype=x.dtype)


def labels() -> torch.Tensor:
    return torch.zeros(ROWS, dtype=torch.int64, device="tpu")


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("name", FUSED)
def test_rows_are_fused(programs: Any, name: str, dtype: torch.dtype) -> None:
    """The data comes from HBM twice at most and goes there once; nothing else of its size lies in memory."""
    op, call, most_kernels = FUSED[name]
    x = on_tpu(ROWS, COLUMNS, dtype=dtype)
    compiled = programs(lambda: call(x))[op].compiled()
    data = ROWS * COLUMNS * x.element_size()
    assert compiled.memory.temp_bytes < 0.02 * data
    assert traffic(compiled.program()) < 3.2 * data
    assert len(kernels(compiled.program())) <= most_kernels


# ---- 64-bit integers ------------------------------------------------------------------------------------------------

WIDE = {"s64", "u64"}


def ids(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, dtype=torch.int64, device="tpu")


INDEXED: dict[str, tuple[str, Callable[[], Any]]] = {
    "embedding": ("embedding", lambda: F.embedding(ids(4, 640), on_tpu(8192, 256))),
    "index_select": ("index_select", lambda: on_tpu(8192, 256).index_select(0, ids(1280))),
    "x[i]": ("index.Tensor", lambda: on_tpu(8192, 256)[ids(1280)]),
    "gather": ("gather", lambda: on_tpu(2048, 640).gather(1, ids(2048, 2))),
    "index_add": ("index_add", lambda: on_tpu(8192, 256).index_add(0, ids(1280), on_tpu(1280, 256))),
    "argmax": ("argmax", lambda: on_tpu(2048, 640).argmax(-1)),
    "topk": ("topk", lambda: on_tpu(2048, 640).topk(5)),
    "sort": ("sort", lambda: on_tpu(256, 640).sort(-1)),
    "arange": ("arange", lambda: torch.arange(81920, device="tpu")),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_are_narrow_in_kernels(programs: Any, name: str) -> None:
    """A TPU has no 64-bit integers: each is two of 32 bits. Indices are split where they come in and put together where
    they go out; no array of the data's size is wide in between."""
    op, call = INDEXED[name]
    program = programs(call)[op].compiled().program()
    for computation in program.computations:
        for i in computation.instructions:
            if i.shape.dtype in WIDE:
                allowed = i.opcode in FREE | {"copy"} or i.target in SPLITS
                assert allowed, f"{computation.name}: {i.name} = {i.shape} {i.opcode}"
    splits = [i for i in program.instructions if i.target in SPLITS]
    assert len(splits) <= 5


# ---- donation -------------------------------------------------------------------------------------------------------

DONATED: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "add_": ("add.Tensor", lambda x: x.add_(x)),
    "mul_": ("mul.Tensor", lambda x: x.mul_(3)),
    "a row": ("fill.Scalar", lambda x: x[3].fill_(1)),
    "a transposed part": ("add.Tensor", lambda x: x.t()[4:100].add_(1)),
    "index_put_": ("index_put", lambda x: x.index_put_((ids(7),), x[:7].clone())),
    "index_add_": ("index_add", lambda x: x.index_add_(0, ids(7), x[:7].clone())),
    "masked_fill_": ("masked_fill.Scalar", lambda x: x.masked_fill_(x > 1, 0)),
}


@pytest.mark.parametrize("name", DONATED)
def test_writes_are_in_place(programs: Any, name: str) -> None:
    op, call = DONATED[name]
    x = on_tpu(512, 640)
    made = programs(lambda: call(x))[op]
    for target in TARGETS:
        compiled = made.compiled(target)
        assert compiled.memory.alias_bytes >= x.numel() * x.element_size()
        assert compiled.program().aliases
        assert compiled.memory.temp_bytes < x.numel() * x.element_size()


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizers_write_in_place(programs: Any, optimizer: Any) -> None:
    """Parameters and the optimizer's state: whatever a step returns lies where its argument lay."""
    x = torch.nn.Parameter(on_tpu(512, 640))
    x.grad = on_tpu(512, 640)
    steps = optimizer([x], lr=0.1, weight_decay=0.1)
    steps.step()
    for made in programs(steps.step).values():
        compiled = made.compiled()
        root = compiled.program().entry.root.shape
        large = sum(part.n_bytes for part in root.parts or (root,) if part.n_elements == x.numel())
        assert compiled.memory.alias_bytes >= large
