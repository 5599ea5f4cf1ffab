"""torch_pjrt: PyTorch on TPUs, as the device "tpu".

`import torch` brings the device by itself, through the entry point group `torch.backends`; nothing of this package has
to be imported. What users call is `torch.tpu`.
"""

import importlib.metadata

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        return importlib.metadata.version("torch_pjrt")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _autoload() -> None:
    """Register the device. PyTorch calls this at the end of `import torch`: quick, silent, starting nothing."""
    from torch_pjrt import _loader

    _loader.load()
