"""Which plugin is chosen, on machines that are laid out in a temporary folder."""

from pathlib import Path

import pytest
from processes import run
from torch_pjrt import _discovery

PACKAGES = ("lammps_jax_pjrt_cpu", "fastatomstruct_xla_cpu", "xla_plugins")


@pytest.fixture
def machine(tmp_path):
    """A machine without devices, and packages that are "installed" by name."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    return Machine(tmp_path)


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed: dict[str, str] = {}

    def install(self, package: str, file: str = "plugin.so") -> str:
        path = self.root / package / file
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"")
        self.installed[package] = str(path)
        return str(path)

    def add_pci(self, vendor: str, device_class: str) -> None:
        folder = (
            self.root / f"sys/bus/pci/devices/0000:00:{len(list((self.root / 'sys/bus/pci/devices').iterdir())):02x}.0"
        )
        folder.mkdir()
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{device_class}\n")
        (folder / "device").write_text("0x0000\n")

    def discover(self, setting: str = "", other: bool = False) -> _discovery.Plugin:
        return _discovery.discover(
            setting,
            root=str(self.root),
            other_accelerator=lambda: other,
            find=lambda package, file: self.installed.get(package),
        )


def test_setting_wins(machine):
    machine.install("lammps_jax_pjrt_cpu")
    plugin = machine.discover("/some/plugin.so", other=True)
    assert (plugin.hardware, plugin.path, plugin.inert) == ("chosen", "/some/plugin.so", False)


def test_none_is_inert(machine):
    machine.install("lammps_jax_pjrt_cpu")
    assert machine.discover("none").inert


def test_cpu_plugins_in_order(machine):
    for count in range(len(PACKAGES), 0, -1):
        first = PACKAGES[count - 1]
        path = machine.install(first)
        plugin = machine.discover()
        assert (plugin.hardware, plugin.path) == ("cpu", path), first


def test_tpu_with_libtpu(machine):
    machine.install("lammps_jax_pjrt_cpu")
    libtpu = machine.install("libtpu", "libtpu.so")
    machine.add_pci("0x1ae0", "0x088000")
    plugin = machine.discover(other=True)
    assert (plugin.hardware, plugin.path, plugin.inert) == ("tpu", libtpu, False)


def test_libtpu_without_tpu_is_not_used(machine):
    machine.install("libtpu", "libtpu.so")
    cpu = machine.install("fastatomstruct_xla_cpu")
    machine.add_pci("0x8086", "0x030000")
    assert machine.discover().path == cpu


def test_googles_network_card_is_no_tpu(machine):
    machine.install("libtpu", "libtpu.so")
    machine.install("fastatomstruct_xla_cpu")
    machine.add_pci("0x1ae0", "0x020000")
    assert machine.discover().hardware == "cpu"


def test_device_files_decide_where_the_pci_list_is_hidden(machine):
    machine.install("libtpu", "libtpu.so")
    (machine.root / "dev/accel0").write_bytes(b"")
    assert machine.discover().hardware == "tpu"


def test_tpu_without_libtpu_says_what_to_install(machine):
    machine.install("fastatomstruct_xla_cpu")
    machine.add_pci("0x1ae0", "0x088000")
    plugin = machine.discover()
    assert plugin.hardware == "cpu"
    assert "libtpu" in plugin.reason


def test_other_accelerator_makes_it_inert(machine):
    machine.install("fastatomstruct_xla_cpu")
    assert machine.discover(other=True).inert
    assert not machine.discover(other=False).inert


def test_nothing_installed_registers_and_explains(machine):
    plugin = machine.discover()
    assert (plugin.hardware, plugin.path, plugin.inert) == ("none", "", False)
    assert "pip install" in plugin.reason


def test_other_accelerator_is_not_asked_when_the_tpu_decides(machine):
    machine.install("libtpu", "libtpu.so")
    machine.add_pci("0x1ae0", "0x088000")

    def fail() -> bool:
        raise AssertionError("asked")

    def find(package: str, file: str) -> str | None:
        return machine.installed.get(package)

    assert _discovery.discover("", root=str(machine.root), other_accelerator=fail, find=find).hardware == "tpu"


def test_installed_packages_are_found_and_not_imported():
    code = """
import sys
from torch_pjrt import _discovery
found = [_discovery.find_in_package(*plugin) for plugin in _discovery.CPU_PLUGINS]
print(sum(path is not None for path in found), any(plugin[0] in sys.modules for plugin in _discovery.CPU_PLUGINS))
print(_discovery.find_in_package("no_such_package", "file"))
"""
    count, imported, missing = run(code).stdout.split()
    assert int(count) >= 1
    assert imported == "False"
    assert missing == "None"


USE = """
import torch
print(torch.tpu.is_available(), torch.accelerator.device_count())
try:
    torch.ones(1, device="tpu")
except RuntimeError as error:
    print(error)
"""


def test_missing_plugin_is_named(tmp_path):
    out = run(USE, TORCH_PJRT_PLUGIN=str(tmp_path / "missing.so")).stdout
    assert out.startswith("False ")
    assert "missing.so" in out


def test_file_that_is_no_plugin_is_named(tmp_path):
    plugin = tmp_path / "text.so"
    plugin.write_text("not a library")
    out = run(USE, TORCH_PJRT_PLUGIN=str(plugin)).stdout
    assert out.startswith("False ")
    assert "text.so" in out


def installed_plugins() -> list[str]:
    found = (_discovery.find_in_package(*plugin) for plugin in _discovery.CPU_PLUGINS)
    return [path for path in found if path is not None]


@pytest.mark.parametrize("plugin", installed_plugins(), ids=lambda path: Path(path).name)
def test_each_cpu_plugin_computes(plugin):
    code = """
import torch
x = torch.arange(12., device="tpu").view(3, 4)
print(torch.equal((x @ x.t() + 1).cpu(), x.cpu() @ x.cpu().t() + 1))
print(torch.tpu.device_count(), torch.tpu.current_device())
print(torch.ones(2, device="tpu:2").device, torch.tpu.get_device_properties(2).plugin)
"""
    out = run(code, TORCH_PJRT_PLUGIN=plugin, TORCH_PJRT_NUM_DEVICES="3").stdout.split()
    assert out == ["True", "3", "0", "tpu:2", plugin]
