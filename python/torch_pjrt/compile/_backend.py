"""The function that Dynamo calls with a captured graph."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from torch_pjrt import _loader, _trace
from torch_pjrt.compile import _graph, _options, _sizes, padding
from torch_pjrt.compile._options import Options

_numbers = itertools.count()


def backend(module: fx.GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: Any = None) -> Any:
    """Compile a graph that Dynamo captured."""
    if not _is_for_device(module, inputs):
        return torch._TorchCompileInductorWrapper(mode, options, None)(module, inputs)
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    asked = _options.read(mode, options)
    name = f"{asked.name}{next(_numbers)}"
    saved: dict[str, Any] = {}  # by which forward and backward graph agree on padded values
    return aot_autograd(
        fw_compiler=_compiler(f"{name}.forward", asked, saved, is_forward=True),
        bw_compiler=_compiler(f"{name}.backward", asked, saved),
        inference_compiler=_compiler(name, asked, {}),
        decompositions=_trace.decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(module, inputs)


def _compiler(
    name: str, options: Options, saved: dict[str, Any], is_forward: bool = False
) -> Callable[[fx.GraphModule, Sequence[Any]], _graph.Runner]:
    def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> _graph.Runner:
        options.dump(name, ".py", module.print_readable(print_output=False))
        run: Any
        if _sizes.is_symbolic(module):
            run = padding.Bucketed(module, name, options, saved, _n_returned() if is_forward else None)
        else:
            run = _graph.lower(module, name, options)
        run._boxed_call = True  # it takes its inputs in a list, which it empties
        return run

    return compile_graph


def _n_returned() -> int:
    """How many results of a forward graph are the user's; those behind are for the backward graph."""
    context = torch._guards.TracingContext.try_get()
    assert context is not None and context.fw_metadata is not None
    return int(context.fw_metadata.num_forward_returns)


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
