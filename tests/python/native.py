"""Programs in C that the tests build, and the plugins that they run on."""

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "python" / "torch_pjrt"
# API 0.106, 0.115 and 0.81.
CPU_PLUGINS = [
    "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
]


def cpu_plugin(name: str) -> str:
    """The path of one of CPU_PLUGINS; skips the test where it is not installed."""
    path = Path(sysconfig.get_path("purelib")) / name
    if not path.exists():
        pytest.skip(f"{name.split('/')[0]} is not installed")
    return str(path)


def find_libtpu() -> str | None:
    """TPU_LIBRARY_PATH, as for JAX, or the installed package."""
    if path := os.environ.get("TPU_LIBRARY_PATH"):
        return path
    spec = importlib.util.find_spec("libtpu")
    return str(Path(spec.origin).parent / "libtpu.so") if spec is not None and spec.origin else None


LIBTPU = find_libtpu()
needs_libtpu = pytest.mark.skipif(LIBTPU is None, reason="pip install libtpu, or set TPU_LIBRARY_PATH")


def compile_c(output: Path, sources: list[Path], include: list[str], *libraries: str) -> Path:
    """The paths of `sources` and `include` are relative to the root. Warnings are errors."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folders = [f"-I{ROOT / folder}" for folder in include]
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    files = [ROOT / source for source in sources]
    subprocess.run([compiler, *flags, *folders, *files, "-o", output, *libraries], check=True, timeout=120)
    return output


def link_core(output: Path, *sources: str, include: tuple[str, ...] = ("include",)) -> Path:
    """A program on top of the installed libtpj.so."""
    libraries = (str(PACKAGE / "libtpj.so"), f"-Wl,-rpath,{PACKAGE}")
    return compile_c(output, [Path(source) for source in sources], list(include), *libraries)


def run_c(program: Path, *args: str, fails: bool = False, **environment: str) -> str:
    """What it prints to stdout. It has to succeed and to leave stderr alone, or, if it `fails`, what it says there."""
    removed = ("TORCH_PJRT_", "TF_CPP_", "TPU_", "ALLOW_MULTIPLE_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    done = subprocess.run([program, *args], env=inherited | environment, capture_output=True, text=True, timeout=240)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    if fails:
        return done.stderr
    assert done.stderr == ""
    return done.stdout


if __name__ == "__main__":  # for make check-plugins: the installed CPU plugins that are not the default one
    from torch_pjrt import _discovery

    default = _discovery.discover().path
    for name in CPU_PLUGINS:
        other = Path(sysconfig.get_path("purelib")) / name
        if other.exists() and not other.samefile(default):
            print(other)
