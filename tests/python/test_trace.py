"""Ops without rows by PyTorch's decompositions, and FX graphs as text."""

import json
import math
import operator
from collections.abc import Callable

import pytest
import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._mode_utils import no_dispatch
from torch_pjrt import _C, _pack, _trace

aten = torch.ops.aten


def tensor(index: int, *sizes: int, dtype: str = "f32", **more: object) -> dict[str, object]:
    strides = list(torch.empty(sizes, device="meta").stride())
    return {"input": index, "dtype": dtype, "sizes": list(sizes), "strides": strides, **more}


def request(op: str, *arguments: object) -> str:
    inputs = [a for a in arguments if isinstance(a, dict) and "input" in a]
    statements = "".join(f"  %{a['input']} = input {a['dtype']}{a['sizes']}\n" for a in inputs)
    return json.dumps({"op": f"aten::{op}", "inputs": statements, "args": arguments})


@pytest.fixture
def decompose(monkeypatch):
    """Replaces the table of decompositions: which ops have no row changes from day to day."""

    def use(op: OpOverload, decomposition: Callable[..., object]) -> None:
        monkeypatch.setattr(_trace, "decompositions", lambda: {op: _trace._bounded(op, decomposition)})

    return use


def test_trace_ends_in_rows(decompose):
    decompose(aten.narrow_copy.default, decomposition_table[aten.narrow_copy.default])
    text = _trace.trace(request("narrow_copy", tensor(0, 5, 3), 0, 1, 2))
    assert text is not None
    lines = text.splitlines()
    assert lines[:2] == ["graph {", "  %0 = input f32[5, 3]"]
    assert lines[2] == "  %1 = slice.Tensor(self=%0, dim=0, start=1, end=3, step=1)"
    assert lines[-2].startswith("  return %") and lines[-1] == "}"
    for line in lines[2:-2]:
        assert _C.row(line.split(" = ")[1].split("(")[0]) is not None, line


def test_writes_inside_a_decomposition_become_values(decompose):
    def fill(x: torch.Tensor) -> torch.Tensor:
        made = torch.zeros_like(x)
        made[0] = 1
        return made.copy_(x).mul_(2)

    decompose(aten.tanh.default, fill)
    text = _trace.trace(request("tanh", tensor(0, 4)))
    assert text is not None
    assert "mul.Tensor" in text and "_(" not in text


def test_numbers_keep_their_kind(decompose):
    decompose(aten.atan2.default, lambda x, y: x.float() * y)
    number = tensor(1, dtype="f64", number=True)
    text = _trace.trace(request("atan2", tensor(0, 4, dtype="f16"), number))
    assert text is not None and "f64" not in text.split("input f64")[1], "a Python number does not widen"


def test_trace_says_none_where_there_is_no_way(decompose):
    decompose(aten.neg.default, lambda x: aten.neg.default(x))
    assert _trace.trace(request("neg", tensor(0, 3))) is None, "it leads back to itself"
    decompose(aten.neg.default, lambda x: x[x > 0])
    assert _trace.trace(request("neg", tensor(0, 3))) is None, "its size depends on data"
    assert _trace.trace(request("sin", tensor(0, 3))) is None, "not in the table"
    assert _trace.trace(request("no_such_op", tensor(0, 3))) is None
    decompose(aten.narrow_copy.default, decomposition_table[aten.narrow_copy.default])
    assert _trace.trace(request("narrow_copy", tensor(0, 5, 3), 7, 1, 2)) is None, "the CPU reports the wrong dimension"
    assert _trace.trace("{") is None


def test_memory_without_values_is_zeros():
    empties = {op: fill for op, fill in _trace.decompositions().items() if "empty" in str(op)}
    assert aten.empty_like.default in empties and aten.empty.memory_format in empties
    for op, arguments in ((aten.empty_like.default, (X,)), (aten.empty.memory_format, ([2, 3],))):
        assert empties[op](*arguments, dtype=torch.int32, device="cpu").tolist() == [[0] * 3] * 2


def test_table_holds_what_has_no_row():
    table = _trace.decompositions()
    assert table and not any(_pack.has_row(op) for op in table if op not in _trace.BY_MASK)
    assert aten.add.Tensor not in table


@pytest.mark.parametrize("rank", [2, 3])
def test_op_without_a_row_runs_on_the_device(rank):
    if _C.row(f"max_unpool{rank}d") is not None:
        pytest.skip("it has a row by now")
    pool = (torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d)[rank - 2]
    unpool = (torch.nn.functional.max_unpool2d, torch.nn.functional.max_unpool3d)[rank - 2]
    x = torch.arange(6 * 4.0**rank).view(2, 3, *[4] * rank)
    expected = unpool(*pool(x, 2, return_indices=True), 2)
    pooled, places = (value.to("tpu") for value in pool(x, 2, return_indices=True))
    torch.tpu.reset_fallbacks()
    first = unpool(pooled, places, 2)
    programs = torch.tpu.compile_stats()["programs"]
    second = unpool(pooled, places, 2)
    assert torch.tpu.compile_stats()["programs"] == programs, "traced and compiled once"
    assert torch.tpu.fallbacks() == {}
    assert torch.equal(first.cpu(), expected) and torch.equal(second.cpu(), expected)


# ---- text ----


def pack(build, *metas: torch.Tensor) -> list[str]:
    graph = fx.Graph()
    inputs = [graph.placeholder(f"x{i}") for i in range(len(metas))]
    for node, meta in zip(inputs, metas, strict=True):
        node.meta["val"] = meta
    graph.output(build(graph, *inputs))
    statements = "".join(f"  %{i} = input f32{list(meta.shape)}\n" for i, meta in enumerate(metas))
    return _pack.Packer(statements, len(metas)).pack(graph, range(len(metas))).splitlines()[1 + len(metas) : -1]


def call(graph: fx.Graph, op: object, *args: object, val: object, **kwargs: object) -> fx.Node:
    node = graph.call_function(op, args, kwargs)  # type: ignore[arg-type]
    node.meta["val"] = val
    return node


X = torch.empty(2, 3, device="meta")


def test_arguments_are_given_by_name_and_defaults_filled_in():
    lines = pack(lambda g, x, y: call(g, aten.add.Tensor, x, y, val=X), X, X)
    assert lines == ["  %2 = add.Tensor(self=%0, other=%1, alpha=1)", "  return %2"]


def test_several_results():
    def build(g, x):
        pair = call(g, aten.topk.default, x, 2, val=None)
        return [
            call(g, operator.getitem, pair, 1, val=X[:, :2].long()),
            call(g, operator.getitem, pair, 0, val=X[:, :2]),
        ]

    lines = pack(build, X)
    assert lines[0].startswith("  %1 = topk(self=%0, k=2")
    assert [line.split()[:2] for line in lines[1:]] == [["return", "%1:1"], ["return", "%1:0"]]


def test_lists_and_dtypes():
    lines = pack(lambda g, x: call(g, aten.cat.default, [x, x], 1, val=X.repeat(1, 2)), X)
    assert lines[0] == "  %1 = cat(tensors=[%0, %0], dim=1)"
    lines = pack(lambda g, x: call(g, aten.sum.dim_IntList, x, [0], True, dtype=torch.float64, val=X[:1].double()), X)
    assert lines[0] == "  %1 = sum.dim_IntList(self=%0, dim=[0], keepdim=true, dtype=f64)"


def test_number_where_a_tensor_is_taken():
    lines = pack(lambda g, x: call(g, aten.mul.Tensor, x, 3, val=X), X)
    assert lines[:2] == ["  %1 = full(size=[], fill_value=3, dtype=f32)", "  %2 = mul.Tensor(self=%0, other=%1)"]


def test_order_of_dimensions():
    transposed = X.t()
    lines = pack(lambda g, x: call(g, aten.clone.default, x, val=transposed), X)
    assert lines[-1] == "  return %1 order=[1, 0]"
    channels_last = torch.empty(2, 3, 4, 5, device="meta").to(memory_format=torch.channels_last)
    assert _pack.dimension_order(channels_last) == [0, 2, 3, 1]
    assert _pack.dimension_order(torch.empty(1, 3, 1, device="meta")) is None
    assert _pack.dimension_order(X[:, ::2]) is None, "no order makes it dense"


def test_copies_of_constants_are_the_constants():
    assert pack(lambda g, x: call(g, aten.lift_fresh_copy.default, x, val=X), X) == ["  return %0"]


def test_ops_without_rows_and_things_that_are_no_values():
    with pytest.raises(_pack.Unpackable, match="add_"):
        pack(lambda g, x: call(g, aten.add_.Tensor, x, x, val=X), X)
    with pytest.raises(_pack.Unpackable, match="no tensor"):
        pack(lambda g, x: None, X)
    with pytest.raises(_pack.Unpackable, match="no op"):
        pack(lambda g, x: call(g, operator.add, x, x, val=X), X)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-7, "-7"),
        (0.5, "0.5"),
        (2.0, "2.0"),
        (1e-5, "1e-05"),
        (1e22, "1e+22"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (1 - 2j, "complex(1.0, -2.0)"),
    ],
)
def test_numbers(value, text):
    assert _pack.spell_number(value) == text


def test_strings():
    assert _pack.spell_string('a"b\\c\n') == '"a\\"b\\\\c\\x0a"'


def test_line_of_the_user():
    graph = fx.Graph()
    node = graph.placeholder("x")
    node.meta["stack_trace"] = '  File "/a/train.py", line 17, in forward\n    y = x + 1\n'
    assert _pack._location(node) == ' @ "/a/train.py":17'


def test_dtypes_are_the_cores():
    for dtype, name in _pack.DTYPES.items():
        x = torch.zeros(1).to(dtype)
        assert torch.equal(x.to("tpu").cpu().view(torch.uint8), x.view(torch.uint8)), name


# ---- what is registered with PyTorch ----


def returns_tensors(name: str) -> bool:
    base, _, overload = name.removeprefix("aten::").partition(".")
    schema = getattr(getattr(aten, base), overload or "default")._schema
    return any("Tensor" in str(value.type) for value in schema.returns)


def test_no_composite_op_is_overridden_without_a_formula():
    """A kernel at the device's key would hide the composite one, and with it the gradient."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
        # What returns no tensor has no gradient to lose.
        # choose_qparams_optimized reads its operand's memory, and what it returns has no formula.
        if name == "aten::choose_qparams_optimized":
            continue
        if name.startswith("aten::") and returns_tensors(name) and has_kernel(name, "CompositeImplicitAutograd"):
            assert has_kernel(name, "Autograd") or has_kernel(name, "AutogradPrivateUse1"), name


def test_errors_name_the_users_line():
    from pathlib import Path

    x = torch.ones(3, device="tpu")
    with pytest.raises(RuntimeError) as caught:
        x @ torch.ones(5, device="tpu").view(5, 1)
    line = caught.traceback[0].lineno + 1
    assert f"{Path(__file__).name}:{line}" in str(caught.value)


def test_fake_tensors_of_operators_without_a_kernel_for_them():
    """FakeTensorMode runs these on zeros like the operands, which say that they are on the device and have no memory."""
    with FakeTensorMode():
        x = torch.empty(4, 3, device="tpu")
        transposed = x.t()
        factor, scales = torch.geqrf(x.t())
        counts, edges = torch.histogram(x, 5, range=(0.0, 1.0))
    for result, shape in ((factor, (3, 4)), (scales, (3,)), (counts, (5,)), (edges, (6,))):
        assert isinstance(result, FakeTensor) and result.device.type == "tpu" and result.shape == shape
    likes = (torch.zeros_like, torch.ones_like, torch.rand_like, lambda t, **o: torch.full_like(t, 2.0, **o))
    with no_dispatch():
        for like in likes:
            made = like(x, device=x.fake_device)
            assert made.shape == (4, 3) and made.stride() == x.stride() and made.cpu().isfinite().all()
        assert torch.zeros_like(transposed, device="tpu").stride() == transposed.stride() == (1, 3)
