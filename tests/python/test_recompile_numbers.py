"""Every number among the parameters of every row: from the third value on, another one compiles nothing, and the results are
those of the CPU whether the number is baked into the program or an operand of it. The cases are read from the op table."""

from typing import Any

import optable
import pytest
import torch

pytestmark = pytest.mark.strict
DEVICE = "tpu"
KINDS = {"f", "S", "F~", "F^", "S~", "S^", "I~"}  # numbers that are given at run time, or are once they change
WARM, MORE = 3, 3

X = torch.linspace(0.1, 0.9, 12).view(3, 4)
SQUARE = torch.linspace(-0.5, 0.9, 9).view(3, 3)
IMAGE = torch.linspace(-1, 1, 2 * 4 * 4 * 4).view(2, 4, 4, 4)
VOLUME = IMAGE[:, :, :, :, None].expand(2, 4, 4, 4, 4).contiguous()
VECTOR = torch.linspace(0.2, 1, 4)
LABELS = torch.tensor([1, 3, 0])
WHOLE = torch.arange(1, 13).view(3, 4)
MASK = X > 0.4
BAGS = {
    "weight": X,
    "indices": torch.tensor([0, 2, 1, 1, 2]),
    "offsets": torch.tensor([0, 2]),
    "offset2bag": torch.tensor([0, 0, 1, 1, 1]),
    "bag_size": torch.tensor([2, 3]),
    "maximum_indices": torch.zeros(2, 4, dtype=torch.long),
    "grad": X[:2],
    "num_weights": 3,
}
NORM = {
    "input": IMAGE,
    "grad_out": IMAGE,
    "running_mean": VECTOR,
    "running_var": VECTOR,
    "save_mean": VECTOR,
    "save_invstd": VECTOR,
    "save_var": VECTOR,
    "mean": VECTOR,
    "invstd": VECTOR,
    "weight": VECTOR,
    "bias": VECTOR,
    "training": True,
    "output_mask": [True, True, True],
    "reserve": torch.empty(0, dtype=torch.uint8),
}
POOL = {"kernel_size": [2], "stride": [2], "padding": [0]}
STEPS = [torch.tensor(3.0), torch.tensor(3.0)]
ATTENTION = {name: torch.linspace(-1, 1, 48).view(1, 2, 4, 6) for name in ("query", "key", "value", "grad_out", "out")}

# Arguments by the beginning of the row's name; what is not said here is X, [X, X], the schema's default or a number.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "bitwise": {"self": WHOLE, "other": WHOLE},
    "__": {"self": WHOLE},
    "isin": {"elements": WHOLE, "test_elements": WHOLE},
    "addmm": {"self": SQUARE, "mat1": SQUARE, "mat2": SQUARE},
    "_addmm": {"self": SQUARE, "mat1": SQUARE, "mat2": SQUARE},
    "baddbmm": dict.fromkeys(("self", "batch1", "batch2"), SQUARE[None]),
    "addbmm": {"self": SQUARE, "batch1": SQUARE[None], "batch2": SQUARE[None]},
    "addmv": {"self": VECTOR[:3], "mat": SQUARE, "vec": VECTOR[:3]},
    "addr": {"self": SQUARE, "vec1": VECTOR[:3], "vec2": VECTOR[:3]},
    "avg_pool2d": {**POOL, "self": IMAGE},
    "avg_pool2d_backward": {**POOL, "self": IMAGE, "grad_output": IMAGE[:, :, :2, :2].contiguous()},
    "avg_pool3d": {**POOL, "self": VOLUME},
    "avg_pool3d_backward": {**POOL, "self": VOLUME, "grad_output": VOLUME[:, :, :2, :2, :2].contiguous()},
    "norm.ScalarOpt_dim": {"dim": [1], "keepdim": False},
    "fake_quantize_per_tensor_affine_cachemask": {"quant_min": -128, "quant_max": 127},
    "native_layer_norm": {"input": X, "normalized_shape": [4]},
    "_fused_rms_norm": {"input": X, "normalized_shape": [4]},
    "native_group_norm": {"input": IMAGE, "weight": VECTOR, "bias": None, "N": 2, "C": 4, "HxW": 16, "group": 2},
    "_native_batch_norm": NORM,
    "_batch_norm": NORM,
    "native_batch_norm": {**NORM, "train": False},
    "batch_norm": {**NORM, "update": False},
    "segment_reduce": {"data": VECTOR, "reduce": "sum", "lengths": torch.tensor([2, VECTOR.numel() - 2])},
    "_segment_reduce_backward": {
        "grad": VECTOR[:2],
        "output": VECTOR[:2],
        "data": VECTOR,
        "reduce": "prod",
        "lengths": torch.tensor([2, VECTOR.numel() - 2]),
    },
    "nll_loss_": {"target": LABELS, "total_weight": torch.tensor(2.0), "grad_output": torch.tensor(1.0)},
    "nll_loss2d_": {
        "self": IMAGE,
        "target": LABELS[torch.arange(32) % 3].view(2, 4, 4),
        "total_weight": torch.tensor(2.0),
        "grad_output": torch.tensor(1.0),
    },
    "multi_margin_loss": {"target": LABELS, "p": 1, "grad_output": torch.tensor(1.0)},
    "rrelu_with_noise_backward": {"self": -X},
    "_scaled": {
        **ATTENTION,
        "logsumexp": torch.ones(1, 2, 4),
        "grad_input_mask": [True, True, True, False],
        "philox_seed": torch.tensor([1, 2]),
        "philox_offset": torch.tensor(0),
        "cum_seq_q": None,
        "cum_seq_k": None,
        "max_q": 4,
        "max_k": 4,
        "attn_bias": None,
    },
    "searchsorted": {"sorted_sequence": VECTOR},
    "bucketize": {"boundaries": VECTOR},
    "nonzero_static": {"self": WHOLE, "size": 20},
    "bincount": {"self": LABELS},
    "embedding_dense_backward": {"indices": LABELS, "num_weights": 4, "padding_idx": -1},
    "embedding_renorm": {"indices": LABELS % 3},
    "_embedding_bag": BAGS,
    "scatter": {"index": torch.tensor([[0, 1], [2, 0]]), "reduce": "add"},
    "index_add": {"index": LABELS % 3, "source": X},
    "index_fill": {"index": LABELS % 3},
    "masked_fill": {"mask": MASK},
    "select_scatter": {"self": X.repeat(4, 1), "src": X[0]},
    "slice_backward": {"grad_output": X, "input_sizes": [12, 4], "step": 1, "start": 1, "end": 4},
    "select_backward": {"grad_output": X[0], "input_sizes": [12, 4]},
    "constant_pad_nd": {"pad": [1, 2]},
    "_jagged_to_padded_dense": {"values": X, "offsets": [torch.tensor([0, 1, 3])], "max_lengths": [3]},
    "linalg_lstsq": {"self": X.t().contiguous(), "b": X.t().contiguous(), "driver": "gelsd"},
    "linspace": {"steps": 5},
    "logspace": {"steps": 5},
    "native_dropout": {"train": True, "mask": MASK},
    "_masked_scale": {"mask": MASK},
    "kthvalue": {"self": torch.linspace(1, 0, 48).view(12, 4), "dim": 0},
    "_cdist_backward": {"grad": SQUARE, "cdist": SQUARE.abs() + 1, "p": 2.2},
    "_pdist_backward": {"grad": VECTOR[:3], "pdist": VECTOR[:3], "p": 2.2},
    "_fused": {
        "state_steps": STEPS,
        "max_exp_avg_sqs": [],
        "amsgrad": False,
        "lr": 0.1,
        "nesterov": False,
        "is_first_step": False,
    },
    "_amp_update_scale": {
        "self": torch.tensor(4.0),
        "growth_tracker": torch.tensor(1, dtype=torch.int32),
        "found_inf": torch.tensor(0.0),
    },
    "randint.generator": {"generator": None},
    "randint.low": {"low": 0, "high": 100},
    "randint_like.low": {"low": 0, "high": 100},
    "random.from": {"from": 0, "to": 100},
    "uniform": {"from": 0.0, "to": 1.0},
}
REAL = [0.31, 0.42, 0.53, 0.64, 0.75, 0.86]
INTEGERS = [1, 2, 3, 4, 5, 6]
VALUES: dict[tuple[str, str], list[Any]] = {
    ("arange", "end"): [3.5, 3.6, 3.7, 3.8, 3.9, 4.0],  # a size is not a value
    ("arange.start", "end"): [4.5, 4.6, 4.7, 4.8, 4.9, 5.0],
    ("arange.start_step", "end"): [4.5, 4.6, 4.7, 4.8, 4.9, 4.95],
    ("arange.start", "start"): [0.31, 0.42, 0.53, 0.54, 0.55, 0.66],
    ("arange.start_step", "start"): [0.31, 0.42, 0.53, 0.54, 0.55, 0.66],
    ("arange.start_step", "step"): [1.01, 1.02, 1.03, 1.04, 1.05, 1.06],
    ("histc", "min"): [-1, -2, -3, -4, -5, -6],
    ("uniform", "from"): [-0.1, -0.2, -0.3, -0.4, -0.5, -0.6],
    ("bincount", "minlength"): [1, 2, 3, 4, 1, 2],  # all give four bins
    ("slice_backward", "end"): [3, 4, 5, 6, 7, 8],
}
FIXED = {"arange": {"end": 4}, "arange.start": {"start": 1, "end": 5}, "arange.start_step": {"start": 1, "end": 5}}
WHOLE_NUMBERS = ("bitwise", "__", "isin", "kthvalue")
# Numbers that have to go with the one that varies: the rows of a slice are as many as grad_output has.
COUPLED = {("slice_backward", "start"): ("end", 3), ("slice_backward", "end"): ("start", -3)}
SETS_OF = {"exponent": [2.2, 3.3, 0.7, 1.3, 4.1, 0.9], "scalars": REAL, "weight": REAL}


def numbers() -> list[tuple[optable.Row, str]]:
    return [
        (row, parameter.name)
        for row in optable.rows()
        for parameter in row.parameters
        if parameter.kind.rstrip("?").replace("[]", "") in KINDS
    ]


def overload(row: optable.Row) -> Any:
    name, _, kind = row.name.partition(".")
    packet = getattr(torch.ops.aten, name)
    if (kind or "default") not in packet.overloads():
        packet = getattr(torch.ops.aten, name + "_")  # bernoulli.float exists in place only
    return getattr(packet, kind or "default")


def values_of(row: optable.Row, parameter: optable.Parameter) -> list[Any]:
    if (row.name, parameter.name) in VALUES:
        return VALUES[row.name, parameter.name]
    if parameter.kind.endswith("[]"):
        if parameter.kind.startswith("I"):
            return [[value] for value in INTEGERS]
        return [[value, value + 1] for value in SETS_OF.get(parameter.name, REAL)]
    whole = parameter.kind.startswith("I") or row.name.startswith(WHOLE_NUMBERS)
    return INTEGERS if whole else REAL


def default(row: optable.Row, argument: Any, chosen: dict[str, Any]) -> Any:
    """An argument that does not vary."""
    if argument.name in chosen:
        return chosen[argument.name]
    if argument.has_default_value():
        return argument.default_value
    kind = str(argument.real_type)
    parameter = next((p for p in row.parameters if p.name == argument.name), None)
    if parameter is not None and parameter.kind.rstrip("?").replace("[]", "") in KINDS:
        return values_of(row, parameter)[0]
    simple = {"Tensor": X, "List[Tensor]": [X, X * 2], "List[int]": [3, 4], "bool": False, "number": 1, "float": 0.5}
    if kind in simple:
        return simple[kind]
    if kind == "int":
        return 0 if argument.name == "dim" else 1
    return torch.float32 if kind == "ScalarType" else None


def arguments(row: optable.Row) -> tuple[list[Any], dict[str, Any]]:
    chosen: dict[str, Any] = {}
    for prefix in sorted((p for p in ARGUMENTS if row.name.startswith(p)), key=len):
        chosen.update(ARGUMENTS[prefix])
    if row.name == "_fused_adam.tensor_lr" or row.name.endswith("tensor_lr"):
        chosen["lr"] = torch.tensor(0.1)
    chosen.update(FIXED.get(row.name, {}))
    schema = overload(row)._schema.arguments
    positional = [default(row, a, chosen) for a in schema if not a.kwarg_only]
    named = {a.name: default(row, a, chosen) for a in schema if a.kwarg_only}
    return positional, named


def moved(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [moved(element, device) for element in value]
    return value.clone().to(device) if isinstance(value, torch.Tensor) else value


def call(row: optable.Row, name: str, value: Any, device: str) -> Any:
    positional, named = arguments(row)
    schema = [a.name for a in overload(row)._schema.arguments if not a.kwarg_only]
    positional, named = moved(positional, device), {key: moved(given, device) for key, given in named.items()}
    if name in named:
        named[name] = value
    else:
        positional[schema.index(name)] = value
    if (row.name, name) in COUPLED:
        other, distance = COUPLED[row.name, name]
        positional[schema.index(other)] = value + distance
    if "device" in named:
        named["device"] = device
    return overload(row)(*positional, **named)


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return [tensor for element in value for tensor in flat(element)]
    return [value.cpu()] if isinstance(value, torch.Tensor) else []


# No CPU kernel, or results that are not the CPU's by nature (what eager CUDA keeps for its backward pass).
NOT_COMPARED = (
    "_scaled_dot_product_fused",
    "_scaled_dot_product_efficient_attention",
    "_jagged_to_padded_dense",
    "_fused_rms_norm",
    "batch_norm_stats",
    "batch_norm_elemt",
    "batch_norm_backward",
    "_batch_norm",
    "addmm.dtype",
    "baddbmm.dtype",
    "_fused",
    "_foreach",
    "_masked_scale",
    "_amp_update_scale",
    "_embedding_bag_dense_backward",
    "_embedding_bag_forward_only",
    "_embedding_bag_backward",
    "_embedding_bag_per_sample",
    "native_batch_norm_backward",
)


@pytest.mark.parametrize(("row", "name"), numbers(), ids=lambda p: p if isinstance(p, str) else p.name)
def test_from_the_third_value_on_nothing_compiles(row: optable.Row, name: str) -> None:
    parameter = next(p for p in row.parameters if p.name == name)
    values = values_of(row, parameter)
    for value in values[:WARM]:
        call(row, name, value, DEVICE)
    before = torch.tpu.compile_stats()["programs"]
    results = [call(row, name, value, DEVICE) for value in values[WARM : WARM + MORE]]
    assert torch.tpu.compile_stats()["programs"] == before
    if row.is_random or row.name.startswith(NOT_COMPARED):
        return
    for value, got in zip(values[WARM:], results, strict=True):
        want = call(row, name, value, "cpu")
        pairs = list(zip(flat(got), flat(want), strict=True))
        if row.name.startswith("_embedding_bag"):
            pairs = pairs[:1]  # the others are notes for the backward pass, each kernel's own
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-5, atol=1e-5)


def test_numbers_that_are_part_of_a_program() -> None:
    """Those that choose a formula or a geometry; any other number of a row has a kind that does not recompile."""
    baked = {
        (row.name.removesuffix("_backward"), parameter.name)
        for row in optable.rows()
        for parameter in row.parameters
        if parameter.kind[0] in "FS" and parameter.kind != "Str" and parameter.kind != "Str?"
        if parameter.kind.rstrip("?").replace("[]", "") not in KINDS
    }
    resized = {(name, scale) for name, scale in baked if "upsample" in name and scale.startswith("scale")}
    assert baked - resized == {
        ("multi_margin_loss", "p"),  # 1 or 2
        ("_fake_quantize_learnable_per_tensor_affine", "grad_factor"),  # of a layer, for good
        ("_fake_quantize_learnable_per_channel_affine", "grad_factor"),
        ("_scaled_dot_product_efficient_attention", "dropout_p"),  # 0: with dropout, another row is called
        ("histogram.bin_ct", "range"),
        ("_histogramdd_bin_edges", "range"),
        ("_histogramdd_from_bin_cts", "range"),
    }


def test_limits_hold_for_numbers_that_are_operands() -> None:
    """The error of a bad value does not depend on how many were seen before it."""
    x = X.to(DEVICE)
    for function, good, bad in (
        (torch.nn.functional.softshrink, REAL, -1.0),
        (lambda x, v: torch.nn.functional.huber_loss(x, x, delta=v), REAL, -0.5),
        (lambda x, v: torch.nn.functional.smooth_l1_loss(x, x, beta=v), REAL, -0.5),
        (lambda x, v: torch.nn.functional.celu(x, v), REAL, 0.0),
        (lambda x, v: x.kthvalue(v, dim=1), [1, 2, 3, 4], 5),
        (lambda x, v: x.kthvalue(v, dim=1), [1, 2, 3, 4], 0),
        (lambda x, v: x.renorm(2, 0, v), REAL, -1.0),
        (lambda x, v: torch.cdist(x, x, v), REAL, -1.0),
        (lambda x, v: torch.randint(v, (3,), device=x.device), [5, 6, 7, 8], 0),
        (lambda x, v: torch.randint(3, v, (3,), device=x.device), [5, 6, 7, 8], 3),
        (lambda x, v: x.clone().random_(v), [5, 6, 7, 8], 0),
        (lambda x, v: x.clone().bernoulli_(v), REAL, 1.5),
        (lambda x, v: x.clone().bernoulli_(v), REAL, float("nan")),
        (lambda x, v: x.clone().normal_(0, v), REAL, -1.0),
        (lambda x, v: x.clone().uniform_(v, 1), REAL, 2.0),
        (lambda x, v: x.clone().exponential_(v), REAL, -1.0),
        (lambda x, v: x.clone().geometric_(v), REAL, 1.0),
        (lambda x, v: x.clone().log_normal_(0, v), REAL, 0.0),
        (lambda x, v: x.clone().cauchy_(0, v), REAL, 0.0),
        (lambda x, v: torch.normal(x, v), REAL, -1.0),
        (lambda x, v: torch.native_dropout(x, v, True), REAL, 1.5),
    ):
        for value in [*good[:1], bad, *good[1:], bad, good[0]]:
            if value is bad:
                with pytest.raises(RuntimeError):
                    function(x, value)
            else:
                function(x, value)


def test_drawn_integers_do_not_depend_on_what_was_drawn_before() -> None:
    def draw(low: int, high: int) -> list[int]:
        torch.manual_seed(7)
        return torch.randint(low, high, (5,), device=DEVICE).tolist()

    first = {bounds: draw(*bounds) for bounds in ((0, 10), (-3, 11))}
    others = [draw(0, high) for high in range(20, 30)] + [draw(0, 2**40), draw(-(2**62), 2**62)]
    assert all(0 <= value < 30 for drawn in others[:10] for value in drawn)
    assert {bounds: draw(*bounds) for bounds in first} == first
    x = torch.empty(5, dtype=torch.int64, device=DEVICE)
    for high in range(40, 45):
        torch.manual_seed(7)
        x.random_(high)
        assert x.tolist() == draw(0, high)


def test_shifts_of_many_kinds() -> None:
    x = X.to(DEVICE)
    for shift in (0, 1, 3, 7, -1, -5, 12, -12, 100):
        assert torch.equal(x.roll(shift).cpu(), X.roll(shift))
        assert torch.equal(x.roll((shift, 2 - shift), (0, 1)).cpu(), X.roll((shift, 2 - shift), (0, 1)))
        assert torch.equal(x[:0].roll(shift, 1).cpu(), X[:0].roll(shift, 1))


def test_norms_of_special_orders() -> None:
    x = torch.tensor([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0]])
    for order in (2, 1, 0, float("inf"), -float("inf"), 3, 0.5, 2.2, 3.3, 4.4, 5.5, 100.0, -2.5):
        want = torch.linalg.vector_norm(x, order, dim=1)
        torch.testing.assert_close(torch.linalg.vector_norm(x.to(DEVICE), order, dim=1).cpu(), want)
    empty = torch.empty(0, device=DEVICE)
    for order in (2.2, 3.3, 4.4, 5.5):
        assert torch.linalg.vector_norm(empty, order).item() == 0
    for order in (-2.2, -3.3, -4.4, float("inf")):
        with pytest.raises((RuntimeError, IndexError)):
            torch.linalg.vector_norm(empty, order)
