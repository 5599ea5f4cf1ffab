"""What `import torch` does with the package installed: it is small, silent, and leaves PyTorch as it was."""

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from processes import run
from torch_pjrt import _loader

IMPORT = "import torch"
OFF = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
# How long it takes is measured by bench/load.py.
MEASURE_MEMORY = """
import resource
import torch._C
from torch_pjrt import _loader
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_loader.load()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024)
"""


def test_device_is_there_after_import():
    code = """
import torch
print(torch.device("tpu"), torch.ones(2, device="tpu").sum().item(), torch.rand(1).to("tpu").device)
"""
    assert run(code).stdout.split() == ["tpu", "2.0", "tpu:0"]


def test_import_is_silent():
    finished = run(IMPORT)
    assert (finished.stdout, finished.stderr) == ("", "")


def test_import_starts_no_client_and_no_compiler():
    code = """
import sys, torch
from torch_pjrt import _C
print(_C.started(), torch.tpu.is_initialized(), torch.tpu._initialized)
print([name for name in sys.modules if name.split('.')[:2] in (['torch', '_dynamo'], ['torch', '_inductor'])])
maps = open('/proc/self/maps').read()
print([name for name in ('pjrt_c_api_cpu_plugin.so', 'libpjrt_cpu.so', 'xla_cpu_pjrt.so', 'libtpu.so') if name in maps])
"""
    assert run(code).stdout.splitlines() == ["False False False", "[]", "[]"]


def test_loading_takes_little_memory():
    megabytes = statistics.median(float(run(MEASURE_MEMORY, **OFF).stdout) for _ in range(3))
    assert megabytes < 30


ATTRIBUTES = """
import json, sys, torch, types
def names(owner): return {name: id(value) for name, value in vars(owner).items()}
owners = {"torch": torch, "Tensor": torch.Tensor, "TensorBase": torch._C.TensorBase, "Module": torch.nn.Module,
          "functional": torch.nn.functional, "nn": torch.nn, "autograd": torch.autograd,
          "serialization": torch.serialization, "random": torch.random,
          "storage": torch.storage.UntypedStorage, "optim": torch.optim.Optimizer,
          "accelerator": torch.accelerator, "amp": torch.amp, "utils": torch.utils, "_utils": torch._utils,
          "dataloader": torch.utils.data.DataLoader, "parameter": torch.nn.Parameter, "jit": torch.jit,
          "compiler": torch.compiler, "linalg": torch.linalg, "fft": torch.fft, "distributed": torch.distributed}
before = {name: names(owner) for name, owner in owners.items()}
modules = {name for name in sys.modules if name.partition(".")[0] == "torch"}
from torch_pjrt import _loader
_loader.load()
added = {n: sorted(set(names(o)) - set(before[n])) for n, o in owners.items()}
changed = {n: sorted(k for k, v in before[n].items() if names(o).get(k, v) != v) for n, o in owners.items()}
new_modules = {name for name in sys.modules if name.partition(".")[0] == "torch"} - modules
print(json.dumps([{k: v for k, v in added.items() if v}, {k: v for k, v in changed.items() if v}, sorted(new_modules)]))
"""


def test_torch_keeps_its_attributes():
    added, changed, modules = json.loads(run(ATTRIBUTES, **OFF).stdout)
    # What PyTorch's own registration functions add: nothing else, and nothing is replaced.
    assert added == {"torch": ["tpu"], "Tensor": ["is_tpu", "tpu"], "Module": ["tpu"]}
    assert changed == {}
    assert [name for name in modules if not name.startswith("torch.tpu")] == []


def test_second_load_changes_nothing():
    code = "import torch\nfrom torch_pjrt import _autoload\nbefore = torch.tpu\n_autoload()\nprint(torch.tpu is before)"
    assert run(code).stdout == "True\n"


def test_plugin_none_turns_the_device_off():
    code = """
import torch
print(hasattr(torch, "tpu"), torch.accelerator.is_available())
try: torch.device("tpu")
except RuntimeError: print("no such device")
maps = open("/proc/self/maps").read()
print("libtpj_glue" in maps)
"""
    assert run(code, TORCH_PJRT_PLUGIN="none").stdout.splitlines() == ["False False", "no such device", "False"]


def test_inert_beside_another_accelerator():
    code = """
import torch
from torch_pjrt import _discovery, _loader
_discovery.has_other_accelerator = lambda: True
_discovery.discover.__kwdefaults__["other_accelerator"] = lambda: True
_loader.load()
print(hasattr(torch, "tpu"))
"""
    assert run(code, **OFF).stdout == "False\n"


def test_no_initialisation_of_cuda():
    code = """
import torch
from torch_pjrt import _discovery
_discovery.has_other_accelerator()
print(torch.cuda.is_initialized())
"""
    assert run(code).stdout == "False\n"


def test_wrong_setting_is_reported_at_first_use_and_not_at_import():
    code = """
import torch
try: torch.ones(1, device="tpu")
except ValueError as error: print(error)
"""
    finished = run(code, TORCH_PJRT_EAGER_MODE="fast")
    assert "TORCH_PJRT_EAGER_MODE=fast" in finished.stdout
    assert "strict" in finished.stdout


def test_unknown_setting_is_named_with_the_nearest():
    assert "TORCH_PJRT_FALLBACK" in run(IMPORT, TORCH_PJRT_FALBACK="warn").stderr


def test_the_environment_sets_the_eager_mode():
    code = "import torch\nprint(torch.tpu.eager_mode(), torch.ones(2, device='tpu').sum().item())"
    for mode in ("strict", "debug", "fused"):
        assert run(code, TORCH_PJRT_EAGER_MODE=mode).stdout.split() == [mode, "2.0"]


def import_copy(tmp_path: Path, damage: Callable[[Path], None]) -> str:
    """What `import torch` warns of with a copy of the package that was damaged; PyTorch itself has to work."""
    copy = tmp_path / "torch_pjrt"
    shutil.copytree(Path(_loader.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    damage(copy)
    code = f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
messages = [str(w.message) for w in caught if "torch_pjrt" in str(w.message)]
print(torch.ones(2).sum().item(), hasattr(torch, "tpu"), *messages)
"""
    out = run(code).stdout
    assert out.startswith("2.0 False ")
    return out


def test_missing_native_parts_do_not_break_torch(tmp_path):
    assert "do not load" in import_copy(tmp_path, lambda package: [path.unlink() for path in package.glob("*.so")])


def test_missing_core_does_not_break_torch(tmp_path):
    assert "libtpj.so" in import_copy(tmp_path, lambda package: (package / "libtpj.so").unlink())


def test_glue_for_another_torch_is_not_loaded(tmp_path):
    def rename_version(package: Path) -> None:
        glue = package / "libtpj_glue.so"
        content = glue.read_bytes()
        version = b"torch " + ".".join(torch.__version__.split(".")[:2]).encode() + b";"
        assert content.count(version) == 1
        glue.write_bytes(content.replace(version, b"torch 9" + version[7:]))

    assert "built for torch 9." in import_copy(tmp_path, rename_version)


@pytest.mark.parametrize("arguments", [["-m", "torch_pjrt", "info"]])
def test_info_command(arguments):
    import subprocess
    import sys

    finished = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    for word in ("torch_pjrt", "plugin", "PJRT", "tpu:0", "TORCH_PJRT_FALLBACK"):
        assert word in finished.stdout
