"""A file of StableHLO modules, each once, and of the cases that made them."""

import hashlib
import math
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOCATIONS = "\n#loc"
ATTRIBUTES = re.compile(r"arg_attrs = \[(.*?)\], function_type")
TYPES = re.compile(r"function_type = \((.*?)\) -> ")
TENSOR = re.compile(r"tensor<([^<>]*(?:<[^<>]*>)?)>")


@dataclass(frozen=True)
class Module:
    digest: str
    op: str  # the row that made it, "add.Tensor"; "graph" and "window" for several
    case: str  # where it was seen first: "ops: nn.functional.gelu bfloat16"
    code: str

    @property
    def source(self) -> str:
        return self.case.split(": ")[0]

    @property
    def donated_bytes(self) -> int:
        """Of the arguments whose memory a result is to take, without the padding of tiles."""
        attributes, types = ATTRIBUTES.search(self.code), TYPES.search(self.code)
        if attributes is None or types is None:
            return 0
        donated = ["tf.aliasing_output" in part for part in re.findall(r"\{([^{}]*)\}", attributes[1])]
        return sum(
            n_bytes(type) for type, is_donated in zip(TENSOR.findall(types[1]), donated, strict=True) if is_donated
        )


def n_bytes(type: str) -> int:
    """Of "4x8xf32"; a complex has two parts, and a bool a byte."""
    shape = re.fullmatch(r"((?:\d+x)*)(.+)", type)
    assert shape is not None, type
    sizes, element = shape[1].split("x")[:-1], shape[2]
    number = re.search(r"\d+", element)
    bits = 8 if element == "i1" or number is None else int(number[0])
    return -(-math.prod(map(int, sizes)) * bits // 8) * (2 if element.startswith("complex") else 1)


def without_locations(code: str) -> str:
    """They come last in a module and decide nothing."""
    end = code.find(LOCATIONS)
    return code if end < 0 else code[: end + 1]


class Modules:
    """Several processes may add to one file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=120, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS module "
            "(digest TEXT PRIMARY KEY, op TEXT NOT NULL, first_case TEXT NOT NULL, code TEXT NOT NULL)"
        )

    def add(self, op: str, case: str, code: str) -> None:
        short = without_locations(code)
        digest = hashlib.sha256(short.encode()).hexdigest()
        self._connection.execute("INSERT OR IGNORE INTO module VALUES (?, ?, ?, ?)", (digest, op, case, code))

    def take_dumped(self, folder: Path, case: str) -> int:
        """Move what TORCH_PJRT_DUMP_DIR has received into the file: NNNNNN_op.mlir. How many there were."""
        n = 0
        for path in sorted(folder.glob("*.mlir")):
            self.add(path.stem.split("_", 1)[1], case, path.read_text())
            path.unlink()
            n += 1
        return n

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT COUNT(*) FROM module").fetchone()[0])

    def __iter__(self) -> Iterator[Module]:
        query = "SELECT digest, op, first_case, code FROM module ORDER BY digest"
        return (Module(*row) for row in self._connection.execute(query))
