"""The public C API, through the programs of examples/c: they see include/tpj and libtpj.so, nothing else."""

import re
import struct
from pathlib import Path

import pytest
import torch
from native import CPU_PLUGINS, LIBTPU, ROOT, compile_c, cpu_plugin, link_core, needs_libtpu, run_c

SOFTMAX = str(ROOT / "examples" / "c" / "softmax.graph")
EVERYTHING = """
graph {
  %0 = input f32[2, 3]
  %1 = input f32[4, 6] view(f32[2, 3] strides=[6, 2] offset=7)
  %2 = random
  %3 = input bf16[2, 3]
  %4 = input c64[3]
  %5 = scalar i64 number
  %6 = add.Tensor(self=%0, other=%1, alpha=%5)
  %7 = native_dropout(input=%6, p=0.5, train=true)
  %8 = mul.Tensor(self=%3, other=%5)
  %9 = mul.Tensor(self=%4, other=%5)
  return %7 order=[1, 0]
  return %7:1
  return %8
  return %9
  write %6 -> %1 view(f32[2, 3] strides=[6, 2] offset=7)
}
"""


@pytest.fixture(scope="module")
def run_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return link_core(tmp_path_factory.mktemp("run") / "run", "examples/c/run.c")


@pytest.fixture(scope="module")
def aot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return link_core(tmp_path_factory.mktemp("aot") / "aot", "examples/c/aot.c")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return tmp_path / "a.graph"


def results(output: str) -> list[tuple[str, torch.Tensor]]:
    """The types and the values (row by row, flat) that examples/c/run.c printed."""
    found: list[tuple[str, list[str]]] = []
    for line in output.splitlines():
        if line.startswith("result "):
            found.append((line.split(": ", 1)[1], []))
        else:
            found[-1][1].extend(re.sub(r"^ (\[[\d, ]*\])?", "", line).replace("i", "j").split())
    return [(kind, torch.tensor([complex(v) if "j" in v else float(v) for v in values])) for kind, values in found]


def made_up(n: int) -> torch.Tensor:
    return torch.arange(n) % 23 / 4 - 2.5


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_softmax(run_graph: Path, plugin: str) -> None:
    ((kind, values),) = results(run_c(run_graph, cpu_plugin(plugin), SOFTMAX, "1,2,3,4,5", "0.5"))
    assert kind == "f32[3, 4]"
    expected = torch.tensor([1.0, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]).reshape(3, 4).div(0.5).softmax(1)
    torch.testing.assert_close(values, expected.flatten(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_views_writes_numbers_and_random_state(run_graph: Path, plugin: str, graph: Path) -> None:
    graph.write_text(EVERYTHING)
    output = results(run_c(run_graph, cpu_plugin(plugin), str(graph), "-", "0,1,2", "7", "1.5", "1", "3"))
    kinds, (dropped, mask, halves, complexes, base) = zip(*output, strict=True)
    assert kinds == ("f32[2, 3]", "bool[2, 3]", "bf16[2, 3]", "c64[3]", "f32[4, 6], in place of input 1")
    before = torch.tensor([0.0, 1, 2]).repeat(8)
    view = before.as_strided((2, 3), (6, 2), 7)
    summed = made_up(6).reshape(2, 3) + 3 * view
    torch.testing.assert_close(dropped, summed.flatten() * mask * 2)
    assert 0 < mask.sum() < 6
    assert halves.tolist() == [4.5] * 6
    assert complexes.tolist() == [3 + 3j] * 3
    view.copy_(summed)
    torch.testing.assert_close(base, before)


def test_the_seed_decides(run_graph: Path, graph: Path) -> None:
    graph.write_text("graph {\n  %0 = random\n  %1 = rand.generator(size=[8], generator=%0)\n  return %1\n}\n")
    plugin = cpu_plugin(CPU_PLUGINS[0])
    first, second, other = (run_c(run_graph, plugin, str(graph), seed) for seed in ("1", "1", "2"))
    assert first == second != other


def test_sizes_that_depend_on_data(run_graph: Path, graph: Path) -> None:
    graph.write_text("graph {\n  %0 = input i64[2, 3]\n  %1 = nonzero(self=%0)\n}\n")
    ((kind, values),) = results(run_c(run_graph, cpu_plugin(CPU_PLUGINS[0]), str(graph), "0,3"))
    assert kind == "i64[3, 2]"
    assert values.tolist() == [0, 1, 1, 0, 1, 2]


def test_files_and_bytes(run_graph: Path, graph: Path, tmp_path: Path) -> None:
    graph.write_text("graph {\n  %0 = input f16[3]\n  %1 = neg(self=%0)\n  return %1\n}\n")
    data = tmp_path / "halves.bin"
    data.write_bytes(struct.pack("3e", 1.0, -2.0, 0.5))
    plugin = cpu_plugin(CPU_PLUGINS[0])
    assert results(run_c(run_graph, plugin, str(graph), f"@{data}"))[0][1].tolist() == [-1.0, 2.0, -0.5]
    data.write_bytes(b"12")
    assert "has 2 bytes, the input has 6" in run_c(run_graph, plugin, str(graph), f"@{data}", fails=True)


EMBEDDING = """graph {
  %0 = input f32[4, 3]
  %1 = input i64[2]
  %2 = embedding(weight=%0, indices=%1) @ "train.py":12
}
"""


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        (
            EMBEDDING,
            ["-", "0,4"],
            r"embedding\(.*\) \(first called at train\.py:12\): index 4 is out of bounds for .* size 4",
        ),
        (EMBEDDING, ["-", "x"], "'x' is no list of numbers for i64"),
        (EMBEDDING, ["-", "-", "-"], "the graph has 2 inputs that take a value, 3 were given"),
        ("graph {\n  %0 = ad(self=%1)\n}\n", [], "line 2, column 8: there is no op 'ad'"),
        ("graph {\n  %0 = input f32[2]\n  %1 = mm(self=%0, mat2=%0)\n}\n", [], r"mm\(f32\[2\], f32\[2\]\)"),
    ],
)
def test_errors_say_what(run_graph: Path, graph: Path, text: str, values: list[str], message: str) -> None:
    graph.write_text(text)
    assert re.search(message, run_c(run_graph, cpu_plugin(CPU_PLUGINS[0]), str(graph), *values, fails=True))


def test_each_public_header_stands_alone(tmp_path: Path) -> None:
    for header in sorted((ROOT / "include" / "tpj").glob("*.h")):
        source = tmp_path / "alone.c"
        source.write_text(
            f'#include "tpj/{header.name}"\n#include "tpj/{header.name}"\nint main(void) {{ return 0; }}\n'
        )
        compile_c(tmp_path / "alone", [source], ["include"])


def test_aot_says_that_it_skips(aot: Path) -> None:
    assert run_c(aot).startswith("skipped: libtpu is not here")


@needs_libtpu
def test_aot(aot: Path, tmp_path: Path) -> None:
    assert "arguments       134217728 bytes" in run_c(aot, str(LIBTPU))
    module = tmp_path / "module.mlir"
    module.write_text("func.func @main(%a: tensor<1024xf32>) -> tensor<1024xf32> { return %a : tensor<1024xf32> }")
    output = run_c(aot, str(LIBTPU), "v5p:2x2x1", str(module))
    assert "topology     v5p:2x2x1, 4 device(s)" in output
    assert "arguments            4096 bytes" in output
    output = run_c(aot, str(LIBTPU), "v6e:1x1", SOFTMAX)
    assert re.search(r"peak +\d+ bytes", output)
    assert re.search(r"work +\d+ floating-point operations", output)
