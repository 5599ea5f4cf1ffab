"""The function that Dynamo calls with a captured graph."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from torch_pjrt import _loader, _trace
from torch_pjrt.compile import _options


def backend(module: fx.GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: Any = None) -> Any:
    """Compile a graph that Dynamo captured."""
    if not _is_for_device(module, inputs):
        return torch._TorchCompileInductorWrapper(mode, options, None)(module, inputs)
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from torch_pjrt.compile import _artifact

    asked = _options.read(mode, options)
    with _artifact.caching(asked, inputs):
        return aot_autograd(
            **_artifact.compilers(asked),
            decompositions=_trace.decompositions(),
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(module, inputs)


def _is_for_device(module: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether anything in the graph is on the device; a graph for the CPU alone is Inductor's."""

    def named(value: Any) -> bool:
        device = value if isinstance(value, (str, torch.device)) else getattr(value, "device", None)
        return isinstance(device, (str, torch.device)) and str(device).partition(":")[0] == _loader.BACKEND

    if any(named(value) for value in (*inputs, *module.parameters(), *module.buffers())):
        return True
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            values: list[Any] = [node.meta.get("example_value"), node.meta.get("val"), *node.args]
            if any(named(value) for value in (*values, *node.kwargs.values())):
                return True
    return False
