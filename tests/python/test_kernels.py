"""Ops of torch.library on the device: with Python kernels, and with StableHLO of their own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch_pjrt import kernels
from torch_pjrt.kernels import TensorType, literal, register_stablehlo

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.tpu.reset_fallbacks()


def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="tpu", fullgraph=True, **options)


# ---- with a Python kernel ----


@torch.library.custom_op("kernels_test::halved_sine", mutates_args=())
def halved_sine(x: torch.Tensor, times: int) -> torch.Tensor:
    return x.sin() * (0.5 * times)


@halved_sine.register_fake
def _(x: torch.Tensor, times: int) -> torch.Tensor:
    return torch.empty_like(x)


halved_sine.register_autograd(
    lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * (0.5 * ctx.times), None),
    setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(inputs[0]), setattr(ctx, "times", inputs[1])),
)


@torch.library.custom_op("kernels_test::add_to", mutates_args={"x"})
def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


def with_gradient(fn: Callable[..., Any], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.clone().requires_grad_()
    y = fn(x)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    return y.detach().cpu(), gradient.cpu()


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
def test_an_op_with_a_python_kernel(wrap: Callable[..., Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return halved_sine(x + 1, 3) * 2

    torch.testing.assert_close(with_gradient(wrap(fn), X.to("tpu")), with_gradient(fn, X))
    assert torch.tpu.fallbacks() == {}


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
def test_an_op_that_writes_an_argument(wrap: Callable[..., Any]) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        add_to(z, y)
        add_to(x, z)
        return z

    want_x, x = X.clone(), X.to("tpu")
    want = fn(want_x, X)
    torch.testing.assert_close(wrap(fn)(x, X.to("tpu")).cpu(), want)
    torch.testing.assert_close(x.cpu(), want_x)


# ---- with StableHLO ----

LINE = """
func.func @main(%x: $x, %y: $y) -> $x {
  %factor = stablehlo.constant dense<$factor> : tensor<$x_element>
  %wide = stablehlo.broadcast_in_dim %factor, dims = [] : (tensor<$x_element>) -> $x
  %product = stablehlo.multiply %x, %wide : $x
  %sum = func.call @helper(%product, %y) : ($x, $y) -> $x
  func.return %sum : $x
}
func.func @helper(%a: $x, %b: $y) -> $x {
  %0 = stablehlo.add %a, %b : $x
  func.return %0 : $x
}
"""


def define(name: str, schema: str, on_cpu: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    torch.library.define(f"kernels_test::{name}", schema)
    torch.library.impl(f"kernels_test::{name}", "cpu")(on_cpu)
    torch.library.register_fake(f"kernels_test::{name}")(fake)
    return getattr(torch.ops.kernels_test, name)


line = define(
    "line",
    "(Tensor x, Tensor y, float factor) -> Tensor",
    lambda x, y, factor: x * factor + y,
    lambda x, y, factor: torch.empty_like(x),
)
register_stablehlo("kernels_test::line", LINE)
torch.library.register_autograd(
    "kernels_test::line",
    lambda ctx, grad: (grad * ctx.factor, grad, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[2]),
)

sums = define(
    "sums",
    "(Tensor[] xs, Tensor? scale, int[] dims, bool keep) -> (Tensor, Tensor)",
    lambda xs, scale, dims, keep: (
        sum(xs) * (1 if scale is None else scale),
        xs[0].sum(dims, keepdim=keep),
    ),
    lambda xs, scale, dims, keep: (torch.empty_like(xs[0]), xs[0].sum(dims, keepdim=keep)),
)


@register_stablehlo(sums)
def _(xs: list[TensorType], scale: TensorType | None, dims: list[int], keep: bool) -> str:
    x = xs[0]
    names = [f"%x{i}" for i in range(len(xs))]
    given = ", ".join(f"{name}: {x}" for name in names) + (f", %scale: {scale}" if scale else "")
    reduced = x.with_shape(*(n for d, n in enumerate(x.shape) if d not in dims))
    kept = x.with_shape(*(1 if d in dims else n for d, n in enumerate(x.shape))) if keep else reduced
    scalar = x.with_shape()
    lines = [f"%s1 = stablehlo.add {names[0]}, {names[1]} : {x}"]
    lines += [f"%s{i} = stablehlo.add %s{i - 1}, {names[i]} : {x}" for i in range(2, len(xs))]
    total = f"%s{len(xs) - 1}"
    if scale:
        lines += [f"%wide = stablehlo.broadcast_in_dim %scale, dims = [] : ({scale}) -> {x}"]
        lines += [f"%scaled = stablehlo.multiply {total}, %wide : {x}"]
        total = "%scaled"
    lines += [f"%zero = stablehlo.constant dense<{literal(0.0, x.dtype)}> : {scalar}"]
    lines += [f"%r = stablehlo.reduce(%x0 init: %zero) applies stablehlo.add across dimensions = {dims} : "]
    lines[-1] += f"({x}, {scalar}) -> {reduced}"
    lines += [f"%k = stablehlo.reshape %r : ({reduced}) -> {kept}"]
    body = "\n    ".join([*lines, f"return {total}, %k : {x}, {kept}"])
    # as other tools print: in a module, with attributes and locations
    return f"""#loc = loc(unknown)
module @jit_sums attributes {{mhlo.num_partitions = 1 : i32}} {{
  func.func public @main({given}) -> ({x} {{jax.result_info = "a"}}, {kept} {{jax.result_info = "b"}}) {{
    {body}
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("somewhere")
"""


MODES: dict[str, Callable[..., Any]] = {"eager": lambda f: f, "compiled": compiled}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_op_with_stablehlo_is_part_of_programs(mode: str, dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return line(line(x.t(), x.t() + 1, 0.5).exp(), x.t(), -2.0)

    got, gradient = with_gradient(MODES[mode](fn), X.to("tpu", dtype))
    want, want_gradient = with_gradient(fn, X.to(dtype))
    tolerance = (
        {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {}
    )  # a program rounds once where ops round each
    torch.testing.assert_close(got, want, **tolerance)
    torch.testing.assert_close(gradient, want_gradient, **tolerance)
    assert torch.tpu.fallbacks() == {}


@pytest.mark.parametrize("mode", MODES)
def test_lists_options_and_several_results(mode: str) -> None:
    def fn(x: torch.Tensor, scale: torch.Tensor) -> Any:
        return *sums([x, x * 2], None, [1], False), *sums([x, x, x.cos()], scale, [0], True)

    got = MODES[mode](fn)(X.to("tpu"), torch.tensor(3.0).to("tpu"))
    want = fn(X, torch.tensor(3.0))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.cpu(), w)


@pytest.mark.strict
def test_one_program_for_each_kind_of_call() -> None:
    x = X.to("tpu")
    torch.tpu.synchronize()
    torch.tpu.reset_compile_stats()
    for factor in (1.25, 1.25, 2.75):
        line(x, x, factor)
    torch.tpu.synchronize()
    assert torch.tpu.compile_stats()["programs"] == 2
    run = compiled(lambda x: line(x.sin(), x, 0.25).cos())
    run(x)
    torch.tpu.reset_compile_stats()
    run(x)
    assert torch.tpu.compile_stats()["launches"] == 1


def test_in_fused_mode_it_is_part_of_a_window() -> None:
    with torch.tpu.set_eager_mode("fused"):
        x = X.to("tpu")
        got = line(x.sin(), x, 0.75).cos().cpu()
    torch.testing.assert_close(got, (X.sin() * 0.75 + X).cos())
    window = next(w for w in reversed(torch.tpu.fusion_report()) if any("line" in call[0] for call in w["calls"]))
    assert window["ops"] >= 3


def test_as_a_layer_that_is_trained() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return line(x * self.weight, x, 0.5).square().mean()

    mine, theirs = Layer().to("tpu"), Layer()
    run = compiled(mine)
    run(X.to("tpu")).backward()
    theirs(X).backward()
    torch.testing.assert_close(mine.weight.grad.cpu(), theirs.weight.grad)


# ---- errors ----


def test_wrong_texts_are_errors_that_name_the_op() -> None:
    cases = {
        "no func.func": "stablehlo.add",
        "takes 2 operands, and 1 are given": "func.func @main(%x: $x, %y: $x) -> $x { return %x : $x }",
        "takes f64[3,4] as operand 0": "func.func @main(%x: tensor<3x4xf64>) -> tensor<3x4xf64> { return %x : tensor<3x4xf64> }",
        "no known element type": "func.func @main(%x: tensor<?x4xf32>) -> $x { return %x : $x }",
        "where only tensors may be": "func.func @main(%x: f32) -> $x { return %x : $x }",
        "names 'z'": "func.func @main(%x: $z) -> $x { return %x : $x }",
        "has 0 results": "func.func @main(%x: $x) { return }",
        "that is not generic": '"func.func"() <{function_type = ($x) -> $x}> ({}) : () -> ()',
    }
    for number, (message, text) in enumerate(cases.items()):
        op = define(f"wrong{number}", "(Tensor x) -> Tensor", lambda x: x, torch.empty_like)
        register_stablehlo(op, text)
        with pytest.raises((RuntimeError, ValueError)) as raised:
            op(X.to("tpu")).cpu()
        assert f"kernels_test::wrong{number}" in str(raised.value), raised.value
        assert message in str(raised.value), raised.value


def test_what_the_compiler_refuses_names_the_op() -> None:
    op = define("refused", "(Tensor x) -> Tensor", lambda x: x, torch.empty_like)
    register_stablehlo(op, "func.func @main(%x: $x) -> $x { %y = stablehlo.no_such_op %x : $x return %y : $x }")
    with pytest.raises(RuntimeError, match=r"(?s)kernels_test::refused.*no_such_op"):
        op(X.to("tpu")).cpu()
    with pytest.raises(RuntimeError, match="no_such_op"):
        compiled(lambda x: op(x + 1))(X.to("tpu")).cpu()


def test_an_exception_of_the_function_is_the_calls() -> None:
    op = define("raises", "(Tensor x) -> Tensor", lambda x: x, torch.empty_like)
    register_stablehlo(op, lambda x: f"{x}"[99])
    with pytest.raises(RuntimeError, match=r"kernels_test::raises.*IndexError: string index"):
        op(X.to("tpu"))


@pytest.mark.parametrize(
    ("op", "kind", "message"),
    [
        ("kernels_test::none", ValueError, "no op 'kernels_test::none'"),
        (torch.ops.aten.add.Tensor, ValueError, "PyTorch's own op"),
        (3, TypeError, "not int"),
        ("kernels_test::line", RuntimeError, "StableHLO already"),
        ("kernels_test::add_to", ValueError, "is written"),
    ],
)
def test_ops_that_cannot_have_any(op: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        register_stablehlo(op, "")


def test_types_and_literals() -> None:
    assert str(TensorType(torch.float32, (4, 8))) == "tensor<4x8xf32>"
    assert str(TensorType(torch.bool, ())) == "tensor<i1>"
    assert TensorType(torch.complex64, (2,)).element == "complex<f32>"
    assert kernels.element(torch.float8_e4m3fn) == "f8E4M3FN"
    assert [kernels.element(d) for d in (torch.uint8, torch.int64, torch.bfloat16)] == ["ui8", "i64", "bf16"]
    assert literal(0.5, torch.float32) == "0.5"
    assert literal(1e-5, torch.float32) == "1.0e-05"
    assert literal(1e30, torch.float64) == "1.0e+30"
    assert literal(float("inf"), torch.float32) == "0x7F800000"
    assert literal(float("-inf"), torch.bfloat16) == "0xFF80"
    assert literal(3, torch.int64) == "3" and literal(True, torch.bool) == "true"
