"""Ops of the user's own that bring their StableHLO: docs/kernels.md.

    @torch.library.custom_op("mine::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor: ...

    @torch_pjrt.kernels.register_stablehlo(scaled)
    def _(x, factor):
        return f"func.func @main(%x: {x}) -> {x} {{ .. }}"

The op then has a row in the table of ops, as PyTorch's own have: it is compiled and cached one by one, is part of the
programs of torch.compile and of the windows of fused mode, and its errors name it.
"""

import dataclasses
import json
import math
import string
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from torch_pjrt import _C, _pack

__all__ = ["TensorType", "literal", "register_stablehlo"]

Writer = Callable[..., str]
_DTYPES = {name: dtype for dtype, name in _pack.DTYPES.items()}
_ELEMENTS = {
    "bool": "i1",
    "c64": "complex<f32>",
    "c128": "complex<f64>",
    **{f"u{n}": f"ui{n}" for n in (8, 16, 32, 64)},
}
_writers: dict[str, Writer] = {}
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


@dataclasses.dataclass(frozen=True)
class TensorType:
    """What is known of an operand. `str()` is its MLIR type, "tensor<4x8xf32>"."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def element(self) -> str:
        """The MLIR type of an element: "f32", "i1", "ui8", "complex<f32>"."""
        return element(self.dtype)

    def with_shape(self, *shape: int) -> "TensorType":
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: torch.dtype) -> "TensorType":
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"


def element(dtype: torch.dtype) -> str:
    """The MLIR type of a dtype."""
    name = _pack.DTYPES[dtype]
    return _ELEMENTS.get(name) or (f"f8{name[2:].upper()}" if name.startswith("f8") else name)


def literal(value: float, dtype: torch.dtype) -> str:
    """A number as the attribute of a constant: "dense<5.000000e-01>" holds literal(0.5, torch.float32)."""
    if dtype == torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        return str(int(value))
    if math.isfinite(value):
        digits, _, exponent = repr(float(value)).partition("e")
        return (digits if "." in digits else f"{digits}.0") + (f"e{int(exponent):+03d}" if exponent else "")
    bits = torch.tensor(value, dtype=dtype).view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize])
    n = dtype.itemsize
    return f"0x{int(bits.item()) & ((1 << 8 * n) - 1):0{2 * n}X}"


def register_stablehlo(op: Any, text: str | Writer | None = None) -> Any:
    """Give an op of torch.library StableHLO: `text`, or what the decorated function returns.

    `op`: what `torch.library.custom_op` returns, an overload, or a name such as "mine::scaled". A function is called
    with the op's arguments by name once for each kind of call: tensors as TensorType, all others as they are. Text is a
    template (string.Template): `$x` is the type of the operand x, `$x_element` that of its elements, `$k` a number.

    The text holds `func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>`, whose parameters are the op's tensors in their
    order (None left out), with further functions if it calls some; a module around them is ignored.

    Raises ValueError for an op that there is not, or with arguments that are written; RuntimeError for one that has a
    kernel for the device.
    """
    if text is None:
        return lambda function: register_stablehlo(op, function) and function
    overload = _overload(op)
    name = _pack.op_name(overload)
    writer = _template(name, text) if isinstance(text, str) else text
    if name in _writers:
        raise RuntimeError(f"the op {name} has StableHLO already")
    _C.register_kernel(overload._schema.name, overload._schema.overload_name)
    _writers[name] = writer
    return text


def _overload(op: Any) -> OpOverload:
    if isinstance(op, str):
        space, _, rest = op.partition("::")
        packet, _, overload = rest.partition(".")
        try:
            op = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
        except AttributeError:
            raise ValueError(f"there is no op {op!r}: define it with torch.library.custom_op or define") from None
    op = getattr(op, "_opoverload", op)
    if isinstance(op, OpOverloadPacket):
        op = op.default
    if not isinstance(op, OpOverload):
        raise TypeError(f"an op of torch.library or its name is wanted, not {type(op).__name__}")
    if op.namespace == "aten":
        raise ValueError(f"{op} is PyTorch's own op: what it means is not the user's to say")
    return op


def _template(name: str, text: str) -> Writer:
    template = string.Template(text)

    def write(**arguments: Any) -> str:
        values: dict[str, str] = {}
        for key, value in arguments.items():
            values[key] = str(value).lower() if isinstance(value, bool) else str(value)
            if isinstance(value, float):
                values[key] = literal(value, torch.float64)
            if isinstance(value, TensorType):
                values[f"{key}_element"] = value.element
        try:
            return template.substitute(values)
        except KeyError as error:
            raise ValueError(f"the template names {error}, and {name} has {', '.join(arguments)}") from None

    return write


def _write(op: str, arguments: str) -> str:
    """The text for one kind of call; the core asks."""
    given = {name: _value(value) for name, value in json.loads(arguments).items()}
    text = _writers[op](**given)
    if not isinstance(text, str):
        raise TypeError(f"a str is wanted, not {type(text).__name__}")
    return text


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return _SPECIAL[value["float"]]
    dtype = _DTYPES[value["dtype"]]
    return TensorType(dtype, tuple(value["sizes"])) if "sizes" in value else dtype
