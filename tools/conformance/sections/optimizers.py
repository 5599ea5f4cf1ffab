"""optimizers: every optimizer of torch.optim in each of its configurations, by each implementation (for-loop, foreach,
fused, differentiable): steps, state, a state dict's round trip, and that later steps compile nothing."""

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_optimizers import optim_db
from torch_pjrt import tpu

from conformance.compare import DEVICE, agree, map_tensors
from conformance.harness import Case, Mismatch

STEPS = 4
COMPILED_AFTER = 2  # steps
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-6}


def some_rows(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """As an embedding's gradient: sparse, three different rows of it, one of them twice. How many there are is the same
    in each step, as nothing new may be compiled."""
    rows = torch.randperm(len(t), generator=generator)[:3]
    rows = torch.cat([rows, rows[:1]])
    return torch.sparse_coo_tensor(rows[None], t[rows], t.shape, check_invariants=True)


class Training:
    """A small problem, the same on each device: two linear layers, and a matrix for those that want only matrices."""

    def __init__(self, info: Any, device: str, options: dict[str, Any]) -> None:
        torch.manual_seed(2)
        self.device, self.info = device, info
        shapes: list[tuple[int, ...]] = [(5, 8), (4, 5)] if info.name == "Muon" else [(5, 8), (5,), (4, 5), (4,), ()]
        if info.only_supports_sparse_grads:
            shapes.remove(())
        # Autograd sees the steps of differentiable ones, and does not let leaves be written.
        differentiable = bool(options.get("differentiable"))
        # Double where differences of gradients decide the next step: they magnify what is rounded.
        dtype = torch.float64 if info.step_requires_closure else torch.float32
        self.parameters = [torch.randn(s, dtype=dtype).to(device).requires_grad_(not differentiable) for s in shapes]
        if info.step_requires_closure:
            options = {"max_iter": 3, **options}
        self.optimizer = info.optim_cls(self.parameters, **options)
        self.n_steps = 0

    def set_gradients(self) -> None:
        generator = torch.Generator().manual_seed(self.n_steps)
        for p in self.parameters:
            gradient = torch.randn(p.shape, generator=generator)
            if self.info.only_supports_sparse_grads:
                gradient = some_rows(gradient, generator)
            p.grad = gradient.to(self.device)

    def loss(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        product = self.parameters[2].mm(self.parameters[0]) if len(self.parameters) > 2 else self.parameters[0]
        loss = (product - 3).cosh().log().sum() + sum((p + 1).square().square().sum() for p in self.parameters)
        loss.backward()
        return loss

    def step(self) -> None:
        if self.info.step_requires_closure:
            self.optimizer.step(self.loss)
        else:
            self.set_gradients()
            self.optimizer.step()
        self.n_steps += 1

    def state(self) -> list[Any]:
        """Parameters, then the optimizer's state in the order of parameters and names."""
        values: list[Any] = [p.detach() for p in self.parameters]
        state = self.optimizer.state_dict()["state"]
        for k in sorted(state):
            values += [state[k][name] for name in sorted(state[k])]
        return values


def as_tensors(values: Any) -> Any:
    """Numbers are compared within the tolerance too."""
    return pytree.tree_map_only(float, lambda x: torch.tensor(x, dtype=torch.float64), values)


def agree_states(want: list[Any], got: list[Any], where: str) -> None:
    """Devices are not compared: `step` is on the CPU in some implementations and on the device in others."""

    try:
        agree(as_tensors(want), map_tensors(lambda t: t.to(DEVICE), as_tensors(got)), TOLERANCE)
    except Mismatch as e:
        raise Mismatch(e.state, f"{where}: {e.detail}") from None


def options_for(device: str, options: dict[str, Any]) -> dict[str, Any]:
    """The CPU knows no capturable; its arithmetic is the same."""
    copied = copy.deepcopy(options)
    if device == "cpu" and copied.get("capturable"):
        copied["capturable"] = False
        if copied.get("foreach"):
            copied["foreach"] = False  # wants capturable for a tensor as learning rate
    return copied


def n_compiled() -> int:
    return int(tpu.compile_stats()["programs"])


def run(info: Any, options: dict[str, Any]) -> str:
    want = Training(info, "cpu", options_for("cpu", options))
    got = Training(info, DEVICE, options_for(DEVICE, options))
    compiled = 0
    for i in range(STEPS):
        want.step()
        before = n_compiled()
        got.step()
        if i >= COMPILED_AFTER:
            compiled += n_compiled() - before
    agree_states(want.state(), got.state(), f"after {STEPS} steps")
    again = Training(info, DEVICE, options_for(DEVICE, options))
    again.optimizer.load_state_dict(copy.deepcopy(got.optimizer.state_dict()))
    with torch.no_grad():
        for a, b in zip(again.parameters, got.parameters, strict=True):
            a.copy_(b)
    again.n_steps = got.n_steps
    want.step()
    again.step()
    agree_states(want.state(), again.state(), "after a state dict was loaded")
    if compiled and not info.step_requires_closure:
        raise Mismatch("RECOMPILED", f"{compiled} programs after step {COMPILED_AFTER}")
    return f"{STEPS} steps"


def cases() -> Iterator[Case]:
    for info in optim_db:
        for config in info.optim_inputs_func("cuda"):  # with those for accelerators
            implementations: dict[str, dict[str, Any]] = {"": {}}
            if "foreach" in info.supported_impls:
                implementations = {"forloop": {"foreach": False}, "foreach": {"foreach": True}}
            if "fused" in info.supported_impls:
                implementations["fused"] = {"fused": True}
            if "differentiable" in info.supported_impls:
                implementations["differentiable"] = {"differentiable": True}
            for how, flags in implementations.items():
                options = {**config.kwargs, **flags}
                name = ".".join(part for part in (info.name, how, config.desc.replace(" ", "_")) if part)
                yield Case(name, "float32", partial(run, info, options), group=info.name)
