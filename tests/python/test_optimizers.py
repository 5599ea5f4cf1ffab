"""Optimizers, fused and over lists, against the CPU; gradient scaling; that schedules do not compile again."""

import pytest
import torch

DEVICE = "tpu"


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))


def trained(device, make, steps=5, dtype=torch.float32):
    model = make_model().to(device, dtype)
    optimizer = make(model.parameters())
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 8, generator=generator).to(device, dtype)).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


OPTIMIZERS = {
    "Adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "Adam with amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "Adam with a tensor as rate": (torch.optim.Adam, {"lr": torch.tensor(1e-2), "capturable": False}),
    "AdamW": (torch.optim.AdamW, {}),
    "AdamW that maximizes": (torch.optim.AdamW, {"maximize": True}),
    "SGD": (torch.optim.SGD, {}),
    "SGD with momentum": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "SGD with dampening": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1}),
    "Adagrad": (torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}),
}


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "foreach"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, fused):
    optimizer, options = OPTIMIZERS[name]
    if not fused and isinstance(options.get("lr"), torch.Tensor):
        pytest.skip("PyTorch wants capturable=True for a tensor as rate with foreach")
    how = {"fused": True} if fused else {"foreach": True}
    make = lambda parameters: optimizer(parameters, **{"lr": 1e-2, **options, **how})  # noqa: E731
    torch.testing.assert_close(trained(DEVICE, make), trained("cpu", make), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adadelta"])
def test_others(name):
    make = lambda parameters: getattr(torch.optim, name)(parameters)  # noqa: E731
    torch.testing.assert_close(trained(DEVICE, make), trained("cpu", make), rtol=1e-5, atol=1e-6)


def test_halves_are_stepped_in_single_precision():
    make = lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, fused=True)  # noqa: E731
    ours, cpu = (trained(device, make, dtype=torch.bfloat16) for device in (DEVICE, "cpu"))
    torch.testing.assert_close(ours, cpu, rtol=2e-2, atol=2e-2)


def test_the_first_step_is_exact():
    """1 - beta2 is 0.001 at the first step: a rounded beta would show in the fifth digit."""
    x = torch.ones(4, device=DEVICE, requires_grad=True)
    x.grad = torch.full_like(x, 0.5)
    torch.optim.Adam([x], lr=0.25, eps=0, fused=True).step()
    torch.testing.assert_close(x.detach().cpu(), torch.full((4,), 0.75), rtol=0, atol=5e-7)


def test_a_schedule_compiles_once():
    model = make_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    x = torch.randn(16, 8, device=DEVICE)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        schedule.step()

    step()
    step()
    before = torch.tpu.compile_stats()["programs"]
    for _ in range(4):
        step()
    assert torch.tpu.compile_stats()["programs"] == before


def test_gradient_scaler_skips_steps_that_overflow():
    model = make_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**16, growth_interval=2)
    scales = []
    for i in range(6):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8, device=DEVICE)).square().mean() * (float("inf") if i == 3 else 1)
        scaler.scale(loss).backward()
        before = model[0].weight.detach().clone()
        scaler.step(optimizer)
        assert torch.equal(before, model[0].weight) == (i == 3)
        scaler.update()
        scales.append(scaler.get_scale() / 2**16)
    assert scales == [1, 2, 2, 1, 1, 2]
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_lists_of_tensors():
    torch.manual_seed(0)
    tensors = [torch.randn(3, 2), torch.randn(5), torch.randn(())]
    ours = [t.to(DEVICE) for t in tensors]

    def agree(function):
        want, got = function(tensors), function(ours)
        torch.testing.assert_close([t.cpu() for t in got], list(want))

    agree(lambda x: torch._foreach_add(x, x, alpha=2.5))
    agree(lambda x: torch._foreach_mul(x, [1.0, 2.0, 3.0]))
    agree(lambda x: torch._foreach_pow(x, [2, 3, 1]))
    agree(lambda x: torch._foreach_norm(x, 1))
    agree(lambda x: torch._foreach_addcdiv(x, x, torch._foreach_abs(x), 0.5))
    agree(lambda x: torch._foreach_lerp(x, torch._foreach_neg(x), 0.25))
    agree(lambda x: torch._foreach_minimum(x, 0.1))
    torch._foreach_mul_(ours, 2)
    torch._foreach_zero_(ours[1:])
    torch.testing.assert_close(ours[0].cpu(), tensors[0] * 2)
    assert ours[1].abs().sum() == 0
