"""Registers the device with PyTorch."""

import contextlib
import sys
import warnings

import torch

from torch_pjrt import _discovery

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
        # The extension brings the glue: guard, allocator and kernels must be there before the device gets its name.
        from torch_pjrt import _C
    except (ImportError, OSError) as error:
        # Not built, or built for another torch. `import torch` has to work all the same.
        warnings.warn(
            f'device "{BACKEND}" is not there, because the native parts of torch_pjrt do not load: {error}. They must '
            f"be built against this torch ({torch.__version__}).",
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
    loaded = True
