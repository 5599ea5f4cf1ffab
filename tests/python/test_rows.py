"""The op table (src/ops) against PyTorch's schemas: names, parameters, kinds and defaults; which rows are reached."""

import functools
from typing import Any

import optable
import torch

# Control flow is no overload of ATen: PyTorch's higher-order ops have no schemas.
ROWS = [row for row in optable.rows() if row.family != "control"]

# The JIT's name of an argument's type, and the kinds of src/ops/ops.h that may carry it.
KINDS = {
    "Tensor": {"T"},
    "Optional[Tensor]": {"T?"},
    "List[Tensor]": {"T[]"},
    "List[Optional[Tensor]]": {"T?[]"},
    "int": {"I"},
    "Optional[int]": {"I?"},
    "List[int]": {"I[]", "I[]?"},  # int[2] takes one number, and some ops read an empty list as none
    "Optional[List[int]]": {"I[]?"},
    "bool": {"B"},
    "Optional[bool]": {"B?"},
    "List[bool]": {"B[]"},
    "float": {"F", "f"},
    "Optional[float]": {"F?", "f?"},
    "List[float]": {"F[]"},
    "Optional[List[float]]": {"F[]?"},
    "number": {"S", "S!"},
    "Optional[number]": {"S?", "S!?"},
    "List[number]": {"S[]", "S![]"},
    "str": {"Str"},
    "Optional[str]": {"Str?"},
    "ScalarType": {"D"},
    "Optional[ScalarType]": {"D?"},
    "Optional[MemoryFormat]": {"M", "M?"},  # absent is a value of M
    "Optional[Generator]": {"G"},  # None is the device's own generator
}

# Arguments whose schema says Tensor and which derivative formulas call with undefined tensors.
UNDEFINED = {
    ("_native_batch_norm_legit_functional", "running_mean"),
    ("_native_batch_norm_legit_functional", "running_var"),
    ("_scaled_dot_product_fused_attention_overrideable_backward", "attn_bias"),
    ("_scaled_dot_product_fused_attention_overrideable_backward", "philox_seed"),
}

# Arguments of schemas that no result depends on, or that the glue has dealt with before the row.
WITHOUT_INFLUENCE = {
    "layout": "always strided",
    "device": "where the program runs",
    "pin_memory": "of host memory",
    "non_blocking": "every launch is asynchronous",
    "check_errors": "the info result is returned, and its reader raises",
    "sparse_grad": "for the formula of the gradient",
    "sparse": "for the formula of the gradient",
}
WITHOUT_INFLUENCE_IN = {
    ("embedding", "padding_idx"): "for the formula of the gradient",
    ("embedding", "scale_grad_by_freq"): "for the formula of the gradient",
    ("expand", "implicit"): "of functorch's batching",
    ("_reshape_alias", "stride"): "follows from the size",
    ("repeat_interleave.Tensor", "output_size"): "a hint",
    ("_scaled_mm", "use_fast_accum"): "a hint",
    ("_index_put_impl", "unsafe"): "a hint",
    ("max_unpool3d", "stride"): "follows from the size",
    ("max_unpool3d", "padding"): "follows from the size",
    ("_cummax_helper", "values"): "written: the result",
    ("_cummax_helper", "indices"): "written: the result",
    ("_cummin_helper", "values"): "written: the result",
    ("_cummin_helper", "indices"): "written: the result",
    ("_scaled_dot_product_fused_attention_overrideable", "return_debug_mask"): "the mask is not made",
    ("_scaled_dot_product_fused_attention_overrideable_backward", "cum_seq_q"): "of nested tensors",
    ("_scaled_dot_product_fused_attention_overrideable_backward", "cum_seq_k"): "of nested tensors",
    ("_scaled_dot_product_fused_attention_overrideable_backward", "max_q"): "of nested tensors",
    ("_scaled_dot_product_fused_attention_overrideable_backward", "max_k"): "of nested tensors",
    ("_scaled_dot_product_fused_attention_overrideable_backward", "philox_offset"): "the seed holds the mask's state",
}

# PyTorch composes these where a device has no kernel (CompositeImplicitAutograd), and has a gradient formula for them where
# it has one: our kernel takes nothing away.
COMPOSED_WITH_FORMULA = {"_fused_rms_norm", "silu_backward", "mish_backward"}


def in_place(name: str) -> str:
    base, dot, overload = name.partition(".")
    return f"{base}_{dot}{overload}"


@functools.cache
def schemas() -> dict[str, Any]:
    return {
        schema.name.removeprefix("aten::") + ("." + schema.overload_name if schema.overload_name else ""): schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
    }


def schema_of(row: optable.Row) -> Any:
    """That of the overload that the row is named after; a few ops exist in place only (bernoulli_.float)."""
    return schemas().get(row.name) or schemas().get(in_place(row.name))


def test_names() -> None:
    assert len(ROWS) > 600
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names)), "two rows of one name"
    assert not [row.name for row in ROWS if schema_of(row) is None], "no such overload"


def test_parameters_are_the_schemas_in_its_order() -> None:
    wrong = []
    for row in ROWS:
        arguments = [argument.name for argument in schema_of(row).arguments]
        named = [parameter.name for parameter in row.parameters]
        if [name for name in arguments if name in named] != named:
            wrong.append(f"{row.name}: {named}, the schema has {arguments}")
    assert not wrong, "\n".join(wrong)


def test_kinds() -> None:
    wrong = []
    for row in ROWS:
        arguments = {argument.name: argument for argument in schema_of(row).arguments}
        for parameter in row.parameters:
            kind = str(arguments[parameter.name].real_type)
            allowed = KINDS.get(kind, set())
            if (row.name, parameter.name) in UNDEFINED:
                allowed = {"T?"}
            if (
                parameter.kind.replace("~", "").replace("^", "") not in allowed
            ):  # I~, S~ and S^ are about when the value is given
                wrong.append(f"{row.name}: {parameter.kind} {parameter.name}, the schema has {kind}")
    assert not wrong, "\n".join(wrong)


def same_default(parameter: optable.Parameter, value: Any) -> bool:
    text = parameter.default or ""
    if parameter.kind == "D?":  # the op's own choice, where the schema names a dtype
        return text == "None"
    if value is None or isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, str):
        return text.strip('"') == value
    if isinstance(value, list):
        return text == str(value)
    return float(text) == float(value)


def test_defaults() -> None:
    wrong = []
    for row in ROWS:
        arguments = {argument.name: argument for argument in schema_of(row).arguments}
        for parameter in row.parameters:
            argument = arguments[parameter.name]
            if parameter.default is None or not argument.has_default_value():
                continue
            if not same_default(parameter, argument.default_value):
                wrong.append(
                    f"{row.name}: {parameter.name}={parameter.default}, the schema has {argument.default_value}"
                )
    assert not wrong, "\n".join(wrong)


def test_no_argument_is_forgotten() -> None:
    forgotten = []
    for row in ROWS:
        named = {parameter.name for parameter in row.parameters}
        for argument in schema_of(row).arguments:
            known = argument.name in WITHOUT_INFLUENCE or (row.name, argument.name) in WITHOUT_INFLUENCE_IN
            generator = argument.name == "generator"  # a row that draws finds its state without being told
            if argument.name not in named and not known and not (generator and row.is_random):
                forgotten.append(f"{row.name}: {argument.name}")
    assert not forgotten, "\n".join(forgotten)


def test_the_exceptions_exist() -> None:
    rows = {row.name: row for row in ROWS}
    for name, argument in [*UNDEFINED, *WITHOUT_INFLUENCE_IN]:
        assert argument in [a.name for a in schema_of(rows[name]).arguments], f"{name}: {argument}"
    assert rows.keys() >= COMPOSED_WITH_FORMULA


def test_written_arguments_exist() -> None:
    for row in ROWS:
        assert set(row.writes) <= {parameter.name for parameter in row.parameters}, row.name


def test_rows_that_take_a_generator_draw() -> None:
    for row in ROWS:
        if any(parameter.kind == "G" for parameter in row.parameters):
            assert row.is_random, row.name


def test_no_composite_op_is_overridden() -> None:
    """A kernel at PrivateUse1 for an op that PyTorch composes would take its gradient away, unless PyTorch has a formula for
    the op itself. One that returns no tensor has none."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    assert len(registered) > 1000
    overridden = {
        name.removeprefix("aten::")
        for name in registered
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        and any("Tensor" in str(result.type) for result in schemas()[name.removeprefix("aten::")].returns)
    }
    assert overridden == COMPOSED_WITH_FORMULA | {"choose_qparams_optimized"}  # reads memory, and has no formula
    for name in COMPOSED_WITH_FORMULA:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Autograd")
