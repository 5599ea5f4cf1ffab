"""FX graphs of ATen ops as the core's textual graphs (docs/graph_text.md).

Python walks and spells; what the ops mean is known to the core alone. Every node must be an overload that has a row.
"""

import math
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from torch_pjrt import _C

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
    torch.float8_e8m0fnu: "f8e8m0fnu",
    torch.complex32: "c32",
}
MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


# Ops whose arguments speak of memory and not of values.
_BY_MEMORY = {
    torch.ops.aten.as_strided.default,
    torch.ops.aten.as_strided_copy.default,
    torch.ops.aten.as_strided_scatter.default,
}
# Higher-order ops, the rows that mean them, and their parameters (src/ops/control.c).
_SCAN = ("scan", ["combine_graph", "init", "xs", "additional"])
_CONTROL: dict[Any, tuple[str, list[str]]] = {
    getattr(torch.ops.higher_order, name): row
    for name, row in {
        "cond": ("cond", ["pred", "true_graph", "false_graph", "operands"]),
        "while_loop": ("while_loop", ["cond_graph", "body_graph", "carried", "additional"]),
        "scan": _SCAN,
        "map_impl": _SCAN,
    }.items()
    if hasattr(torch.ops.higher_order, name)
}
_LONG = 4  # how a schema spells the default of its argument `dtype` where that is torch.int64
# What PyTorch puts into graphs behind the decompositions.
_PRIMS = {"prims.convert_element_type.default", "prims.fma.default"}
_FRESH_COPY = torch.ops.aten.lift_fresh_copy.default
_TORCH_FOLDER = str(Path(torch.__file__).parent)


class Unpackable(Exception):
    """A graph that has no textual form: an op without a row, or an argument that no row takes."""


def op_name(op: OpOverload) -> str:
    """The name that the op table uses: "add.Tensor", "relu" for a default overload, "lib::op" outside of ATen."""
    name = op._schema.name.removeprefix("aten::")
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def has_row(op: Any) -> bool:
    return isinstance(op, OpOverload) and _C.row(op_name(op)) is not None


def has_form(op: Any) -> bool:
    """Whether the packer may be given a node of this op."""
    return op is _FRESH_COPY or str(op) in _PRIMS or op in _CONTROL or has_row(op)


def row_parameters(op: OpOverload) -> list[tuple[str, str]] | None:
    """(kind, name) of the row's parameters, None when there is no row."""
    row = _C.row(op_name(op))
    if row is None:
        return None
    parameters = []
    for parameter in row.split(", ") if row else []:
        kind, name = parameter.split(" ", 1)
        parameters.append((kind, name.split("=", 1)[0]))
    return parameters


def spell_string(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in '"\\' else f"\\x{ord(c):02x}" if c < " " or c == "\x7f" else c for c in text)
    return f'"{escaped}"'


def spell_number(value: complex) -> str:
    """A bool, int, float or complex number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    return f"complex({spell_number(value.real)}, {spell_number(value.imag)})"


def row_major(value: torch.Tensor) -> bool:
    expected = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def dimension_order(value: torch.Tensor) -> list[int] | None:
    """The dimensions as they lie in memory, outermost first; None for row-major or where memory is not dense."""
    if row_major(value):
        return None
    strides = value.stride()
    order = sorted(range(value.dim()), key=lambda d: (-strides[d], d))
    return order if row_major(value.permute(order)) else None


class Packer:
    """Writes the statements of one graph: a node at a time, or a whole FX graph (pack)."""

    def __init__(self, input_statements: str, n_inputs: int, random: int | None = None) -> None:
        """`random`: the number of the input that is the random state, for ops that ask for it by name."""
        self._random = random
        self.typed: set[fx.Node] = set()  # nodes whose results' types the text says
        self.lines = [input_statements.rstrip("\n")] if input_statements.strip() else []
        self._next = n_inputs
        self._names: dict[Any, str] = {}

    def pack(self, graph: fx.Graph, inputs: Sequence[int], constants: Any = None) -> str:
        """`inputs[i]` is the number of the input that placeholder i stands for; `constants` owns get_attr targets."""
        placeholders = iter(inputs)
        for node in graph.nodes:
            if node.op == "placeholder":
                self.add_input(node, next(placeholders))
            elif node.op == "get_attr":
                self.add_constant(node, getattr(constants, node.target))
            elif node.op == "call_function":
                self.add_call(node)
            elif node.op == "output":
                for value in _flatten(node.args[0]):
                    self.add_return(value)
            else:
                raise Unpackable(f"{node.op} {node.target}")
        return "\n".join(["graph {", *self.lines, "}"]) + "\n"

    def add_input(self, node: fx.Node, number: int) -> None:
        self._names[node] = f"%{number}"

    def add_constant(self, node: fx.Node, value: Any) -> None:
        """A number in a CPU tensor; other constants have to be inputs."""
        self._names[node] = self._constant(value)

    def reference(self, node: fx.Node) -> tuple[int, int]:
        """The number of a value's definition, and which of its results it is."""
        number, _, result = self._names[node].removeprefix("%").partition(":")
        return int(number), int(result or 0)

    def _number(self) -> str:
        name = f"%{self._next}"
        self._next += 1
        return name

    def add_call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source, index = node.args
            self._names[node] = f"{self._names[source]}:{index}"
            return
        if node.target in _CONTROL:
            self._add_control(node)
            return
        if not isinstance(node.target, OpOverload):
            raise Unpackable(f"{node.target} is no op")
        op = node.target
        if str(op) in _PRIMS:
            self._add_prim(node, str(op))
            return
        parameters = row_parameters(op)
        if parameters is None:
            if op is _FRESH_COPY:  # a value is never changed, so it needs no copy
                self._names[node] = self._names[node.args[0]]
                return
            raise Unpackable(f"{op} has no row")
        if node.all_input_nodes and _C.is_sized(op_name(op)):  # what arange is given says its size
            raise Unpackable("the sizes of its results depend on data")
        given: dict[str, Any] = {argument.name: argument.default_value for argument in op._schema.arguments}
        given |= zip(given, node.args, strict=False)
        given |= node.kwargs
        if any(map(_is_mask, _flatten(given.get("indices")))) and "index" in op_name(op):
            raise Unpackable("an index by a mask names as many elements as are true")
        tensors = [value for value in _flatten(list(given.values())) if isinstance(value, fx.Node)]
        ready = {"self": self._as_memory(op, given["self"])} if op in _BY_MEMORY else {}
        spelled = [
            f"{name}={ready.get(name) or self._argument(kind, given[name], tensors)}"
            for kind, name in parameters
            if name in given
        ]
        self._define(node, f"{op_name(op)}({', '.join(spelled)})")

    def _add_control(self, node: fx.Node) -> None:
        """A higher-order op: its graphs are texts among the arguments."""
        name, parameters = _CONTROL[node.target]
        values: list[Any] = list(node.args)
        if name == "scan" and node.target is not torch.ops.higher_order.scan:  # map has no state
            values.insert(1, ())
        spelled = [f"{p}={self._control_argument(v)}" for p, v in zip(parameters, values, strict=True)]
        self._define(node, f"{name}({', '.join(spelled)})")

    def _control_argument(self, value: Any) -> str:
        graph = value.meta.get("val") if isinstance(value, fx.Node) else None
        if isinstance(graph, fx.GraphModule):
            return spell_string(nested_text(graph))
        if isinstance(value, (list, tuple)):
            if not all(isinstance(x, fx.Node) and isinstance(x.meta.get("val"), torch.Tensor) for x in value):
                raise Unpackable("a number that goes into a graph of control flow")
            return f"[{', '.join(self._names[x] for x in value)}]"
        return self._argument("T", value, [])

    def _add_prim(self, node: fx.Node, name: str) -> None:
        values = [
            self._argument("T", value, node.all_input_nodes) for value in node.args if name == "prims.fma.default"
        ]
        if values:
            product = self._number()
            self.lines.append(f"  {product} = mul.Tensor(self={values[0]}, other={values[1]})")
            self._define(node, f"add.Tensor(self={product}, other={values[2]})")
        else:
            dtype: Any = node.args[1]
            self._define(node, f"_to_copy(self={self._names[node.args[0]]}, dtype={_dtype(dtype)}, memory_format=none)")

    def _define(self, node: fx.Node, call: str) -> None:
        name = self._number()
        self._names[node] = name
        types = f" : {_types(node)}" if node in self.typed else ""
        self.lines.append(f"  {name} = {call}{types}{_location(node)}")

    def _as_memory(self, op: OpOverload, node: fx.Node) -> str:
        """The value whose row-major order is the order in which `node` lies in memory."""
        value = node.meta["val"]
        order = dimension_order(value)
        if value.storage_offset() != 0 or not (row_major(value) or order):
            raise Unpackable("strides over memory that has holes")
        if order is None:
            return self._names[node]
        if op is torch.ops.aten.as_strided_scatter.default:
            raise Unpackable("a write by strides into memory that is not row-major")
        name = self._number()
        self.lines.append(f"  {name} = permute(self={self._names[node]}, dims={order})")
        return name

    def _argument(self, kind: str, value: Any, tensors: list[fx.Node]) -> str:
        if kind == "G" and self._random is not None:
            return f"%{self._random}"
        if value is None:
            return "none"
        if kind.startswith("D") and value == _LONG:
            return "i64"
        if isinstance(value, fx.Node):
            given = value.meta.get("val")
            runs = isinstance(given, (int, float, torch.SymFloat)) and (_runs(kind) or kind.startswith("T"))
            if not isinstance(given, torch.Tensor) and not runs:
                raise Unpackable(f"{value} is no tensor")
            return self._names[value]
        if isinstance(value, (list, tuple)):
            element = kind.replace("[]", "").rstrip("?") if "[]" in kind else kind
            if element == "F":
                value = [float(x) for x in value]
            return f"[{', '.join(self._argument(element, x, tensors) for x in value)}]"
        if isinstance(value, (bool, int, float, complex)):
            return self._literal_tensor(value, tensors) if kind.startswith("T") else spell_number(value)
        if isinstance(value, torch.dtype):
            return _dtype(value)
        if isinstance(value, torch.memory_format):
            return str(MEMORY_FORMATS[value])
        if isinstance(value, str):
            return spell_string(value)
        raise Unpackable(f"an argument of type {type(value).__name__}")

    def _literal_tensor(self, value: complex, tensors: list[fx.Node]) -> str:
        """A number where the op takes a tensor: of rank 0, in the dtype that it counts as beside the other operands."""
        dtype = torch.tensor(value).dtype
        for node in tensors:
            if isinstance(node.meta.get("val"), torch.Tensor):
                dtype = torch.result_type(node.meta["val"], value)
                break
        return self._full(value, dtype)

    def _full(self, value: complex, dtype: torch.dtype) -> str:
        name = self._number()
        self.lines.append(f"  {name} = full(size=[], fill_value={spell_number(value)}, dtype={_dtype(dtype)})")
        return name

    def _constant(self, value: Any) -> str:
        if not isinstance(value, torch.Tensor) or value.dim() != 0 or value.is_meta or value.device.type != "cpu":
            raise Unpackable("a constant tensor")
        return self._full(value.item(), value.dtype)

    def add_return(self, value: Any, ordered: bool = True) -> None:
        meta = value.meta.get("val") if isinstance(value, fx.Node) else None
        if not isinstance(meta, torch.Tensor):
            raise Unpackable(f"a result that is no tensor: {value}")
        order = dimension_order(meta) if ordered else None
        suffix = "" if order is None else f" order={order}"
        self.lines.append(f"  return {self._argument('T', value, [])}{suffix}")


def nested_text(module: fx.GraphModule) -> str:
    """A graph inside of another one: its inputs are arrays, it draws no random numbers, and the text says its results'
    types."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    inputs = "".join(f"  %{i} = input {_types(node)}\n" for i, node in enumerate(placeholders))
    packer = Packer(inputs, len(placeholders))
    returned = list(_flatten(module.graph.output_node().args[0]))
    for node in returned:
        while isinstance(node, fx.Node) and node.target in (operator.getitem, _FRESH_COPY):
            node = node.args[0]
        packer.typed.add(node)
    for i, node in enumerate(placeholders):
        packer.add_input(node, i)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = getattr(module, str(node.target))
            if isinstance(value, fx.GraphModule):
                node.meta["val"] = value
            else:
                packer.add_constant(node, value)
        elif node.op == "call_function":
            if isinstance(node.target, OpOverload) and _C.is_random(op_name(node.target)):
                raise Unpackable("random numbers in a graph of control flow")
            packer.add_call(node)
    for node in returned:
        packer.add_return(node, ordered=False)
    return "\n".join(["graph {", *packer.lines, "}"]) + "\n"


def _is_mask(index: Any) -> bool:
    value = index.meta.get("val") if isinstance(index, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


def _types(node: fx.Node) -> str:
    """ "f32[2, 3], none": the types of a node's results."""
    spelled = []
    for value in _flatten(node.meta.get("val")):
        if value is not None and not isinstance(value, torch.Tensor):
            raise Unpackable(f"{node} is no tensor")
        spelled.append("none" if value is None else f"{_dtype(value.dtype)}{list(value.shape)}")
    return ", ".join(spelled)


def _runs(kind: str) -> bool:
    """Whether a parameter takes a number that is given at run time (docs/graph_text.md)."""
    return (kind.startswith(("S", "f")) and not kind.startswith(("Str", "S!"))) or "~" in kind


def _dtype(dtype: torch.dtype) -> str:
    if dtype not in DTYPES:
        raise Unpackable(f"dtype {dtype}")
    return DTYPES[dtype]


def _flatten(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _flatten(element)
    else:
        yield value


def user_line(node: fx.Node) -> tuple[str, str] | None:
    """File and line, from the stack that tracing recorded: its last frame outside of PyTorch."""
    stack = node.meta.get("stack_trace") or ""
    frames = [line.strip() for line in stack.splitlines() if line.strip().startswith('File "')]
    if not frames:
        return None
    own = [frame for frame in frames if not frame.startswith(f'File "{_TORCH_FOLDER}')]
    file, _, rest = (own or frames)[-1].removeprefix('File "').partition('", line ')
    line = rest.split(",", 1)[0]
    return (file, line) if line.isdigit() else None


def _location(node: fx.Node) -> str:
    found = user_line(node)
    return f" @ {spell_string(found[0])}:{found[1]}" if found else ""
