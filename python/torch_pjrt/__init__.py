"""torch_pjrt: PyTorch on TPUs, as the device "tpu".

`import torch` brings the device by itself, through the entry point group `torch.backends`; nothing of this package has
to be imported. What users call is `torch.tpu`, and `torch_pjrt.compile_step` for a training step as one program.
"""

import importlib
import importlib.metadata
from typing import Any

__all__ = ["__version__", "compile_step", "explain", "export"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("torch_pjrt")
    if name == "compile_step":
        from torch_pjrt.compile import compile_step

        return compile_step
    if name == "explain":
        from torch_pjrt.compile._watch import explain

        return explain
    if name == "export":
        return importlib.import_module("torch_pjrt.export")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _autoload() -> None:
    """Register the device. PyTorch calls this at the end of `import torch`: quick, silent, starting nothing."""
    from torch_pjrt import _loader

    _loader.load()
