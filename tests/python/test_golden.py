"""The golden modules (tests/golden, compared by src/lower/golden_test.c) compile with each plugin that is installed."""

from pathlib import Path

import pytest
from native import CPU_PLUGINS, LIBTPU, ROOT, cpu_plugin, link_core, needs_libtpu, run_c

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture(scope="module")
def compile_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("golden") / "test"
    return link_core(output, "tests/c/runner.c", "tests/plugins/golden_test.c", include=("include", "src", "tests/c"))


def test_each_graph_has_its_module() -> None:
    graphs = {path.stem for path in GOLDEN.glob("*.graph")}
    assert graphs == {path.stem for path in GOLDEN.glob("*.mlir")}


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_every_module_compiles(compile_all: Path, plugin: str) -> None:
    output = run_c(compile_all, TPJ_TEST_PLUGIN=cpu_plugin(plugin), TPJ_TEST_GOLDEN=str(GOLDEN))
    assert "1 passed, 0 failed" in output


@needs_libtpu
@pytest.mark.parametrize("name", ["attention", "sort", "convolution_backward", "index_put"])
def test_modules_compile_for_a_tpu(tmp_path: Path, name: str) -> None:
    aot = link_core(tmp_path / "aot", "examples/c/aot.c")
    assert "peak" in run_c(aot, str(LIBTPU), "v6e:1x1", str(GOLDEN / f"{name}.mlir"))
