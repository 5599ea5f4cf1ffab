"""`torch.compile(backend="tpu")`: whole graphs to XLA. docs/compile.md says how to use it.

Dynamo captures, AOTAutograd makes the graph functional and splits forward from backward, and what is left is packed
for the core, which knows the same ops in a graph as one by one (torch_pjrt._pack).
"""

from typing import Any

from torch_pjrt.compile import _fakes
from torch_pjrt.compile._backend import backend

__all__ = ["backend", "compile_step"]

_fakes.register()


def __getattr__(name: str) -> Any:
    if name == "compile_step":  # needs Dynamo, which takes a second to import
        from torch_pjrt.compile._step import compile_step

        return compile_step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
