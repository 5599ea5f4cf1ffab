"""Registers the device with PyTorch."""

import contextlib
import mmap
import sys
import warnings
from pathlib import Path

import torch

from torch_pjrt import _discovery, _imports

BACKEND = "tpu"
loaded = False


def load() -> None:
    """Make `torch.device("tpu")` and `torch.tpu`. A second call does nothing."""
    global loaded
    if loaded:
        return
    try:
        plugin = _discovery.discover()
        if plugin.inert:
            return
        _check_version()
        # The extension brings the glue: guard, allocator and kernels must be there before the device gets its name.
        from torch_pjrt import _C
    except (ImportError, OSError) as error:
        # Not built, or built for another torch. `import torch` has to work all the same.
        warnings.warn(
            f'device "{BACKEND}" is not there, because the native parts of torch_pjrt do not load: {error}. They have '
            f"to be built against this torch ({torch.__version__}): install torch_pjrt again, or run make native.",
            stacklevel=2,
        )
        return

    # A wrong setting is no reason to fail `import torch`: the first use of the device raises it.
    with contextlib.suppress(ValueError):
        _C.load_settings()
    n_devices = 0 if plugin.hardware == "tpu" else int(_C.get_setting("num_devices"))
    _C.configure(plugin.path, plugin.reason, n_devices)

    torch.utils.rename_privateuse1_backend(BACKEND)
    from torch_pjrt import tpu

    torch._register_device_module(BACKEND, tpu)
    for name in tpu.SUBMODULES:
        sys.modules[f"torch.{BACKEND}.{name}"] = sys.modules[f"{tpu.__name__}.{name}"]
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.set_autocast_dtype(BACKEND, torch.bfloat16)
    from torch_pjrt import _exit

    _exit.register()
    _imports.after("torch._dynamo", _register_compiler)
    loaded = True


def _register_compiler() -> None:
    from torch_pjrt.compile import _interface

    _interface.register()


def _check_version() -> None:
    """Raise ImportError when the glue was built for another minor version of torch. It says so in its file: to load it
    would be too late."""
    mark = b"torch_pjrt glue for torch "
    path = Path(__file__).with_name("libtpj_glue.so")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(mark)
        built_for = content[start : start + 64].removeprefix(mark).split(b";")[0].decode() if start >= 0 else "?"
    if built_for != ".".join(torch.__version__.split(".")[:2]):
        raise ImportError(f"libtpj_glue.so is built for torch {built_for}")
