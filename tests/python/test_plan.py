"""Plans: what is recorded and what is made of it. Nothing here needs libtpu but the last tests."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch_pjrt import aot
from torch_pjrt.plan import _module, _options, _steps
from torch_pjrt.plan._core import LAUNCH, MARK, READ, Event

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 240
needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None and "TPU_LIBRARY_PATH" not in os.environ,
    reason="libtpu is not installed",
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path: Path) -> Run:
    """Runs `torch_pjrt COMMAND ... SCRIPT` on a script's text, in a process of its own and with a cache of its own."""

    def run(code: str, *options: str, arguments: Sequence[str] = (), name: str = "plan", **environment: str) -> Any:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(code))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_PJRT_")}
        return subprocess.run(
            [sys.executable, "-m", "torch_pjrt", name, *options, str(script), *arguments],
            env=inherited | {"TORCH_PJRT_CACHE_DIR": str(tmp_path / "cache")} | environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    return run


@pytest.fixture
def plan(command: Run, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The figures of a plan that records only."""

    def run(code: str, *options: str, target: str = "v6e", status: int = 0, **more: Any) -> dict[str, Any]:
        out = tmp_path / "plan.json"
        finished = command(code, "--no-compile", "--target", target, "--json", str(out), *options, **more)
        assert finished.returncode == status, f"{finished.stdout}\n{finished.stderr}"
        made: dict[str, Any] = json.loads(out.read_text())
        return made | {"text": finished.stdout}

    return run


# ---- a training step ----

TRAIN = """
    import sys
    import torch, torch_pjrt
    from torch import nn

    how = sys.argv[1]
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())
    forward = torch.compile(model, backend="tpu") if how == "compile" else model

    def step(x):
        loss = (forward(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if how == "compile_step":
        step = torch_pjrt.compile_step(step)
    for i in range(7):
        loss = step(torch.ones(32, 64, device="tpu"))
        print(f"step {i}: {loss.item()}")
"""
WAYS = [("strict", ""), ("fused", ""), ("debug", ""), ("strict", "compile"), ("strict", "compile_step")]
PARAMETER_BYTES = 4 * (64 * 256 + 256 + 256 * 64 + 64)


@pytest.mark.parametrize(("mode", "how"), WAYS)
def test_a_step_of_training(plan: Any, mode: str, how: str) -> None:
    made = plan(TRAIN, arguments=[how], TORCH_PJRT_EAGER_MODE=mode)
    # two products forward; backward two of the second layer and one of the first, whose input needs no gradient
    assert made["step"]["flops"] == 5 * 2 * 32 * 64 * 256
    assert made["step"]["n"] == 6
    assert made["step"]["how"] == ("calls of what compile_step returned" if how == "compile_step" else "AdamW.step()")
    # weights and both moments stay
    assert 3 * PARAMETER_BYTES <= made["memory"]["state_bytes"] < 3.2 * PARAMETER_BYTES + 32 * 64 * 4
    assert made["memory"]["peak_bytes"] > made["memory"]["state_bytes"]
    assert made["eager_mode"] == mode and made["placeholder"] == 0
    assert next(read["reads"] for read in made["reads"] if read["line"].endswith("script.py:22")) >= 7
    assert "step 6: 0.0" in made["text"]
    launches = made["step"]["launches"]
    assert launches <= 3 if mode == "fused" or how == "compile_step" else launches > 5
    assert sum(program["launches_per_step"] for program in made["programs"]) == pytest.approx(launches)
    lines = [line for program in made["programs"] for line in program["lines"]]
    assert any(line.endswith("script.py:14") for line in lines)
    assert not made["fallbacks"]


def test_execute_gives_the_values_of_the_cpu(plan: Any, tmp_path: Path) -> None:
    code = """
        import torch
        torch.manual_seed(0)
        x = torch.arange(12.0).reshape(3, 4).to("tpu")
        index = torch.tensor([2, 0], device="tpu")
        print((x[index] @ x.T).sum().item(), torch.nonzero(x > 5).shape[0], x.max().item())
        try:
            x[torch.tensor([3], device="tpu")].sum().item()
        except IndexError as error:
            print("IndexError")
    """
    made = plan(code, "--execute")
    x = [[4.0 * i + j for j in range(4)] for i in range(3)]
    total = sum(sum(a * b for a, b in zip(x[i], x[j], strict=True)) for i in (2, 0) for j in range(3))
    assert made["text"].startswith(f"{total} 6 11.0\nIndexError\n")
    assert made["executed"] and made["placeholder"] is None


def test_placeholders_do_not_break_checks_and_sizes(plan: Any) -> None:
    """Reads give zeros of every kind, index checks stay silent, what counts finds nothing."""
    code = """
        import torch
        x = torch.ones(3, 4, device="tpu")
        print(x.sum().item(), x.bool().any().item(), x.long().tolist()[0], x.to(torch.bfloat16).cpu()[0, 0].item())
        print(x[torch.tensor([77], device="tpu")].sum().item(), torch.nonzero(x).shape, x.cfloat().cpu()[0, 0].item())
        print(torch.multinomial(x, 2).cpu().tolist()[0], x.dtype, tuple(x.shape))
        torch.tpu.synchronize()
    """
    text = plan(code)["text"].splitlines()
    assert text[0] == "0.0 False [0, 0, 0, 0] 0.0"
    assert text[1] == "0.0 torch.Size([0, 2]) 0j"
    assert text[2] == "[0, 0] torch.float32 (3, 4)"


def test_a_loop_that_waits_for_the_device_ends(plan: Any) -> None:
    code = """
        import torch
        left, n = torch.ones(3, device="tpu"), 0
        while not (left.max() == 0):
            left, n = left - 1, n + 1
        print(n, bool((left < 0).any()))
    """
    assert plan(code)["text"].startswith("32 False\n")
    assert plan(code, "--true-after", "5")["text"].startswith("5 False\n")


# ---- memory ----


def test_models_that_no_host_holds(plan: Any) -> None:
    """Twelve terabytes, made on the device and made of meta tensors."""
    code = """
        import torch
        from torch import nn
        with torch.device("meta"):
            model = nn.Sequential(*[nn.Linear(2**20, 2**20, bias=False) for _ in range(2)])
        model.to_empty(device="tpu")
        other = torch.zeros(2**20, 2**20, device="tpu")
        x = torch.ones(1, 2**20, device="tpu")
        print(model(x).sum().item(), (other @ x[0]).sum().item())
    """
    made = plan(code, target="v5e:16x16", status=2)
    assert 12 * 2**40 <= made["memory"]["peak_bytes"] < 12.1 * 2**40
    assert not made["memory"]["fits"]
    assert made["target"]["devices"] == 256
    assert "12.00 TiB are needed" in made["advice"][0]
    assert any("More chips" in advice and "1024" in advice for advice in made["advice"])


def test_memory_that_is_freed_is_not_counted(plan: Any) -> None:
    code = """
        import torch
        for _ in range(3):
            x = torch.ones(2**20, device="tpu")
            y = x * 2
            del x
            y += 1
            del y
        print(torch.tpu.memory_allocated(), torch.tpu.mem_get_info())
    """
    made = plan(code)
    assert 2 * 2**22 <= made["memory"]["peak_bytes"] < 2 * 2**22 + 4096
    total = made["target"]["memory_bytes"]
    assert made["text"].splitlines()[0].startswith("0 (") and str(total) in made["text"].splitlines()[0]
    assert {"float32": made["memory"]["peak_bytes"]} == {"float32": sum(made["memory"]["types_at_peak"].values())}
    missed = [program["missed_bytes"] for program in made["programs"] if program["name"] == "mul.Tensor"]
    assert missed == [2**22]  # x died right after y was made of it
    assert all(program["alias_bytes"] == 2**22 for program in made["programs"] if program["name"] == "add.Tensor")


# ---- flops ----


def test_flops_of_products_and_convolutions(plan: Any) -> None:
    code = """
        import torch
        from torch.nn import functional as F
        def ones(*sizes, **options):
            return torch.ones(*sizes, device="tpu", **options)
        ones(4, 8) @ ones(8, 3)
        torch.bmm(ones(5, 4, 8), ones(5, 8, 3))
        F.conv2d(ones(2, 6, 9, 9), ones(4, 3, 3, 3), groups=2)
        F.conv1d(ones(2, 6, 9), ones(4, 6, 3), padding=1)
        ones(4, 8, dtype=torch.bfloat16) @ ones(8, 7, dtype=torch.bfloat16)
    """
    flops = [program["flops"] for program in plan(code)["programs"] if program["flops"]]
    # twice the products of each result element: the contracted size; channels of a group times the kernel
    expected = [2 * 4 * 3 * 8, 2 * 5 * 4 * 3 * 8, 2 * (2 * 4 * 7 * 7) * 3 * 9, 2 * (2 * 4 * 9) * 6 * 3, 2 * 4 * 7 * 8]
    assert sorted(flops) == sorted(expected)


def test_flops_are_told_apart_by_dtype_and_precision() -> None:
    dot = (
        '%2 = "stablehlo.dot_general"(%0, %1) {{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = '
        "[1], rhs_contracting_dimensions = [0]>{precision}}} : (tensor<4x8x{d}>, tensor<8x3x{d}>) -> tensor<4x3xf32>\n"
    )
    for dtype, precision, key in (
        ("f32", "HIGHEST", ("float32", "highest")),
        ("f32", "HIGH", ("float32", "high")),
        ("f32", "DEFAULT", ("float32", "medium")),
        ("f32", None, ("float32", "medium")),
        ("bf16", "DEFAULT", ("bfloat16", "")),
        ("i8", None, ("int8", "")),
    ):
        given = f", precision_config = [#stablehlo<precision {precision}>]" if precision else ""
        assert _module.summarize(dot.format(d=dtype, precision=given)).flops == {key: 2 * 4 * 3 * 8}


# ---- steps, and what recompiles ----


def test_a_loop_whose_sizes_grow(plan: Any) -> None:
    code = """
        import torch
        cache = torch.ones(4, 1, device="tpu")
        for _ in range(8):
            cache = torch.cat([cache, torch.ones(4, 1, device="tpu")], 1)
            print(cache.sum().item())
    """
    made = plan(code)
    assert made["step"]["how"] == "reads at one line" and made["step"]["n"] == 7
    cat = [found for found in made["recompiles"] if found["what"].startswith("cat")]
    assert len(cat) == 1 and cat[0]["what"].endswith("script.py:5")
    assert cat[0]["per_step"] == pytest.approx(1, abs=0.3)
    assert cat[0]["why"].startswith("argument 0: f32[4, ") and " became f32[4, " in cat[0]["why"]
    assert any("made after the third step" in advice for advice in made["advice"])


def test_a_loop_that_repeats_has_no_recompiles(plan: Any) -> None:
    code = """
        import torch
        x, w = torch.ones(4, 8, device="tpu"), torch.ones(8, 8, device="tpu")
        for _ in range(6):
            x = (x @ w).tanh() + 1
    """
    made = plan(code)
    assert made["step"]["how"].startswith("programs that are launched again") and made["step"]["n"] == 6
    assert made["step"]["flops"] == 2 * 4 * 8 * 8
    assert not made["recompiles"] and not made["reads"]


def _event(what: int, subject: int) -> Event:
    return Event(what=what, subject=subject)


def test_steps_are_found_by_marks_periods_and_reads() -> None:
    def launches(programs: Sequence[int]) -> list[Event]:
        return [_event(LAUNCH, program) for program in programs]

    assert _steps.period([9, 8, 7, 1, 2, 3, 1, 2, 3, 1, 2, 3]) == 3
    assert _steps.period([1, 2, 3, 1, 2, 3, 4]) is None
    assert _steps.period([5] * 4) == 1
    assert _steps.period([1, 2, 2] * 5 + [7] * 3) == 1  # the loop at the end, though the other was longer
    assert _steps.period([]) is None

    marked = [*launches([1, 2]), _event(MARK, 0), *launches([3]), _event(MARK, 1), _event(MARK, 0), *launches([4])]
    assert _steps.find(marked, ["SGD.step()", "Adam.step()"]) == _steps.Steps((3, 6), "SGD.step()")
    repeated = launches([9, 1, 2, 1, 2, 1, 2])
    assert _steps.find(repeated).bounds == (1, 3, 5, 7)
    grown = [event for i in range(4) for event in (*launches([10 + i]), _event(READ, 0))]
    assert _steps.find(grown).bounds == (2, 4, 6, 8)
    assert _steps.find(launches([1, 2, 3])).bounds == (0, 3)
    assert _steps.find([]).n == 1


def test_why_a_program_is_another_one() -> None:
    def module(arguments: str, results: str = "tensor<f32>") -> str:
        return f"function_type = ({arguments}) -> ({results}), sym_name"

    a = module("tensor<4x8xf32>, tensor<8xbf16>")
    assert _module.difference(module("tensor<4x9xf32>, tensor<8xbf16>"), a) == (
        "argument 0: f32[4, 8] became f32[4, 9]"
    )
    assert _module.difference(module("tensor<4x8xf32>"), a) == "1 arguments instead of 2"
    assert _module.difference(module("tensor<4x8xf32>, tensor<8xbf16>", "tensor<i64>"), a).startswith("result 0")
    assert "constant" in _module.difference(a, a)
    many = _module.difference(module(", ".join(["tensor<2xf32>"] * 4)), module(", ".join(["tensor<3xf32>"] * 4)))
    assert many.endswith("and 2 more")


# ---- the script's side ----


def test_scripts_run_as_python_runs_them(plan: Any) -> None:
    code = """
        import sys, os
        assert __name__ == "__main__" and sys.path[0] == os.path.dirname(os.path.abspath(__file__))
        print(sys.argv[1:])
        raise SystemExit(0)
    """
    made = plan(code, arguments=["--target", "mine", "-v"])
    assert made["text"].startswith("['--target', 'mine', '-v']\n") and made["script_error"] is None


@pytest.mark.parametrize(("end", "said"), [("1 / 0", "ZeroDivisionError"), ("raise SystemExit(3)", "status 3")])
def test_a_script_that_fails_is_still_reported(plan: Any, end: str, said: str) -> None:
    made = plan(f"import torch\ntorch.ones(3, device='tpu') + 1\n{end}\n", status=1)
    assert said in made["script_error"] and "THE SCRIPT FAILED" in made["text"]
    assert made["programs"]


def test_a_script_without_the_device(plan: Any, tmp_path: Path) -> None:
    made = plan("print('nothing')\n", "--html", str(tmp_path / "plan.html"))
    assert made["programs"] == [] and made["memory"]["peak_bytes"] == 0 and made["memory"]["fits"]


def test_bad_targets_say_what_is_allowed(command: Run) -> None:
    finished = command("", "--target", "v9:2x2")
    assert finished.returncode == 2 and "v6e:2x4" in finished.stderr


def test_the_page_needs_nothing_else(plan: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    plan(TRAIN, "--html", str(page), arguments=["<b>"])
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and text.count("<svg") == 3
    assert "http" not in text and "<script" not in text and "&lt;b&gt;" in text and "<b>&" not in text


# ---- options ----


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % 2**64)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def test_options_are_read_as_they_were_written() -> None:
    build = _field(1, -1) + _field(4, 1) + _field(5, 2) + _field(6, 1)
    devices = b"".join(_field(3, _field(1, device)) for device in (4, 300))
    build += _field(9, _field(1, 1) + _field(2, 2) + devices) + _field(19, 1) + _field(24, 3)
    overrides = [
        (b"a", _field(1, b"text")),
        (b"b", _field(2, 1)),
        (b"c", _field(3, -5)),
        (b"d", _varint(4 << 3 | 1) + b"\0\0\0\0\0\0\xe0\x3f"),
    ]
    proto = b"".join(_field(7, _field(1, name) + _field(2, value)) for name, value in overrides) + _field(3, build)
    assert _options.parse_options(proto) == aot.Options(
        n_replicas=1,
        n_partitions=2,
        use_spmd=True,
        use_shardy=True,
        device_ids=(4, 300),
        portable=False,
        optimization_level=3,
        overrides=(("a", "text"), ("b", True), ("c", -5), ("d", 0.5)),
    )
    portable = _field(3, _field(1, -1) + _field(4, 1) + _field(5, 1)) + _field(4, 1)
    assert _options.parse_options(portable) == aot.Options(portable=True)


# ---- with libtpu ----


@needs_libtpu
def test_programs_are_compiled_for_the_target(command: Run, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    code = """
        import torch
        x = torch.ones(8192, 8192, dtype=torch.bfloat16).to("tpu")
        y = x @ x
        z = (y @ y).max()
        del y
        print(z.item())
    """
    finished = command(code, "--target", "v6e:2x4", "--json", str(out), TORCH_PJRT_EAGER_MODE="fused")
    assert finished.returncode == 0, finished.stderr
    made = json.loads(out.read_text())
    assert made["target"]["libtpu"] and len(made["programs"]) == 1
    program = made["programs"][0]
    assert program["compile_seconds"] > 0 and program["flops"] == 2 * 2 * 8192**3
    n_bytes = 2 * 8192**2
    assert program["temp_bytes"] >= n_bytes  # y is known to the program alone
    assert program["bytes_accessed"] >= 3 * n_bytes
    assert program["flops_seconds"] == pytest.approx(program["flops"] / 918e12)
    assert made["memory"]["peak_bytes"] >= 2 * n_bytes


@needs_libtpu
def test_what_does_not_fit_by_itself(command: Run, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    code = """
        import torch
        x = torch.empty(2**17, 2**16, device="tpu", dtype=torch.bfloat16)
        (x.float() + 1).sum()
    """
    finished = command(code, "--target", "v5e", "--json", str(out), TORCH_PJRT_EAGER_MODE="strict")
    assert finished.returncode == 2, finished.stderr
    made = json.loads(out.read_text())
    refused = [program for program in made["programs"] if program["error"]]
    assert refused and all(program["needs_bytes"] > 15 * 2**30 for program in refused)
    assert any("does not fit by itself" in advice for advice in made["advice"])


@needs_libtpu
def test_compile_fills_the_folder(command: Run, tmp_path: Path) -> None:
    from torch_pjrt import _cache

    code = """
        import torch
        x = torch.ones(8, 8, device="tpu")
        print((x @ x + 1).sum().item())
    """
    finished = command(code, "--target", "v6e:2x4", "--dir", str(tmp_path / "kept"), name="compile")
    assert finished.returncode == 0, finished.stderr
    kept = _cache.programs(tmp_path / "kept")
    assert len(kept) >= 3 and f"{len(kept)} of {len(kept)} programs for v6e:2x4" in finished.stdout
    for program in kept:
        assert (
            program.client.startswith("plugin: libtpu.so, ") and "\nplatform: tpu, TFRT TPU v6 lite\n" in program.client
        )
        assert "\ndevices: TPU v6 lite\n" in program.client
    assert any('"stablehlo.dot_general"' in program.module for program in kept)


@needs_libtpu
def test_drawing_takes_little_more_memory_than_it_gives(command: Run, tmp_path: Path) -> None:
    """Pairs of words in a last dimension of 2 would take 64 times their bytes in a TPU's tiles."""
    out = tmp_path / "plan.json"
    code = """
        import torch
        torch.rand(2048, 2048, device="tpu")
        torch.rand(2**22, device="tpu")
    """
    finished = command(code, "--target", "v6e", "--json", str(out), TORCH_PJRT_EAGER_MODE="strict")
    assert finished.returncode == 0, finished.stderr
    programs = json.loads(out.read_text())["programs"]
    assert len(programs) == 2
    for program in programs:
        assert program["output_bytes"] == 2**24 and program["temp_bytes"] <= 3 * 2**24, program["signature"]
