"""The op table and the settings of the core, read from libtpj.so through its C API; neither torch nor the package is
imported. The documentation and the tests of the table are made of this."""

import ctypes
import functools
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "python" / "torch_pjrt" / "libtpj.so"

_PARAMETER = re.compile(r'\s*(?P<kind>\S+) (?P<name>\w+)(?:=(?P<default>(?:\[[^\]]*\]|"[^"]*"|[^,\["])*))?\s*(?:,|$)')


@dataclass(frozen=True)
class Parameter:
    """One parameter of a row, in the notation of src/ops/ops.h."""

    kind: str  # "T?[]"
    name: str
    default: str | None


@dataclass(frozen=True)
class Row:
    name: str  # "add.Tensor"
    family: str
    params: str
    layout: str
    writes: tuple[str, ...]
    is_random: bool
    is_sized: bool

    @property
    def parameters(self) -> list[Parameter]:
        found, at = [], 0
        while at < len(self.params):
            match = _PARAMETER.match(self.params, at)
            if match is None:
                raise ValueError(f"{self.name}: cannot read the parameters from {self.params[at:]!r}")
            found.append(Parameter(match["kind"], match["name"], match["default"]))
            at = match.end()
        return found


@dataclass(frozen=True)
class Setting:
    name: str
    environment: str
    kind: str
    default: str
    choices: tuple[str, ...]
    least: int
    greatest: int
    documentation: str


class _Setting(ctypes.Structure):
    """tpj_setting of src/base/config.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("env", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("initial", ctypes.c_char_p),
        ("choices", ctypes.c_char_p),
        ("least", ctypes.c_int64),
        ("greatest", ctypes.c_int64),
        ("doc", ctypes.c_char_p),
    ]


_KINDS = ("string", "choice", "int", "bool")


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    for name in ("name", "params", "family", "layout", "writes"):
        function = getattr(library, f"tpj_op_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    for name in ("is_random", "is_sized"):
        function = getattr(library, f"tpj_op_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_bool
    library.tpj_op_at.argtypes, library.tpj_op_at.restype = [ctypes.c_int], ctypes.c_void_p
    library.tpj_config_setting.argtypes = [ctypes.c_int]
    library.tpj_config_setting.restype = ctypes.POINTER(_Setting)
    return library


def rows() -> list[Row]:
    """All rows, in the order of the table."""
    library = _library()
    found: list[Row] = []
    while (op := library.tpj_op_at(len(found))) is not None:
        writes = (library.tpj_op_writes(op) or b"").decode()
        found.append(
            Row(
                name=library.tpj_op_name(op).decode(),
                family=library.tpj_op_family(op).decode(),
                params=library.tpj_op_params(op).decode(),
                layout=library.tpj_op_layout(op).decode(),
                writes=tuple(word.strip() for word in writes.split(",") if word.strip()),
                is_random=library.tpj_op_is_random(op),
                is_sized=library.tpj_op_is_sized(op),
            )
        )
    return found


def settings() -> list[Setting]:
    """The rows of src/base/config.def."""
    library = _library()
    found = []
    for i in range(library.tpj_config_n_settings()):
        raw = library.tpj_config_setting(i).contents
        found.append(
            Setting(
                name=raw.name.decode(),
                environment=raw.env.decode(),
                kind=_KINDS[raw.kind],
                default=raw.initial.decode(),
                choices=tuple(raw.choices.decode().split("|")) if raw.choices else (),
                least=raw.least,
                greatest=raw.greatest,
                documentation=raw.doc.decode(),
            )
        )
    return found
