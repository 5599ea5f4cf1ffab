"""`compile_step`: forward, backward and optimizer in one program.

The step is called once as it is, so that the optimizer makes its state, and captured at the second call: its Python
runs on fake tensors, autograd included, and every op is recorded. Parameters, buffers and optimizer state become inputs
that the program writes in place.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx, nn
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    make_fx,
    track_tensor_tree,
)
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from torch_pjrt import _trace
from torch_pjrt.compile import _graph, _options
from torch_pjrt.compile._options import Options

Fetch = Callable[[], Any]


def compile_step(
    function: Callable[..., Any] | None = None,
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A training step as one program: `step = compile_step(step)`, or as a decorator.

    `function` computes a loss, calls backward and an optimizer, and returns tensors or nothing. The models and
    optimizers that it uses are found in its closure, its globals, its `self` and its defaults. What its Python does
    besides tensor ops happens at the capture alone, as with a compiled function of JAX: a branch is taken once for each
    set of argument shapes and other arguments. Learning rates are read at each call. `mode` and `options`: as
    torch.compile takes them.

    Optimizers that keep a counter on the CPU are made capturable, and their counters move to the device. Reading a
    tensor's value within the step raises.
    """
    if function is None:
        return functools.partial(compile_step, mode=mode, options=options)
    return Step(function, _options.read(mode, options))


# Each is called with the step at the end of each call.
observers: list[Callable[[Any], None]] = []


class Step:
    """A compiled step."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._things: _Things | None = None  # found at the first call: globals may be bound late
        self._forms: dict[Any, _Form] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._call(*args, **kwargs)
        for observe in observers:
            observe(self)
        return result

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if self._things is None:
            self._things = _Things(self._function)
            self._things.make_capturable()
            result = self._function(*args, **kwargs)
            self._things.make_capturable()  # the state that this call made
            return result
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (spec, *map(_describe, leaves), self._things.key())
        form = self._forms.get(key)
        if form is None:
            name = f"{self._options.name}{len(self._forms)}.step"
            capture = _Capture(self._function, self._things, leaves, spec, name)
            form = self._forms[key] = _Form(capture, self._things, self._options)
        return form(leaves)


class _Things:
    """The models and optimizers behind a function, and where their tensors are to be found at each call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        found = list(_reachable(function))
        self.optimizers = [thing for thing in found if isinstance(thing, Optimizer)]
        self.modules = [thing for thing in found if isinstance(thing, nn.Module)]
        parameters = [p for module in self.modules for p in module.parameters()]
        parameters += [p for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]]
        self.parameters = list(dict.fromkeys(parameters))

    def make_capturable(self) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                if "capturable" not in group or group.get("fused"):
                    continue
                group["capturable"] = True
                for p in group["params"]:
                    step = optimizer.state.get(p, {}).get("step")
                    if isinstance(step, torch.Tensor) and step.device != p.device:
                        optimizer.state[p]["step"] = step.to(p.device)

    def groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.optimizers:
            yield from optimizer.param_groups

    def key(self) -> Any:
        """What a capture depends on besides the arguments."""
        settings = tuple(
            tuple(repr(v) for k, v in group.items() if k != "params" and not (k == "lr" and isinstance(v, float)))
            for group in self.groups()
        )
        modes = tuple(m.training for module in self.modules for m in module.modules())
        return settings, modes, tuple(p.grad is None for p in self.parameters)

    def fetchers(self) -> dict[int, Fetch]:
        """By the identity of a tensor: how a later call finds what has taken its place."""
        found: dict[int, Fetch] = {}
        for module in self.modules:
            for part in module.modules():
                for owner in (part._parameters, part._buffers):
                    for name, value in owner.items():
                        if value is not None:
                            found.setdefault(id(value), functools.partial(owner.__getitem__, name))
        for optimizer in self.optimizers:
            for p, state in optimizer.state.items():
                for name, value in state.items():
                    found[id(value)] = functools.partial(_state_of, optimizer, p, name)
        for p in self.parameters:
            if p.grad is not None:
                found[id(p.grad)] = functools.partial(getattr, p, "grad")
        return found


class _Form:
    """The program of a step for one kind of arguments."""

    def __init__(self, step: "_Capture", things: _Things, options: Options) -> None:
        self._things = things
        self._rates = [i for i, group in enumerate(things.groups()) if any(group is rate for rate in step.rates)]
        self._tensors_at = step.tensors_at
        self._out_spec = step.out_spec
        self._gradients = step.gradients
        fetchers = things.fetchers()
        self._fetch: list[Fetch] = [fetchers.get(id(c), functools.partial(_same, c)) for c in step.constants]
        written = _written(step.module)
        n_before = len(self._rates) + len(self._tensors_at)
        self._written = [i - n_before for i in written if i >= n_before]
        _refuse_shared_memory(step.constants, self._written)
        options.dump(step.name, ".py", step.module.print_readable(print_output=False))
        self._run = _graph.lower(step.module, step.name, options)

    def __call__(self, leaves: list[Any]) -> Any:
        held = [fetch() for fetch in self._fetch]
        groups = list(self._things.groups())
        rates = [groups[i]["lr"] for i in self._rates]
        results = self._run([*rates, *[leaves[i] for i in self._tensors_at], *held])
        torch.autograd.graph.increment_version([held[i] for i in self._written])
        n = self._out_spec.num_leaves
        for p, index in self._gradients:
            p.grad = None if index is None else results[n + index]
        return pytree.tree_unflatten(results[:n], self._out_spec)


class _Capture:
    """What a step does, as a functional graph: its inputs are the learning rates, the tensors among the arguments, and
    the tensors that it found elsewhere (`constants`)."""

    def __init__(self, function: Callable[..., Any], things: _Things, leaves: list[Any], spec: Any, name: str) -> None:
        self.name = name
        self.tensors_at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.rates = [group for group in things.groups() if isinstance(group.get("lr"), float)]
        self.gradients: list[tuple[torch.Tensor, int | None]] = []  # what becomes of .grad: an extra result, or None
        self.out_spec: Any = None
        self._function, self._things, self._leaves, self._spec = function, things, leaves, spec
        self._shapes = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._shapes, allow_non_fake_inputs=True, static_shapes=True)
        with self._mode:
            inputs = [self._symbol(i, group) for i, group in enumerate(self.rates)]
            inputs += [self._mode.from_tensor(leaves[i], static_shapes=True) for i in self.tensors_at]
            recorded = make_fx(self._trace, record_stack_traces=True)(*inputs)
            self.constants = _lift(recorded)
            inputs += [_like(constant) for constant in self.constants]
            self.module = self._functional(recorded, inputs)

    def _symbol(self, number: int, group: dict[str, Any]) -> Any:
        """A learning rate that is no constant of the graph."""
        source = ConstantSource(f"rate{number}")
        symbol = self._shapes.create_unspecified_symbol(group["lr"], source, DimDynamic.DYNAMIC)
        return self._shapes.create_symfloatnode(symbol, hint=group["lr"], source=source)

    def _trace(self, *inputs: Any) -> list[Any]:
        """Runs the step on what stands for its tensors, and leaves parameters and optimizers as they were."""
        leaves = list(self._leaves)
        for i, given in zip(self.tensors_at, inputs[len(self.rates) :], strict=True):
            leaves[i] = given
        groups = list(self._things.groups())
        saved_settings = [dict(group) for group in groups]
        saved = [(p, p.grad) for p in self._things.parameters]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        try:
            for group, rate in zip(self.rates, inputs, strict=False):
                group["lr"] = rate
            for group in groups:  # the ops of fused optimizers take no symbols; what they compute is the same
                if group.get("fused"):
                    group.update(fused=False, **({"capturable": True} if "capturable" in group else {}))
            with _StandIns(self._mode):
                results, self.out_spec = pytree.tree_flatten(self._function(*args, **kwargs))
            made: list[torch.Tensor] = []
            for p, before in saved:
                if p.grad is not before:
                    self.gradients.append((p, None if p.grad is None else len(made)))
                    made += [p.grad] if p.grad is not None else []
            return [*(r.detach() if isinstance(r, torch.Tensor) else r for r in results), *made]
        finally:
            for group, saved_group in zip(groups, saved_settings, strict=True):
                group.update(saved_group)
            for p, grad in saved:
                p.grad = grad

    def _functional(self, recorded: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
        """The graph without writes, but for copies into inputs at its end, and of ops that have rows."""

        def run(*given: Any) -> Any:
            return fx.Interpreter(recorded).run(*given, enable_io_processing=False)

        with torch.no_grad(), fx.traceback.preserve_node_meta():
            module = make_fx(functionalize(run, remove="mutations"), decomposition_table=_trace.decompositions())(
                *inputs
            )
        module.graph.eliminate_dead_code()
        if self._shapes.replacements:
            raise NotImplementedError(f"{self.name}: an optimizer computes with its learning rate what no program can")
        return module


class _StandIns(TorchDispatchMode):
    """Gives every op a fake tensor in the place of a real one, always the same, which the graph knows as a constant of
    its own: without that, ops on real tensors alone would run. Refuses to read a tensor's value, which would be one
    too."""

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__()
        self._mode = mode
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # real, fake

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError(
                "a compiled step reads the value of a tensor (item(), float(), a condition), which is known only when "
                "the step has run. Return the tensor and read it outside; give an optimizer capturable=True if it can"
            )
        given_args, given_kwargs = pytree.tree_map_only(torch.Tensor, self._stand_in, (args, kwargs or {}))
        result = func(*given_args, **given_kwargs)
        written = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if len(written) == 1 and isinstance(result, torch.Tensor) and func._schema.returns[0].alias_info is not None:
            names = [a.name for a in func._schema.arguments]
            return {**dict(zip(names, args, strict=False)), **(kwargs or {})}[written[0]]
        return result

    def _stand_in(self, value: torch.Tensor) -> torch.Tensor:
        if isinstance(value, FakeTensor):
            return value
        if id(value) not in self._made:
            tracer: Any = get_proxy_mode().tracer  # type: ignore[union-attr]
            name = f"_constant{len(self._made)}"
            with disable_proxy_modes_tracing():
                fake = _like(value)
            setattr(tracer.root, name, value)
            track_tensor_tree(fake, tracer.create_proxy("get_attr", name, (), {}), constant=None, tracer=tracer)
            self._made[id(value)] = value, fake
        return self._made[id(value)][1]


def _lift(recorded: fx.GraphModule) -> list[torch.Tensor]:
    """Makes inputs of the tensors that a graph found by itself, and returns these. Marks for profilers go."""
    graph = recorded.graph
    last = [node for node in graph.nodes if node.op == "placeholder"][-1:]
    inputs: dict[str, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "get_attr":
            continue
        if node.target not in inputs:
            anchor = last[0] if last else None
            with graph.inserting_after(anchor) if anchor else graph.inserting_before(next(iter(graph.nodes))):
                inputs[node.target] = graph.placeholder(node.target)
            last = [inputs[node.target]]
        node.replace_all_uses_with(inputs[node.target])
        graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if getattr(node.target, "namespace", "") == "profiler" and not node.users:
            graph.erase_node(node)
    constants = [getattr(recorded, name) for name in inputs]
    recorded.recompile()
    return constants


def _written(module: fx.GraphModule) -> list[int]:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    copies = [node for node in module.graph.nodes if node.target is torch.ops.aten.copy_.default]
    return [placeholders.index(node.args[0]) for node in copies if node.args[0] in placeholders]


def _refuse_shared_memory(constants: list[torch.Tensor], written: list[int]) -> None:
    storages = [constant.untyped_storage()._cdata for constant in constants]
    for i in written:
        if storages.count(storages[i]) > 1:
            raise NotImplementedError("a compiled step writes a tensor that is a view of one that it uses as well")


def _reachable(function: Callable[..., Any]) -> Iterator[Any]:
    """What a function can see without an argument, and what lies in the containers and objects among that."""
    seen: set[int] = set()
    function = inspect.unwrap(function)
    variables = inspect.getclosurevars(function) if inspect.isfunction(function) or inspect.ismethod(function) else None
    todo: list[Any] = [getattr(function, "__self__", None), *(getattr(function, "__defaults__", None) or ())]
    todo += [*variables.nonlocals.values(), *variables.globals.values()] if variables else [function]
    depth = {id(thing): 0 for thing in todo}
    for thing in todo:  # grows
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, (nn.Module, Optimizer)):
            yield thing
            continue
        within: list[Any] = []
        if isinstance(thing, Mapping):
            within = list(thing.values())
        elif isinstance(thing, (list, tuple, set)):
            within = list(thing)
        elif inspect.isfunction(thing) or inspect.ismethod(thing):
            within = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
        elif not isinstance(thing, (type, torch.Tensor)) and not inspect.ismodule(thing):
            within = list(getattr(thing, "__dict__", {}).values())
        for element in within:
            depth.setdefault(id(element), depth[id(thing)] + 1)
            if depth[id(element)] <= 3:
                todo.append(element)


def _describe(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.dtype, leaf.device, leaf.requires_grad
    return type(leaf), leaf


def _like(constant: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(constant.shape, constant.stride(), dtype=constant.dtype, device=constant.device)


def _state_of(optimizer: Optimizer, parameter: torch.Tensor, name: str) -> Any:
    return optimizer.state[parameter][name]


def _same(value: torch.Tensor) -> torch.Tensor:
    return value
