"""torch.compile(backend="tpu"): values, gradients and aliasing are the CPU's, in one program without graph breaks."""

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

torch._dynamo.config.error_on_recompile = False


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.tpu.reset_fallbacks()


def to(value: Any, device: str) -> Any:
    return torch.utils._pytree.tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, value)


def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="tpu", fullgraph=True, **options)


def programs() -> int:
    return torch.tpu.compile_stats()["programs"]


def check(fn: Callable[..., Any], *args: Any, n_launches: int | None = 1, **tolerance: float) -> Any:
    """The results, and what is left of the arguments, are the CPU's. The second call launches one program."""
    on_cpu = copy.deepcopy(args)
    want = fn(*on_cpu)
    run = compiled(fn)
    run(*to(copy.deepcopy(args), "tpu"))
    on_tpu = to(copy.deepcopy(args), "tpu")
    torch.tpu.synchronize()
    torch.tpu.reset_compile_stats()
    got = run(*on_tpu)
    stats = torch.tpu.compile_stats()
    torch.testing.assert_close(to(got, "cpu"), want, **tolerance)  # type: ignore[arg-type]
    torch.testing.assert_close(to(on_tpu, "cpu"), on_cpu, **tolerance)  # type: ignore[arg-type]
    assert stats["programs"] == 0
    if n_launches is not None:
        assert stats["launches"] == n_launches
    assert torch.tpu.fallbacks() == {}
    assert not torch._dynamo.utils.counters["graph_break"]
    return got


X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1,
        lambda x: torch.softmax(x, 1) @ x.t(),
        lambda x: (x.sum(0), x.mean(), x.argmax(1)),
        lambda x: torch.cat([x, x[:, :2] * 2], 1).to(torch.bfloat16),
        lambda x: {"a": x.exp(), "b": [x.sin(), (x.cos(),)]},
        lambda x: torch.where(x > 0, x, -x).sort(1).values,
        lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device),
        lambda x: x + torch.arange(4, device=x.device) * torch.tensor(2.5),
        lambda x: (x.std(), x.var(0), torch.linalg.norm(x)),
        lambda x: torch.ones(2, device=x.device) * 3,
    ],
)
def test_values(fn: Callable[..., Any]) -> None:
    check(fn, X)


@pytest.mark.parametrize("accumulate", [False, True])
def test_writes_by_a_mask(accumulate: bool) -> None:
    rows = torch.tensor([True, True, False])
    for mask, values, n in (
        (rows, torch.tensor(2.0), 1),
        (rows, torch.arange(4.0), 1),
        (rows, torch.arange(4.0)[None], 1),
        (X > 0, torch.tensor([5.0]), 1),
        (rows, torch.arange(8.0).reshape(2, 4), None),  # as many values as are true: by itself
        (X > 0, torch.arange(8.0)[: int((X > 0).sum())], None),
    ):

        def fn(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.index_put_((m,), v, accumulate=accumulate)
            return y + 1

        torch._dynamo.reset()
        check(fn, X, mask, values, n_launches=n)


def test_nothing_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys, torch\n"
        "assert torch.device('tpu') and not any(m.startswith('torch._dynamo') for m in sys.modules)\n"
        "assert torch._dynamo.lookup_backend('tpu').__module__ == 'torch_pjrt.compile._backend'\n"
        "assert torch.compiler.get_default_backend() == 'tpu'\n"
        "interface = torch._dynamo.device_interface.get_interface_for_device('tpu')\n"
        "assert interface.__name__ == 'TpuInterface' and interface.__module__.startswith('torch_pjrt')\n"
        "assert interface.is_dtype_supported(torch.float64) and interface.device_count() > 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# ---- inputs: views, strides, offsets, numbers ----


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[1:],
        lambda x: x[:, ::2],
        lambda x: x[1],
        lambda x: x[0, 1],
        lambda x: x.expand(2, 3, 4),
    ],
)
def test_inputs_that_are_views(view: Callable[..., Any]) -> None:
    want = view(X) * 2 + 1
    got = compiled(lambda x: x * 2 + 1)(view(X.to("tpu")))
    torch.testing.assert_close(got.cpu(), want)
    assert got.stride() == want.stride()


def test_strides_and_offsets_are_read_at_each_call() -> None:
    run = compiled(lambda x: x * 2)
    base = X.to("tpu")
    for row in (0, 1, 2, 0):
        torch.testing.assert_close(run(base[row]).cpu(), X[row] * 2)


def test_numbers_in_cpu_tensors() -> None:
    run = compiled(lambda x, s, n: x * s + n)
    x = X.to("tpu")
    run(x, torch.tensor(0.5), torch.tensor(2))
    before = programs()
    for s, n in ((2.0, 7), (-1.5, 0)):
        torch.testing.assert_close(run(x, torch.tensor(s), torch.tensor(n)).cpu(), X * s + n)
    assert programs() == before, "numbers are operands"


# ---- writes and aliases ----


def halve(x: torch.Tensor) -> None:
    x.mul_(0.5)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.mul_(2),
        lambda x: (x.add_(1), x.t()),
        lambda x: x[1].zero_(),
        lambda x: (x[:, 2:].copy_(x[:, :2]), x.sum())[1],
        lambda x: (x.t().fill_(3.0), None)[1],
        halve,
    ],
)
def test_written_inputs(fn: Callable[..., Any]) -> None:
    check(fn, X)


def test_a_write_donates_and_is_seen_by_aliases() -> None:
    x = X.to("tpu")
    row = x[1]
    compiled(lambda t: t.mul_(2))(x)
    torch.testing.assert_close(row.cpu(), X[1] * 2)
    compiled(lambda t: t.add_(1))(row)
    torch.testing.assert_close(x[1].cpu(), X[1] * 2 + 1)
    torch.testing.assert_close(x[0].cpu(), X[0] * 2)


def test_inputs_that_share_memory() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a + b

    base, want_base = X.to("tpu"), X.clone()
    want = fn(want_base[0], want_base[1])
    torch.testing.assert_close(compiled(fn)(base[0], base[1]).cpu(), want)
    torch.testing.assert_close(base.cpu(), want_base)
    torch._dynamo.reset()
    want = fn(want_base[0], want_base[0])
    torch.testing.assert_close(compiled(fn)(base[0], base[0]).cpu(), want)
    torch.testing.assert_close(base.cpu(), want_base)


def test_a_kept_graph_is_not_taken_where_inputs_share_other_memory() -> None:
    """PyTorch's cache of graphs does not look at what inputs share."""

    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a + b

    for places in ((0, 1), (0, 0), (1, 1), (0, 1)):
        torch._dynamo.reset()
        want_base, base = X.clone(), X.to("tpu")
        want = fn(*(want_base[i] for i in places))
        torch.testing.assert_close(compiled(fn)(*(base[i] for i in places)).cpu(), want)
        torch.testing.assert_close(base.cpu(), want_base)
    torch._dynamo.reset()
    want_base, base = X.clone(), X.to("tpu")
    want = fn(want_base[0, :2], want_base[0, 1:3])
    torch.testing.assert_close(compiled(fn)(base[0, :2], base[0, 1:3]).cpu(), want)


def test_results_that_alias_inputs() -> None:
    x = X.to("tpu")
    same, transposed, part = compiled(lambda t: (t, t.t(), t[1:, ::2]))(x)
    assert same is x
    for view in (transposed, part):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x.zero_()
    assert transposed.sum().item() == part.sum().item() == 0


def test_results_that_alias_each_other() -> None:
    a, b = compiled(lambda t: (lambda s: (s, s.view(-1)))(t + 1))(X.to("tpu"))
    a.zero_()
    assert b.abs().sum().item() == 0
    rows = compiled(lambda t: (lambda s: (s[0], s[1], s[:, ::2]))(t + 1))(X.to("tpu"))
    assert [row.stride() for row in rows] == [(1,), (1,), (4, 2)]
    rows[0].zero_()
    torch.testing.assert_close(rows[2].cpu(), torch.cat([X[:1] * 0, X[1:] + 1])[:, ::2])


def test_buffers_are_updated_in_place() -> None:
    model = nn.BatchNorm1d(4)
    want_model = copy.deepcopy(model)
    model.to("tpu")
    mean = model.running_mean
    run = compiled(model)
    for x in (X, X * 3):
        torch.testing.assert_close(run(x.to("tpu")).cpu(), want_model(x))
    assert model.running_mean is mean
    torch.testing.assert_close(to(dict(model.state_dict()), "cpu"), dict(want_model.state_dict()))


# ---- training ----


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layers = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = x.flatten(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.layers(x)


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}


def test_a_training_step() -> None:
    torch.manual_seed(0)
    model = Block()
    twin = copy.deepcopy(model).to("tpu")
    x = torch.randn(3, 2, 4, 8)
    y, z = x.clone().requires_grad_(), x.to("tpu").requires_grad_()
    model(y).square().mean().backward()
    run = compiled(lambda t: twin(t).square().mean())
    run(z).backward()
    torch.testing.assert_close(gradients(twin), gradients(model), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(z.grad.cpu(), y.grad, rtol=1e-4, atol=1e-6)
    torch.tpu.reset_compile_stats()
    run(z).backward()
    stats = torch.tpu.compile_stats()
    assert stats["programs"] == 0 or stats["launches"] < 60, "only gradients are added up op by op"
    assert torch.tpu.fallbacks() == {}


def test_parameters_are_not_copied_for_the_backward_pass() -> None:
    weight = torch.randn(256, 256, device="tpu", requires_grad=True)
    x = torch.randn(1, 256, device="tpu", requires_grad=True)
    run = compiled(lambda a: a @ weight)
    run(x)
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    y = run(x)
    assert torch.tpu.memory_allocated() - before < 256 * 256 * 4
    y.sum().backward()
    torch.testing.assert_close(x.grad, weight.detach().sum(1)[None])


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 3 * ctx.saved_tensors[0] ** 2


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    return torch.utils.checkpoint.checkpoint(lambda t: torch.sin(t) @ torch.cos(t).t(), x, use_reentrant=False)


@pytest.mark.parametrize("fn", [Cube.apply, checkpointed, lambda x: x.exp().cumsum(1).clamp(max=2)])
def test_gradients_of(fn: Callable[..., Any]) -> None:
    a, b = X.clone().requires_grad_(), X.to("tpu").requires_grad_()
    want = fn(a)
    want.sum().backward()
    got = compiled(fn)(b)
    got.sum().backward()
    torch.testing.assert_close(got.cpu(), want)
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_autocast() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    twin = copy.deepcopy(model).to("tpu")

    def step(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return torch.softmax(m(x), 1)

    want, got = step(model, X), compiled(step)(twin, X.to("tpu"))
    assert got.dtype == step(twin, X.to("tpu")).dtype
    torch.testing.assert_close(got.float().cpu(), want.float(), rtol=2e-2, atol=1e-2)
    got.float().sum().backward()
    assert twin.weight.grad is not None and twin.weight.grad.dtype == torch.float32


# ---- random numbers ----


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: nn.functional.dropout(x, 0.5),
        lambda x: torch.rand_like(x) + torch.randn(3, 4, device=x.device),
        lambda x: torch.bernoulli(torch.full_like(x, 0.3)).add(torch.randint(0, 9, (4,), device=x.device)),
        lambda x: x.normal_() * 2,
    ],
)
def test_random_numbers_are_those_of_eager_mode(fn: Callable[..., Any]) -> None:
    torch.manual_seed(7)
    want = [fn(X.to("tpu")).cpu() for _ in range(2)]
    run = compiled(fn)
    run(X.to("tpu"))
    torch.manual_seed(7)
    got = [run(X.to("tpu")).cpu() for _ in range(2)]
    torch.testing.assert_close(got, want)
    assert not torch.equal(got[0], got[1])


def test_dropout_in_a_checkpoint_is_repeated_in_the_backward_pass() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(
            lambda t: nn.functional.dropout(t.sin(), 0.5).exp(), x, use_reentrant=False, preserve_rng_state=True
        )

    x = torch.full((64,), 0.3, device="tpu", requires_grad=True)
    run = compiled(fn)
    for _ in range(2):
        x.grad = None
        y = run(x)
        y.sum().backward()
        scale = torch.tensor(0.3).cos() * 2
        kept = (y.detach() != 1).float().cpu()
        assert 10 < kept.sum() < 54
        torch.testing.assert_close(x.grad.cpu(), kept * scale * y.detach().cpu())


# ---- graphs that are not, or not only, for the device ----


def test_graphs_for_the_cpu_are_inductors(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        torch, "_TorchCompileInductorWrapper", lambda *a: lambda module, inputs: seen.append(a) or module.forward
    )
    torch.testing.assert_close(compiled(lambda x: x + 1)(X), X + 1)
    assert len(seen) == 1


def test_values_on_the_host_within_a_graph() -> None:
    def fn(x: torch.Tensor, steps: torch.Tensor, many: torch.Tensor) -> Any:
        steps += 1
        return x * steps.sqrt() + many.to(x.device), steps * 2, (x * 2).cpu() + many

    want_steps, steps = torch.tensor(3.0), torch.tensor(3.0)
    want = fn(X, want_steps, X)
    run = compiled(fn)
    got = run(X.to("tpu"), steps, X)
    torch.testing.assert_close(to(got, "cpu"), want)
    assert [value.device.type for value in got] == ["tpu", "cpu", "cpu"]
    assert steps.item() == want_steps.item() == 4


# ---- sizes that change ----


@pytest.mark.strict
def test_dynamic_sizes_are_captured_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("tpu")

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(model(x), 0).reshape(-1)[x.shape[0] - 1 :] * x.shape[0]

    run = compiled(fn, dynamic=True)
    for n in (3, 5, 7, 5):
        x = torch.randn(n, 4, device="tpu", requires_grad=True)
        want, got = fn(x), run(x)
        torch.testing.assert_close(got, want)
        (want_gradient,) = torch.autograd.grad(want.square().sum(), x)
        torch.testing.assert_close(torch.autograd.grad(got.square().sum(), x)[0], want_gradient)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    torch.tpu.reset_compile_stats()
    run(torch.randn(5, 4, device="tpu", requires_grad=True))
    assert torch.tpu.compile_stats()["programs"] == 0


def test_marked_dimensions_and_numbers() -> None:
    def fn(x: torch.Tensor, n: int, s: float) -> tuple[torch.Tensor, int]:
        x.mul_(s)
        return torch.cat([x, x.new_ones(n, x.shape[1])]).t(), x.shape[0] + n

    run = compiled(fn, dynamic=True)
    for rows, n, s in ((3, 2, 0.5), (4, 2, 0.5), (4, 5, 1.5)):
        want_x = torch.arange(rows * 4.0).reshape(rows, 4)
        x = want_x.to("tpu")
        torch._dynamo.mark_dynamic(x, 0)
        want, got = fn(want_x, n, s), run(x, n, s)
        torch.testing.assert_close(to(got, "cpu"), want)
        torch.testing.assert_close(x.cpu(), want_x)
        assert got[0].stride() == want[0].stride()


def test_sizes_that_depend_on_data() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        run = compiled(lambda x: x[x > 0].sum() + torch.nonzero(x).shape[0] + x[0].item())
        for values in ([1.0, -1.0, 2.0], [1.0, -1.0, 2.0, 4.0]):
            x = torch.tensor(values)
            assert run(x.to("tpu")).item() == x[x > 0].sum() + len(values) + values[0]


def test_calls_of_torch_tpu_are_made_outside_of_graphs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        torch.tpu.set_rng_state(torch.tpu.get_rng_state())
        torch.tpu.synchronize()
        return torch.rand_like(x)

    x = X.to("tpu")
    torch.testing.assert_close(torch.compile(fn, backend="tpu")(x), fn(x))


def test_floats_are_operands() -> None:
    with torch._dynamo.config.patch(specialize_float=False):
        run = compiled(lambda x, s: x * s + (s * 2 + 1), dynamic=True)
        x = X.to("tpu")
        run(x, 0.5)
        before = programs()
        for s in (0.25, 3.0):
            torch.testing.assert_close(run(x, s).cpu(), X * s + (s * 2 + 1))
        assert programs() == before


# ---- options ----


def test_options_and_modes(tmp_path: Any) -> None:
    x = X.to("tpu")
    options = {"optimization_level": 1, "dump_dir": str(tmp_path), "name": "mine", "precision": "high"}
    options["compiler_options"] = {"xla_cpu_enable_fast_math": False}
    torch.testing.assert_close(compiled(lambda t: t @ t.t(), options=options)(x).cpu(), X @ X.t())
    assert {path.suffix for path in tmp_path.iterdir()} == {".py", ".graph", ".mlir"}
    assert all(path.name.startswith("mine") and path.stat().st_size for path in tmp_path.iterdir())
    assert "mm(" in next(tmp_path.glob("*.graph")).read_text()
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        torch._dynamo.reset()
        torch.testing.assert_close(compiled(lambda t: t + 1, mode=mode)(x).cpu(), X + 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"optimisation_level": 1}}, "did you mean 'optimization_level'"),
        ({"options": {"optimization_level": 7}}, "one of None, 0, 1, 2, 3, not 7"),
        ({"options": {"precision": "best"}}, "'highest'"),
        ({"options": {"cuts": 1}}, "'cuts' is a bool"),
        ({"options": {"compiler_options": {"xla_x": [1]}}}, "xla_x"),
        ({"mode": "max-autotun"}, "did you mean 'max-autotune'"),
    ],
)
def test_options_that_are_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(lambda t: t + 1, **given)(X.to("tpu"))


def test_an_option_that_the_compiler_does_not_know() -> None:
    with pytest.raises(RuntimeError, match="xla_no_such_option"):
        compiled(lambda t: t + 2, options={"compiler_options": {"xla_no_such_option": True}})(X.to("tpu"))


def test_a_cut_names_the_op_its_operands_and_the_line() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x @ x.t()).abs() + 1

    with pytest.raises(
        Exception, match=r"linalg_eig\w*\.default\(f32\[3, 3\]\) runs by itself[^\n]*\n  at .*test_compile.py:\d+"
    ):
        compiled(fn, options={"cuts": False})(X.to("tpu"))
    torch._dynamo.reset()
    got = compiled(fn)(X.to("tpu"))
    torch.testing.assert_close(got.cpu().sort().values, fn(X).sort().values, rtol=1e-4, atol=1e-5)


def test_an_error_of_a_program_names_the_line() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x + 1)[i]

    run = compiled(fn)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        run(X.to("tpu"), torch.tensor([0, 5], device="tpu")).cpu()


# ---- optimizers ----


@pytest.mark.parametrize(
    ("kind", "options", "n_launches"),
    [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 1),
        (torch.optim.Adam, {"lr": 0.1}, 1),
        (torch.optim.AdamW, {"lr": torch.tensor(0.1)}, 1),
        (torch.optim.AdamW, {"lr": 0.1, "foreach": False}, None),
        (torch.optim.RMSprop, {"lr": 0.01}, None),
        (torch.optim.Muon, {"lr": 0.1}, 1),
    ],
    ids=str,
)
def test_steps_of_optimizers(kind: Any, options: dict[str, Any], n_launches: int | None) -> None:
    torch.manual_seed(0)
    parameters = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
    twins = [p.detach().to("tpu").requires_grad_() for p in parameters]
    optimizer, twin = kind(parameters, **options), kind(twins, **options)
    step = torch.compile(lambda: twin.step(), backend="tpu")
    for _ in range(4):
        for p, q in zip(parameters, twins, strict=True):
            p.grad = torch.randn(4, 4)
            q.grad = p.grad.to("tpu")
        torch.tpu.reset_compile_stats()
        optimizer.step()
        step()
    if n_launches is not None:
        assert torch.tpu.compile_stats()["launches"] == n_launches
    torch.testing.assert_close(
        [q.detach().cpu() for q in twins], [p.detach() for p in parameters], rtol=1e-4, atol=1e-5
    )


def test_foreach() -> None:
    def fn(a: list[torch.Tensor], b: list[torch.Tensor]) -> list[torch.Tensor]:
        torch._foreach_mul_(a, 0.9)
        torch._foreach_add_(a, b, alpha=2)
        return list(torch._foreach_sqrt(torch._foreach_addcmul(b, a, a, value=0.5)))

    check(fn, [X, X * 2], [X.abs(), X.abs() + 1])


# ---- control flow ----


def test_cond_is_part_of_the_program() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cond(
            x.sum() > 0, lambda x, y: (x.sin(), y + 1), lambda x, y: (x.cos(), (x @ y.t())[:, :1] + y), (x, y)
        )

    for sign in (1, -1):
        check(fn, X * sign, X + 1)


def test_cond_within_cond_and_its_gradient() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: x.exp(), lambda x: x * 3, (x,))

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, inner, lambda x: x.square(), (x,))

    run = compiled(fn)
    for scale in (0.5, 5.0, -1.0):
        a, b = (X * scale).requires_grad_(), (X * scale).to("tpu").requires_grad_()
        want, got = fn(a), run(b)
        torch.testing.assert_close(got.cpu(), want)
        want.sum().backward()
        got.sum().backward()
        torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_while_loop_is_part_of_the_program() -> None:
    from torch._higher_order_ops import while_loop

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 0.5 + y), (start, x))

    check(fn, X, X + 1)


def test_scan_and_map_are_part_of_the_program() -> None:
    from torch._higher_order_ops import map as map_over
    from torch._higher_order_ops import scan

    def scanned(x: torch.Tensor, w: torch.Tensor) -> Any:
        start = torch.zeros(4, device=x.device)
        return scan(lambda c, row: ((c + row) * w, c.sum() + row), start, x)

    check(scanned, X, X[0] + 1)
    check(lambda x, w: map_over(lambda row, w: (row * w).cumsum(0), x, w), X, X[0] + 1)


def test_control_flow_that_no_program_can_have_runs_by_itself() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x - 1, (x,))

    got = compiled(fn)(X.to("tpu"))
    assert ((got.cpu() - X) >= 0).all() and ((got.cpu() - X) < 1).all()


def test_ops_that_count_first_run_by_themselves() -> None:
    def fn(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x * 2, "mean", lengths=lengths, axis=0) + 1

    check(fn, X, torch.tensor([1, 2]), n_launches=None)
    a, b = X.clone().requires_grad_(), X.to("tpu").requires_grad_()
    fn(a, torch.tensor([1, 2])).sum().backward()
    compiled(fn)(b, torch.tensor([1, 2], device="tpu")).sum().backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_associative_scan() -> None:
    from torch._higher_order_ops.associative_scan import associative_scan

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        sums = associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")
        pairs = associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y), 1, reverse=True, combine_mode="generic"
        )
        return sums, pairs

    check(fn, X, X + 1)
    a, b = X.clone().requires_grad_(), X.to("tpu").requires_grad_()
    fn(a, a + 1)[1][1].square().sum().backward()
    compiled(fn)(b, b + 1)[1][1].square().sum().backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_flex_attention_where_pytorch_lets_it_through() -> None:
    """PyTorch's function refuses the device by name; the op behind it runs, with block masks made on the device."""
    from torch._higher_order_ops.flex_attention import flex_attention as op
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    def slope(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + (i - j) * 0.1

    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any) -> torch.Tensor:
        options = {"BACKEND": "AUTO", "PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False, "WRITE_DQ": True}
        options |= {"BLOCKS_ARE_CONTIGUOUS": False, "OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False}
        return op(q, k, v, slope, mask.as_tuple(), 0.35, options)[0]

    torch.manual_seed(0)
    given = [torch.randn(1, 2, 16, 8) for _ in range(3)]
    mask, mine = (create_block_mask(causal, 1, 1, 16, 16, device=device) for device in ("cpu", "tpu"))
    want = flex_attention(*given, score_mod=slope, block_mask=mask, scale=0.35)
    on_tpu = [x.to("tpu").requires_grad_() for x in given]
    for run in (fn, compiled(fn)):
        got = run(*on_tpu, mine)
        torch.testing.assert_close(got.detach().cpu(), want)
        grads = torch.autograd.grad(got.square().sum(), on_tpu)
        by_hand = [x.clone().requires_grad_() for x in given]
        q, k, v = by_hand
        i = torch.arange(16)
        scores = q @ k.transpose(-1, -2) * 0.35 + (i[:, None] - i) * 0.1
        out = scores.masked_fill(i[:, None] < i, float("-inf")).softmax(-1) @ v
        for g, w in zip(grads, torch.autograd.grad(out.square().sum(), by_hand), strict=True):
            torch.testing.assert_close(g.cpu(), w, rtol=1e-4, atol=1e-5)


def test_compiled_autograd() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    twin = copy.deepcopy(model).to("tpu")
    model(X).square().sum().backward()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="tpu", fullgraph=True)):
        twin(X.to("tpu")).square().sum().backward()
    torch.testing.assert_close(gradients(twin), gradients(model))
    assert torch._dynamo.utils.counters["compiled_autograd"]["captures"] == 1


def test_a_scaled_half_precision_step() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    twin = copy.deepcopy(model).to("tpu")
    for m, device in ((model, "cpu"), (twin, "tpu")):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=256.0)
        step = m if device == "cpu" else compiled(m)
        for _ in range(2):
            with torch.autocast(device, torch.bfloat16):
                loss = step(X.to(device)).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    torch.testing.assert_close(to(dict(twin.state_dict()), "cpu"), dict(model.state_dict()), rtol=2e-2, atol=2e-3)


SEEN: list[float] = []


@torch.library.custom_op("compile_test::record", mutates_args=())
def record(x: torch.Tensor) -> None:
    SEEN.append(x.sum().item())


@record.register_fake
def _(x: torch.Tensor) -> None:
    return None


def test_effects_keep_their_order() -> None:
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    handle = _register_effectful_op("compile_test::record", _EffectType.ORDERED)
    try:

        def fn(x: torch.Tensor) -> torch.Tensor:
            record(x)
            y = x * 2
            record(y)
            return y + 1

        SEEN.clear()
        run = compiled(fn)
        for _ in range(2):
            torch.testing.assert_close(run(X.to("tpu")).cpu(), X * 2 + 1)
        total = X.sum().item()
        torch.testing.assert_close(SEEN, [total, 2 * total] * 2)
    finally:
        handle.destroy()
