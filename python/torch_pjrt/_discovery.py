"""Which PJRT plugin to use. The decision is the core's (tpj_discover); where packages lie is known here.

The core is called through ctypes, before the extension is loaded: loading the extension registers the device with
PyTorch, which must not happen where the package is to stay inert.
"""

import ctypes
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HARDWARE = ("none", "chosen", "tpu", "cpu")
# The newest plugin with the fastest bfloat16 first, then the default dependency, then the one that still works.
CPU_PLUGINS = (
    ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
    ("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
    ("xla_plugins", "xla_cpu_pjrt/xla_cpu_pjrt.so"),
)


class _Input(ctypes.Structure):
    _fields_ = (
        ("setting", ctypes.c_char_p),
        ("libtpu_path", ctypes.c_char_p),
        ("cpu_paths", ctypes.POINTER(ctypes.c_char_p)),
        ("n_cpu_paths", ctypes.c_int),
        ("other_accelerator", ctypes.c_bool),
        ("root", ctypes.c_char_p),
    )


class _Result(ctypes.Structure):
    _fields_ = (("hardware", ctypes.c_int), ("plugin_path", ctypes.c_char_p), ("reason", ctypes.c_char_p))


@dataclass(frozen=True)
class Plugin:
    hardware: str  # one of HARDWARE
    path: str  # "" for none
    reason: str  # why this one; for none, what to do
    inert: bool  # the device is not even registered


def _core() -> ctypes.CDLL:
    core = ctypes.CDLL(str(Path(__file__).with_name("libtpj.so")))
    core.tpj_discover.argtypes = [ctypes.POINTER(_Input)]
    core.tpj_discover.restype = _Result
    core.tpj_discover_tpu.argtypes = [ctypes.c_char_p]
    core.tpj_discover_tpu.restype = ctypes.c_bool
    return core


def find_in_package(package: str, file: str) -> str | None:
    """A file of an installed top-level package, which is not imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(folder, file)
        if os.path.exists(path):
            return path
    return None


def has_other_accelerator() -> bool:
    """Whether PyTorch drives another accelerator here. Initialises none: CUDA counts through its management library."""
    import torch

    if torch.backends.mps.is_built() and torch.backends.mps.is_available():
        return True
    if torch.version.cuda is None and torch.version.hip is None and getattr(torch.version, "xpu", None) is None:
        return False
    return torch.cuda.device_count() > 0 or torch.xpu.device_count() > 0


def discover(
    setting: str | None = None,
    *,
    root: str | None = None,
    other_accelerator: Callable[[], bool] = has_other_accelerator,
    find: Callable[[str, str], str | None] = find_in_package,
) -> Plugin:
    """Find the plugin. `setting` is TORCH_PJRT_PLUGIN; the other arguments replace the machine, for tests."""
    core = _core()
    if setting is None:
        setting = os.environ.get("TORCH_PJRT_PLUGIN", "")
    place = None if root is None else os.fsencode(root)
    libtpu = None if setting else find("libtpu", "libtpu.so")
    paths = [] if setting else [path for path in (find(*plugin) for plugin in CPU_PLUGINS) if path is not None]
    # Asked only where the answer matters: with a TPU that can be used, the TPU it is.
    other = not setting and not (libtpu is not None and core.tpj_discover_tpu(place)) and other_accelerator()
    cpu_paths = (ctypes.c_char_p * max(len(paths), 1))(*(os.fsencode(path) for path in paths))
    result = core.tpj_discover(
        _Input(
            os.fsencode(setting),
            None if libtpu is None else os.fsencode(libtpu),
            cpu_paths,
            len(paths),
            other,
            place,
        )
    )
    hardware = HARDWARE[result.hardware]
    path = "" if result.plugin_path is None else os.fsdecode(result.plugin_path)
    return Plugin(hardware, path, result.reason.decode(), inert=hardware == "none" and (setting == "none" or other))
