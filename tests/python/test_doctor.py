"""`torch_pjrt doctor`: what it finds on this machine, and on machines and in environments that are laid out for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from native import compile_c
from torch_pjrt import doctor
from torch_pjrt.doctor import _device, _environment, _machine

LEVELS = {doctor.OK, doctor.NOTE, doctor.WARNING, doctor.ERROR}


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    removed = ("TORCH_PJRT_", "TPU_", "XLA_FLAGS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    return subprocess.run(
        [sys.executable, "-m", "torch_pjrt", "doctor", *options],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=200,
    )


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """By name; the worst of several."""
    order = [doctor.OK, doctor.NOTE, doctor.WARNING, doctor.ERROR]
    rows = json.loads(done.stdout)["findings"]
    return {row["name"]: row for row in sorted(rows, key=lambda row: order.index(row["level"]))}


def test_all_is_well_here() -> None:
    done = run("--json")
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    found = findings(done)
    assert {
        "machine",
        "memory",
        "torch_pjrt",
        "torch",
        "TPU",
        "libtpu",
        "plugin",
        "device",
        "self-test",
        "cache",
    } <= set(found)
    assert {row["level"] for row in found.values()} <= LEVELS - {doctor.ERROR}
    assert all(row["advice"] for row in found.values() if row["level"] in (doctor.WARNING, doctor.ERROR))
    assert found["self-test"]["facts"]["checked"] >= 8 and found["self-test"]["facts"]["wrong"] == []


def test_a_device_that_is_not_loaded_with_torch() -> None:
    done = run(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1
    assert "unset TORCH_DEVICE_BACKEND_AUTOLOAD" in done.stdout and "does not work as it should" in done.stdout
    assert "pip install" not in done.stdout


def test_what_is_turned_off_is_one_error() -> None:
    done = run("--json", TORCH_PJRT_PLUGIN="none")
    errors = [row for row in json.loads(done.stdout)["findings"] if row["level"] == doctor.ERROR]
    assert [(row["name"], row["advice"]) for row in errors] == [("plugin", "unset TORCH_PJRT_PLUGIN")]


@pytest.mark.parametrize("file", _machine.NATIVE)
def test_an_installation_without_its_native_parts(tmp_path: Path, file: str) -> None:
    package = tmp_path / "torch_pjrt"
    package.mkdir()
    for path in _machine.PACKAGE.iterdir():
        if path.name != file:
            (package / path.name).symlink_to(path)
    # Paths are resolved to where the native parts are: this file has to be one of the copy.
    (package / "doctor").unlink()
    (package / "doctor").mkdir()
    for path in (_machine.PACKAGE / "doctor").glob("*.py"):
        (package / "doctor" / path.name).write_text(path.read_text())
    done = run("--json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    found = findings(done)
    assert found["torch_pjrt"]["level"] == doctor.ERROR and file in found["torch_pjrt"]["text"]
    assert "cache" in found and "device" not in found


def test_a_plugin_that_is_not_there() -> None:
    done = run("--json", TORCH_PJRT_PLUGIN="/no/such/plugin.so")
    assert done.returncode == 1
    assert "/no/such/plugin.so" in findings(done)["device"]["text"]


def plugin(folder: Path, does: str) -> str:
    source = folder / "plugin.c"
    source.write_text(
        f"#include <stdlib.h>\n#include <unistd.h>\nvoid *GetPjrtApi(void);\nvoid *GetPjrtApi(void) {{ {does}; return 0; }}\n"
    )
    return str(compile_c(folder / "plugin.so", [source], [], "-shared", "-fPIC", "-D_DEFAULT_SOURCE"))


def test_a_plugin_that_hangs(tmp_path: Path) -> None:
    # What it started holds the pipes that doctor reads, and has to end too.
    done = run("--json", "--timeout=8", TORCH_PJRT_PLUGIN=plugin(tmp_path, "fork(); sleep(1000)"))
    assert done.returncode == 1
    assert "8 s of waiting for: the device's first use" in findings(done)["device"]["text"]


@pytest.mark.parametrize(
    ("hardware", "path", "inert", "off", "tpu", "level", "advice"),
    [
        ("tpu", "/libtpu.so", False, False, True, doctor.OK, ""),
        ("cpu", "/cpu.so", False, False, False, doctor.OK, ""),
        ("chosen", "/cpu.so", False, False, True, doctor.OK, ""),
        ("cpu", "/cpu.so", False, False, True, doctor.ERROR, "pip install libtpu"),
        ("none", "", False, False, False, doctor.ERROR, "pip install fastatomstruct-xla-cpu"),
        ("none", "", True, True, False, doctor.ERROR, "unset TORCH_PJRT_PLUGIN"),
        ("none", "", True, False, False, doctor.ERROR, "TORCH_PJRT_PLUGIN=/"),
    ],
)
def test_plugins(hardware: str, path: str, inert: bool, off: bool, tpu: bool, level: str, advice: str) -> None:
    plugin = {"hardware": hardware, "path": path, "reason": "because", "inert": inert, "off": off}
    finding = _device.plugin_finding(plugin, tpu)
    assert finding.level == level and finding.advice.startswith(advice)


@pytest.mark.parametrize(("tpu", "levels"), [(True, (doctor.ERROR,) * 2), (False, (doctor.NOTE, doctor.WARNING))])
def test_libtpu_is_missed_where_there_is_a_tpu(
    tpu: bool, levels: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_LIBRARY_PATH", "/no/such/libtpu.so")
    (absent,) = _device.libtpu_findings(30, tpu)
    (tmp_path / "libtpu.so").write_text("none")
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "libtpu.so"))
    (broken,) = _device.libtpu_findings(30, tpu)
    assert (absent.level, broken.level) == levels
    assert "/no/such/libtpu.so" in absent.text and absent.advice and broken.advice


def test_a_plugin_that_ends_the_process(tmp_path: Path) -> None:
    done = run("--json", TORCH_PJRT_PLUGIN=plugin(tmp_path, "abort()"))
    assert done.returncode == 1
    assert "the device's first use ended the process with signal 6" in findings(done)["device"]["text"]


def test_a_setting_that_does_not_fit() -> None:
    done = run("--json", TORCH_PJRT_EAGER_MODE="sideways")
    assert done.returncode == 1
    assert "TORCH_PJRT_EAGER_MODE" in findings(done)["device"]["text"]


# ---- environments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", doctor.ERROR),
        ("XLA_FLAGS", "--xla_dump_to=/tmp", doctor.WARNING),
        ("TPU_LIBRARY_PATH", "/no/such/file", doctor.WARNING),
        ("PJRT_DEVICE", "TPU", doctor.WARNING),
        ("LD_PRELOAD", "/usr/lib/libtcmalloc.so.4", doctor.WARNING),
    ],
)
def test_variables_that_hurt(name: str, value: str, level: str) -> None:
    (finding,) = _environment.hurting({name: value})
    assert finding.level == level and finding.text.startswith(f"{name}={value}: ") and finding.advice


def test_libtpu_is_told_all_or_nothing() -> None:
    told = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v6e-8"}
    (finding,) = _environment.hurting(told)
    assert finding.advice == "set TPU_WORKER_ID, TPU_WORKER_HOSTNAMES too"
    assert not list(_environment.hurting(told | {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}))
    assert not list(_environment.hurting({"TPU_SKIP_MDS_QUERY": "1"}))


# ---- machines -------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for folder in ("dev/vfio", "sys/bus/pci/devices/0000:00:05.0", "proc"):
        (tmp_path / folder).mkdir(parents=True)
    device = tmp_path / "sys/bus/pci/devices/0000:00:05.0"
    (device / "vendor").write_text("0x1ae0\n")
    (device / "class").write_text("0x120000\n")
    return tmp_path


def check_tpu(root: Path) -> doctor.Finding:
    (finding,) = _machine.check_tpu(root, root / "proc")
    return finding


def test_a_tpu_without_device_files(machine: Path) -> None:
    finding = check_tpu(machine)
    assert finding.level == doctor.ERROR and "neither /dev/accel* nor /dev/vfio/*" in finding.text


def test_a_tpu(machine: Path) -> None:
    for name in ("vfio", "0", "1"):
        (machine / "dev/vfio" / name).touch()
    finding = check_tpu(machine)
    assert finding.level == doctor.OK and finding.text.startswith("2 device files")


def test_a_tpu_in_use(machine: Path) -> None:
    (machine / "dev/accel0").touch()
    (machine / "proc/77/fd").mkdir(parents=True)
    (machine / "proc/77/comm").write_text("trainer\n")
    (machine / "proc/77/fd/5").symlink_to(machine / "dev/accel0")
    finding = check_tpu(machine)
    assert finding.level == doctor.WARNING and "in use by trainer (77)" in finding.text and finding.advice


def test_no_tpu(tmp_path: Path) -> None:
    assert check_tpu(tmp_path).level == doctor.NOTE


@pytest.mark.parametrize(
    ("version", "built", "level"),
    [
        ("2.13.0+cpu", "2.13", doctor.OK),
        ("2.14.1", "2.13", doctor.ERROR),
        ("2.9.0", "2.9", doctor.ERROR),
        ("3.0.0", None, doctor.ERROR),
        (None, "2.13", doctor.ERROR),
    ],
)
def test_versions_of_torch(version: str | None, built: str | None, level: str) -> None:
    (finding,) = _machine.check_torch(version, built)
    assert finding.level == level and (level == doctor.OK or finding.advice)


def test_the_glue_says_what_it_was_built_for() -> None:
    import torch

    assert _machine.built_for() == ".".join(torch.__version__.split(".")[:2])


def test_folders_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(folder: str) -> doctor.Finding:
        monkeypatch.setenv("TORCH_PJRT_CACHE_DIR", folder)
        (finding,) = _machine.check_cache()
        return finding

    assert check("none").level == doctor.WARNING
    (tmp_path / "file").touch()
    assert "cannot be written" in check(str(tmp_path / "file")).text
    new = check(str(tmp_path / "new" / "folder"))
    assert new.text.startswith(f"{tmp_path}/new/folder: 0 programs") and not (tmp_path / "new").exists()
