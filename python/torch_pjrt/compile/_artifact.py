"""What a compiler hands to AOTAutograd: a graph that runs, and that another process can take from PyTorch's cache.

AOTAutograd keeps what it made of a captured graph (torch._functorch.config.enable_autograd_cache) when its compilers
give something that can be written down. That is the graph: packing it again takes milliseconds, and the programs are in
the folder of kept programs.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import uuid
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._inductor.output_code import OutputCode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from torch_pjrt.compile import _graph, _sizes, padding
from torch_pjrt.compile._options import Options

_numbers = itertools.count()


class _Capture:
    """What the forward and backward graph of one capture share: a number, and `saved` of padding.Bucketed."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.saved: dict[str, Any] = {}


_captures: weakref.WeakValueDictionary[str, _Capture] = weakref.WeakValueDictionary()


@dataclasses.dataclass
class Artifact(OutputCode):
    """A forward, backward or inference graph. `kind` is "forward", "backward" or ""; `capture` names what belongs
    together; `n_returned` as in padding.Bucketed."""

    module: Any  # fx.GraphModule; bytes when written down
    options: Options
    capture: str
    kind: str
    n_returned: int | None
    run: Any = None

    def __post_init__(self) -> None:
        # It takes its inputs in a list, which it empties. An attribute of the object: what wraps it looks there.
        self._boxed_call = True

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self.run(inputs)

    def make(self) -> None:
        self._shared = _captures.setdefault(self.capture, _Capture())  # kept by those that share it
        name = f"{self.options.name}{self._shared.number}" + (f".{self.kind}" if self.kind else "")
        self.options.dump(name, ".py", self.module.print_readable(print_output=False))
        if _sizes.is_symbolic(self.module):
            self.run = padding.Bucketed(self.module, name, self.options, self._shared.saved, self.n_returned)
        else:
            self.run = _graph.lower(self.module, name, self.options)

    def prepare_for_serialization(self) -> None:
        from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx._graph_pickler import Options as Pickling

        if any(node.target is torch.ops.higher_order.with_effects for node in self.module.graph.nodes):
            raise BypassAOTAutogradCache("ordered effects: what is kept knows nothing of their tokens")
        self.run = None
        self.__dict__.pop("_shared", None)
        every = Pickling(ops_filter=None, node_metadata_key_filter=lambda key: key in ("val", "stack_trace"))
        try:
            with _disable_current_modes():  # constants of the graph are real tensors, and tracing may still be on
                self.module = GraphPickler.dumps(self.module, every)
        except Exception as error:  # some graph holds what has no bytes: it is traced again by the next process
            raise BypassAOTAutogradCache(f"{type(error).__name__}: {error}") from error

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Back from the cache."""
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        if isinstance(self.module, bytes):
            mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
            with _disable_current_modes():
                self.module = GraphPickler.loads(self.module, mode)
            for part in self.module.modules():
                if isinstance(part, fx.GraphModule):
                    part.recompile()  # those of control flow come without their code
        self.make()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


def compilers(options: Options) -> dict[str, Any]:
    """Compilers for torch._dynamo.backends.common.aot_autograd, for one captured graph."""
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler

    capture = uuid.uuid4().hex

    def compiler(kind: str) -> SerializableAOTDispatchCompiler:
        def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Artifact:
            n_returned = _n_returned() if kind == "forward" else None
            made = Artifact(module, options, capture, kind, n_returned)
            made.make()
            return made

        return SerializableAOTDispatchCompiler(Artifact, compile_graph)

    return {
        "fw_compiler": compiler("forward"),
        "bw_compiler": compiler("backward"),
        "inference_compiler": compiler(""),
    }


def _n_returned() -> int:
    """How many results of a forward graph are the user's; those behind are for the backward graph."""
    context = torch._guards.TracingContext.try_get()
    assert context is not None and context.fw_metadata is not None
    return int(context.fw_metadata.num_forward_returns)


@contextlib.contextmanager
def caching(options: Options, inputs: Sequence[Any]) -> Iterator[None]:
    """The settings under which AOTAutograd keeps artifacts like these, under a key that knows our options and files,
    and which inputs share memory: PyTorch's own key does not."""
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    marked = {
        **inductor.unsafe_marked_cacheable_functions,
        "torch_pjrt": f"{_files()} {options.key()} {_aliases(inputs)}",
    }
    with (
        functorch.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
        inductor.patch(unsafe_marked_cacheable_functions=marked),
    ):
        yield


def _aliases(inputs: Sequence[Any]) -> list[tuple[int, int, str]]:
    """Inputs that lie in the storage of an earlier one, with that one and where they begin in it."""
    first: dict[int, int] = {}
    found = []
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            base = first.setdefault(value.untyped_storage()._cdata, i)
            if base != i:
                found += [(base, at, str(inputs[at].storage_offset())) for at in (base, i)]
    return found


@functools.cache
def _files() -> str:
    """What the meaning of a graph depends on beside PyTorch: this package, as it is installed."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.so"), *folder.rglob("*.py")]):
        facts = path.stat()
        digest.update(f"{path.relative_to(folder)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()
