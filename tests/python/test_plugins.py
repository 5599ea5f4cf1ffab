"""The C client with each CPU plugin that is installed (tests/plugins/cpu_plugin_test.c)."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# API 0.106, 0.115 and 0.81.
PLUGINS = [
    "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    sources = [
        source
        for folder in ("src/base", "src/ir", "src/pjrt")
        for source in sorted((ROOT / folder).glob("*.c"))
        if not source.name.endswith("_test.c") and (folder != "src/ir" or source.name == "dtype.c")
    ]
    sources += [ROOT / "tests/c/runner.c", ROOT / "tests/plugins/cpu_plugin_test.c"]
    output = tmp_path_factory.mktemp("plugins") / "cpu_plugin_test"
    include = [f"-I{ROOT / folder}" for folder in ("include", "src", "tests/c")]
    command = [compiler, "-std=c11", "-O1", "-g", *include, *sources, "-o", output, "-ldl", "-lpthread", "-lm"]
    subprocess.run(command, check=True, timeout=120)
    return output


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugin(program: Path, plugin: str) -> None:
    path = Path(sysconfig.get_path("purelib")) / plugin
    if not path.exists():
        pytest.skip(f"{plugin.split('/')[0]} is not installed")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH_PJRT_", "TF_CPP_"))}
    environment["TPJ_TEST_PLUGIN"] = str(path)
    run = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 failed" in run.stdout
    assert run.stderr == ""
