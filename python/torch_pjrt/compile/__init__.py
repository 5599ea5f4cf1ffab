"""`torch.compile(backend="tpu")`: whole graphs to XLA. docs/compile.md says how to use it.

Dynamo captures, AOTAutograd makes the graph functional and splits forward from backward, and what is left is packed
for the core, which knows the same ops in a graph as one by one (torch_pjrt._pack).
"""

from torch_pjrt.compile._backend import backend

__all__ = ["backend"]
