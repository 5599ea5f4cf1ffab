"""The C client with each plugin that is installed: tests/plugins/*_test.c, and examples/c/aot.c."""

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# API 0.106, 0.115 and 0.81.
CPU_PLUGINS = [
    "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
]


def find_libtpu() -> str | None:
    """TPU_LIBRARY_PATH, as for JAX, or the installed package."""
    if path := os.environ.get("TPU_LIBRARY_PATH"):
        return path
    spec = importlib.util.find_spec("libtpu")
    return str(Path(spec.origin).parent / "libtpu.so") if spec is not None and spec.origin else None


LIBTPU = find_libtpu()


def build(output: Path, *sources: str) -> Path:
    """A program of the given files and of the part of the core that knows plugins."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    core = [
        path
        for folder in ("src/base", "src/pjrt")
        for path in sorted((ROOT / folder).glob("*.c"))
        if not path.name.endswith("_test.c")
    ]
    files = [*core, ROOT / "src/ir/dtype.c", *(ROOT / source for source in sources)]
    include = [f"-I{ROOT / folder}" for folder in ("include", "src", "tests/c")]
    command = [compiler, "-std=c11", "-O1", "-g", *include, *files, "-o", output, "-ldl", "-lpthread", "-lm"]
    subprocess.run(command, check=True, timeout=120)
    return output


def run(program: Path, *args: str, plugin: str = "") -> str:
    """What it prints. It has to succeed, and to leave stderr alone."""
    removed = ("TORCH_PJRT_", "TF_CPP_", "TPU_", "ALLOW_MULTIPLE_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    environment["TPJ_TEST_PLUGIN"] = plugin
    done = subprocess.run([program, *args], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def cpu_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("cpu") / "test", "tests/c/runner.c", "tests/plugins/cpu_plugin_test.c")


@pytest.fixture(scope="module")
def aot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("aot") / "aot", "examples/c/aot.c")


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_cpu_plugin(cpu_test: Path, plugin: str) -> None:
    path = Path(sysconfig.get_path("purelib")) / plugin
    if not path.exists():
        pytest.skip(f"{plugin.split('/')[0]} is not installed")
    assert " 0 failed, 0 skipped" in run(cpu_test, plugin=str(path))


@pytest.mark.skipif(LIBTPU is None, reason="pip install libtpu, or set TPU_LIBRARY_PATH")
def test_libtpu(tmp_path: Path) -> None:
    program = build(tmp_path / "test", "tests/c/runner.c", "tests/plugins/libtpu_test.c")
    assert " 0 failed" in run(program, plugin=str(LIBTPU))


def test_aot_says_that_it_skips(aot: Path) -> None:
    assert run(aot).startswith("skipped: libtpu is not here")


@pytest.mark.skipif(LIBTPU is None, reason="pip install libtpu, or set TPU_LIBRARY_PATH")
def test_aot(aot: Path, tmp_path: Path) -> None:
    assert "arguments       134217728 bytes" in run(aot, str(LIBTPU))
    module = tmp_path / "module.mlir"
    module.write_text("func.func @main(%a: tensor<1024xf32>) -> tensor<1024xf32> { return %a : tensor<1024xf32> }")
    output = run(aot, str(LIBTPU), "v5p:2x2x1", str(module))
    assert "topology     v5p:2x2x1, 4 device(s)" in output
    assert "arguments            4096 bytes" in output
