"""Reading optimized programs: `Compiled.optimized`, XLA's HloModuleProtoWithConfig, as objects and as text.

Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto; what is not read here is skipped.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

# PrimitiveType of xla_data.proto.
_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2",
    20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2",
    28: "f8e4m3", 29: "f8e3m4", 32: "f4e2m1fn", 33: "f8e8m0fnu",
}  # fmt: skip
_BITS = {"pred": 8, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4, "bf16": 16, "c64": 64, "c128": 128}


def _bits(name: str) -> int:
    if name in _BITS:
        return _BITS[name]
    digits = "".join(c for c in name[1:] if c.isdigit() or c == "e").split("e")[0]
    return int(digits) if digits else 0


# ---- the wire format ------------------------------------------------------------------------------------------------


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in their order: the number, and an integer or bytes. ValueError for what is none."""
    at, end = 0, len(data)
    try:
        while at < end:
            tag, at = _varint(data, at)
            kind = tag & 7
            if kind == 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            elif kind == 2:
                size, at = _varint(data, at)
                if at + size > end:
                    raise IndexError
                yield tag >> 3, data[at : at + size]
                at += size
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                yield tag >> 3, struct.unpack_from("<q" if kind == 1 else "<i", data, at)[0]
                at += size
            else:
                raise IndexError
    except (IndexError, struct.error):
        raise ValueError("not an HLO module: the bytes are damaged") from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _integers(values: list[int | memoryview]) -> list[int]:
    """Of a repeated field, packed or not."""
    result = []
    for value in values:
        if isinstance(value, int):
            result.append(_signed(value))
        else:
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                result.append(_signed(number))
    return result


class _Message:
    def __init__(self, data: memoryview) -> None:
        self.values: dict[int, list[int | memoryview]] = {}
        for number, value in _fields(data):
            self.values.setdefault(number, []).append(value)

    def integer(self, number: int) -> int:
        value = self.values.get(number, [0])[-1]
        return _signed(value) if isinstance(value, int) else 0

    def integers(self, number: int) -> tuple[int, ...]:
        return tuple(_integers(self.values.get(number, [])))

    def bytes(self, number: int) -> bytes:
        value = self.values.get(number, [b""])[-1]
        return b"" if isinstance(value, int) else bytes(value)

    def text(self, number: int) -> str:
        return self.bytes(number).decode(errors="replace")

    def messages(self, number: int) -> "list[_Message]":
        return [_Message(value) for value in self.values.get(number, []) if not isinstance(value, int)]

    def message(self, number: int) -> "_Message":
        found = self.messages(number)
        return found[-1] if found else _Message(memoryview(b""))


# ---- the module -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """An array, or a tuple of shapes. `layout`: the dimensions from the fastest to the slowest, as in `{1,0}`."""

    dtype: str
    sizes: tuple[int, ...] = ()
    layout: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    space: int = 0  # 0: HBM, 1: the chip's fast memory
    parts: "tuple[Shape, ...]" = ()

    @staticmethod
    def read(message: _Message) -> "Shape":
        layout = message.message(5)
        return Shape(
            dtype=_TYPES.get(message.integer(2), f"type{message.integer(2)}"),
            sizes=message.integers(3),
            layout=layout.integers(1),
            tiles=tuple(tile.integers(1) for tile in layout.messages(6)),
            space=layout.integer(8),
            parts=tuple(Shape.read(part) for part in message.messages(4)),
        )

    @property
    def n_elements(self) -> int:
        n = 1
        for size in self.sizes:
            n *= size
        return n

    @property
    def n_bytes(self) -> int:
        """Without the padding of tiles."""
        if self.dtype == "tuple":
            return sum(part.n_bytes for part in self.parts)
        return (self.n_elements * _bits(self.dtype) + 7) // 8

    def __str__(self) -> str:
        if self.dtype == "tuple":
            return f"({', '.join(map(str, self.parts))})"
        text = f"{self.dtype}[{','.join(map(str, self.sizes))}]"
        if self.layout:
            tiles = "".join(f"({','.join(map(str, tile))})" for tile in self.tiles)
            space = f"S({self.space})" if self.space else ""
            extra = f":{'T' + tiles if tiles else ''}{space}" if tiles or space else ""
            text += f"{{{','.join(map(str, self.layout))}{extra}}}"
        return text


@dataclass(frozen=True, eq=False)
class Instruction:
    name: str
    opcode: str  # "fusion", "dot", "convolution", "custom-call", "copy"
    shape: Shape
    id: int
    operand_ids: tuple[int, ...]
    called_ids: tuple[int, ...]
    fusion_kind: str  # "kLoop", "kOutput"
    target: str  # of a custom call
    op_name: str  # of the program before: its location
    file: str
    line: int
    config: bytes = field(repr=False)  # the compiler's own remarks, JSON where it is text
    parameter: int = 0

    @staticmethod
    def read(message: _Message) -> "Instruction":
        metadata = message.message(7)
        return Instruction(
            name=message.text(1),
            opcode=message.text(2),
            shape=Shape.read(message.message(3)),
            id=message.integer(35),
            operand_ids=message.integers(36),
            called_ids=message.integers(38),
            fusion_kind=message.text(11),
            target=message.text(28),
            op_name=metadata.text(2),
            file=metadata.text(3),
            line=metadata.integer(4),
            config=message.bytes(43),
            parameter=message.integer(9),
        )


@dataclass(frozen=True, eq=False)
class Computation:
    name: str
    id: int
    root_id: int
    instructions: tuple[Instruction, ...]

    @staticmethod
    def read(message: _Message) -> "Computation":
        instructions = tuple(Instruction.read(part) for part in message.messages(2))
        return Computation(message.text(1), message.integer(5), message.integer(6), instructions)

    @cached_property
    def by_id(self) -> dict[int, Instruction]:
        return {instruction.id: instruction for instruction in self.instructions}

    @property
    def root(self) -> Instruction:
        return self.by_id[self.root_id]

    def operands(self, instruction: Instruction) -> list[Instruction]:
        return [self.by_id[number] for number in instruction.operand_ids]


@dataclass(frozen=True, eq=False)
class Alias:
    """Result `output` lies where parameter `parameter` lay. An empty output is all of the result."""

    output: tuple[int, ...]
    parameter: int


@dataclass(frozen=True, eq=False)
class Module:
    """`computations` come in dependency order; `entry` is the program, the others are what its instructions call."""

    name: str
    computations: tuple[Computation, ...]
    entry_id: int
    aliases: tuple[Alias, ...]

    @staticmethod
    def parse(data: bytes) -> "Module":
        """From `Compiled.optimized`. ValueError for other bytes."""
        module = _Message(memoryview(data)).message(1)
        computations = tuple(Computation.read(part) for part in module.messages(3))
        if not computations:
            raise ValueError("not an HLO module: it has no computation")
        aliases = tuple(Alias(entry.integers(1), entry.integer(2)) for entry in module.message(8).messages(1))
        return Module(module.text(1), computations, module.integer(6), aliases)

    @cached_property
    def by_id(self) -> dict[int, Computation]:
        return {computation.id: computation for computation in self.computations}

    @property
    def entry(self) -> Computation:
        return self.by_id[self.entry_id]

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All, those inside of fusions and loops too."""
        return (instruction for computation in self.computations for instruction in computation.instructions)

    def called(self, instruction: Instruction) -> list[Computation]:
        return [self.by_id[number] for number in instruction.called_ids]

    def __str__(self) -> str:
        """In the manner of HLO text, with one line for each instruction."""
        lines = [f"HloModule {self.name}"]
        for computation in self.computations:
            entry = "ENTRY " if computation.id == self.entry_id else ""
            lines.append(f"\n{entry}%{computation.name} {{")
            for instruction in computation.instructions:
                operands = [f"%{operand.name}" for operand in computation.operands(instruction)]
                if instruction.opcode == "parameter":
                    operands = [str(instruction.parameter)]
                root = "ROOT " if instruction.id == computation.root_id else ""
                text = f"  {root}%{instruction.name} = {instruction.shape} {instruction.opcode}({', '.join(operands)})"
                if instruction.fusion_kind:
                    text += f", kind={instruction.fusion_kind}"
                if instruction.target:
                    text += f', custom_call_target="{instruction.target}"'
                if instruction.called_ids:
                    text += f", calls={', '.join('%' + called.name for called in self.called(instruction))}"
                if instruction.op_name:
                    text += f', metadata={{op_name="{instruction.op_name}"}}'
                lines.append(text)
            lines.append("}")
        return "\n".join(lines) + "\n"
