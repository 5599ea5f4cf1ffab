"""The C client with each plugin that is installed: tests/plugins/*_test.c."""

from pathlib import Path

import pytest
from native import CPU_PLUGINS, LIBTPU, ROOT, compile_c, cpu_plugin, needs_libtpu, run_c


def build(output: Path, *sources: str) -> Path:
    """A program of the given files and of the part of the core that knows plugins."""
    core = [
        path.relative_to(ROOT)
        for folder in ("src/base", "src/pjrt")
        for path in sorted((ROOT / folder).glob("*.c"))
        if not path.name.endswith("_test.c")
    ]
    files = [*core, Path("src/ir/dtype.c"), Path("tests/c/runner.c"), *map(Path, sources)]
    return compile_c(output, files, ["include", "src", "tests/c"], "-ldl", "-lpthread", "-lm")


@pytest.fixture(scope="module")
def cpu_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("cpu") / "test", "tests/plugins/cpu_plugin_test.c")


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_cpu_plugin(cpu_test: Path, plugin: str) -> None:
    assert " 0 failed, 0 skipped" in run_c(cpu_test, TPJ_TEST_PLUGIN=cpu_plugin(plugin))


@needs_libtpu
def test_libtpu(tmp_path: Path) -> None:
    program = build(tmp_path / "test", "tests/plugins/libtpu_test.c")
    assert " 0 failed" in run_c(program, TPJ_TEST_PLUGIN=str(LIBTPU))
