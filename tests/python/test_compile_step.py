"""torch_pjrt.compile_step: a training step as one program follows the CPU's losses, and leaves what a step leaves."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_pjrt
from torch import nn


class Network(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.BatchNorm1d(8)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 11, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(self.embed(x).mean(1)))


class Trainer:
    """The same training on either device, compiled or not."""

    def __init__(self, device: str, kind: Any, compiled: bool = False, dropout: float = 0.0, **settings: Any) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = Network(dropout).to(device)
        self.optimizer = kind(self.model.parameters(), **settings)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
        self.run: Callable[..., torch.Tensor] = torch_pjrt.compile_step(self.step) if compiled else self.step

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def train(self, n: int, seed: int = 1, rows: int = 6) -> list[float]:
        generator = torch.Generator().manual_seed(seed)
        losses = []
        for _ in range(n):
            x, y = torch.randint(11, (rows, 5), generator=generator), torch.randint(11, (rows,), generator=generator)
            losses.append(self.run(x.to(self.device), y.to(self.device)))
            self.schedule.step()
        return [loss.item() for loss in losses]

    def state(self) -> Any:
        gradients = {name: p.grad for name, p in self.model.named_parameters()}
        state = (dict(self.model.state_dict()), gradients)
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), state)


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"lr": 0.01}),
    (torch.optim.AdamW, {"lr": 0.01, "fused": True}),
    (torch.optim.Adam, {"lr": 0.01, "foreach": False, "amsgrad": True}),
    (torch.optim.RMSprop, {"lr": 0.01, "centered": True}),
    (torch.optim.NAdam, {"lr": 0.01}),
]


@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS, ids=str)
def test_losses_and_state_are_the_cpus_in_one_launch_a_step(kind: Any, settings: dict[str, Any]) -> None:
    torch.tpu.reset_fallbacks()
    on_cpu, on_tpu = Trainer("cpu", kind, **settings), Trainer("tpu", kind, compiled=True, **settings)
    torch.testing.assert_close(on_tpu.train(3), on_cpu.train(3), rtol=1e-4, atol=1e-5)
    torch.tpu.synchronize()
    torch.tpu.reset_compile_stats()
    on_tpu_losses = on_tpu.train(3, seed=2)
    stats = torch.tpu.compile_stats()
    assert (stats["programs"], stats["launches"]) == (0, 3), "a changing rate compiles nothing"
    torch.testing.assert_close(on_tpu_losses, on_cpu.train(3, seed=2), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(on_tpu.state(), on_cpu.state(), rtol=1e-3, atol=1e-4)
    assert torch.tpu.fallbacks() == {}


def test_random_numbers_are_those_of_eager_mode() -> None:
    eager, compiled = (Trainer("tpu", torch.optim.SGD, c, dropout=0.5, lr=0.1) for c in (False, True))
    torch.manual_seed(5)
    want = eager.train(4)
    torch.manual_seed(5)
    torch.testing.assert_close(compiled.train(4), want, rtol=1e-4, atol=1e-5)


def test_parameters_are_written_in_place() -> None:
    trainer = Trainer("tpu", torch.optim.AdamW, compiled=True, lr=0.01)
    trainer.train(2)
    weight = trainer.model.layers[0].weight  # type: ignore[union-attr]
    pointer, version, alias = weight.data_ptr(), weight._version, weight.detach()
    trainer.train(1)
    assert trainer.model.layers[0].weight is weight  # type: ignore[union-attr]
    assert weight.data_ptr() == pointer
    assert weight._version > version
    assert torch.equal(alias, weight)


def test_the_capture_changes_nothing() -> None:
    trainer = Trainer("tpu", torch.optim.SGD, compiled=True, lr=0.1, momentum=0.9)
    trainer.train(1)
    before = copy.deepcopy((trainer.state(), trainer.optimizer.state_dict()))
    x, y = torch.zeros(6, 5, dtype=torch.long, device="tpu"), torch.zeros(6, dtype=torch.long, device="tpu")
    from torch_pjrt.compile import _step

    _step._Capture(
        trainer.step, _step._Things(trainer.step), [x, y], torch.utils._pytree.tree_flatten(((x, y), {}))[1], "t"
    )
    assert all(type(p.grad) is torch.Tensor for p in trainer.model.parameters())
    torch.testing.assert_close(trainer.state(), before[0], rtol=0, atol=0)
    torch.testing.assert_close(trainer.optimizer.state_dict(), before[1], rtol=0, atol=0)


def test_state_that_is_loaded_later_counts() -> None:
    trainer = Trainer("tpu", torch.optim.AdamW, compiled=True, lr=0.01)
    trainer.train(3)
    kept = copy.deepcopy((trainer.model.state_dict(), trainer.optimizer.state_dict(), trainer.schedule.state_dict()))
    want = trainer.train(3, seed=4)
    for thing, state in zip((trainer.model, trainer.optimizer, trainer.schedule), kept, strict=True):
        thing.load_state_dict(state)  # type: ignore[attr-defined]
    torch.testing.assert_close(trainer.train(3, seed=4), want)


def test_other_shapes_and_other_modes_are_other_captures() -> None:
    on_cpu, on_tpu = (Trainer(d, torch.optim.SGD, d == "tpu", lr=0.1) for d in ("cpu", "tpu"))
    for rows in (6, 4, 6):
        torch.testing.assert_close(on_tpu.train(2, rows=rows), on_cpu.train(2, rows=rows), rtol=1e-4, atol=1e-5)
    on_cpu.model.eval()
    on_tpu.model.eval()
    torch.testing.assert_close(on_tpu.train(2), on_cpu.train(2), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(on_tpu.state(), on_cpu.state(), rtol=1e-3, atol=1e-4)


def test_gradients_that_are_accumulated() -> None:
    def run(device: str) -> list[float]:
        torch.manual_seed(0)
        model = nn.Linear(3, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            for part in x.unbind(0):
                model(part).square().mean().backward()
            optimizer.step()
            return model.weight.sum()

        chosen = torch_pjrt.compile_step(step) if device == "tpu" else step
        x = torch.arange(12.0).reshape(2, 2, 3).to(device) / 12
        return [chosen(x).item() for _ in range(4)]  # never set to zero

    torch.testing.assert_close(run("tpu"), run("cpu"), rtol=1e-5, atol=1e-6)


def test_a_value_that_is_read_raises() -> None:
    model = nn.Linear(3, 1).to("tpu")

    @torch_pjrt.compile_step
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        return loss * 2 if loss.item() > 0 else loss

    x = torch.ones(2, 3, device="tpu")
    step(x)
    with pytest.raises(RuntimeError, match="reads the value of a tensor"):
        step(x)


def test_arguments_and_results_are_trees() -> None:
    model = nn.Linear(3, 1).to("tpu")

    @torch_pjrt.compile_step(options={"name": "tree"})
    def step(batch: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
        out = model(batch["x"][0])
        return {"out": out.detach() * scale, "n": len(batch["x"]), "none": None}

    x = torch.ones(2, 3, device="tpu")
    want = [step({"x": [x]}), step({"x": [x]}, scale=2.0)]
    got = [step({"x": [x]}), step({"x": [x]}, scale=2.0)]
    torch.testing.assert_close([g["out"] for g in got], [w["out"] if i else want[0]["out"] for i, w in enumerate(want)])
    assert got[0]["n"] == 1 and got[0]["none"] is None
    assert step.__name__ == "step"
