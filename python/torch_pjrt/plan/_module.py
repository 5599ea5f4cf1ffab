"""What a StableHLO module says of its program: operations, the user's lines, flops. The text is that of src/hlo."""

import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_FUNCTION = re.compile(r"function_type = \((.*?)\) -> \((.*?)\), sym_name")
_TYPE = re.compile(r"tensor<((?:\d+x)*)([^<>]+(?:<[^<>]*>)?)>")
_LOCATION = re.compile(r'^#(loc\d+) = loc\("([^"]*)"(?:\("((?:[^"\\]|\\.)*)":(\d+):\d+\))?', re.M)
_OP = re.compile(r'^%\S+(?: = |, .*? = |:\d+ = )"([^"]+)"', re.M)
_USED = re.compile(r"loc\(#(loc\d+)\)")
_DOT = re.compile(
    r'"stablehlo\.dot_general"\(.*?lhs_contracting_dimensions = \[([\d, ]*)\].*?: '
    r"\((tensor<[^()]*?>), (tensor<[^()]*?>)\) -> (tensor<[^()]*?>)(?: loc|$)",
    re.M,
)
_CONVOLUTION = re.compile(
    r'"stablehlo\.convolution"\(.*?x\[([^\]]*)\]->.*?: '
    r"\((tensor<[^()]*?>), (tensor<[^()]*?>)\) -> (tensor<[^()]*?>)(?: loc|$)",
    re.M,
)
_PRECISION = re.compile(r"#stablehlo<precision (\w+)>")
_PRECISIONS = {"HIGHEST": "highest", "HIGH": "high", "DEFAULT": "medium"}
_DTYPES = {
    "f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64", "i8": "int8", "ui8": "int8",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    op: str
    file: str
    line: int


@dataclass(frozen=True)
class Summary:
    """`flops`: of matrix products and convolutions, two for a multiplication with its addition, by the dtype of the
    operands and the precision ("float32", "highest"). Those in loops count once, which `has_loop` says."""

    signature: str
    n_ops: int
    lines: tuple[Line, ...]  # by how many instructions they account for, most first
    flops: dict[tuple[str, str], float]
    has_loop: bool

    @property
    def total_flops(self) -> float:
        return sum(self.flops.values())

    @property
    def name(self) -> str:
        """ "mm", or "mul.Tensor, add.Tensor and 14 more"."""
        names = list(dict.fromkeys(line.op for line in self.lines))
        if len(names) <= 2:
            return ", ".join(names) or "copy"
        return f"{', '.join(names[:2])} and {len(names) - 2} more"


def without_locations(module: str) -> str:
    """The module up to its locations: what decides what it does."""
    end = module.find("\n#loc")
    return module if end < 0 else module[: end + 1]


def shape(text: str) -> tuple[list[int], str]:
    """ "tensor<4x8xf32>": ([4, 8], "f32")."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no tensor type")
    return [int(size) for size in match[1].split("x")[:-1]], match[2]


def signature(module: str) -> tuple[list[str], list[str]]:
    """The types of arguments and results: "tensor<4x8xf32>"."""
    match = _FUNCTION.search(module)
    if match is None:
        return [], []
    return [m[0] for m in _TYPE.finditer(match[1])], [m[0] for m in _TYPE.finditer(match[2])]


def _flops(body: str) -> dict[tuple[str, str], float]:
    total: Counter[tuple[str, str]] = Counter()

    def add(text: str, dtype: str, n: float) -> None:
        precision = _PRECISION.search(text)
        name = _DTYPES.get(dtype, "float32")
        exact = _PRECISIONS.get(precision[1], "medium") if precision and name == "float32" else ""
        total[name, exact or ("medium" if name == "float32" else "")] += n  # type: ignore[assignment]

    for match in _DOT.finditer(body):
        sizes, dtype = shape(match[2])
        contracted = math.prod(sizes[int(at)] for at in match[1].split(",") if at.strip())
        add(match[0], dtype, 2.0 * math.prod(shape(match[4])[0]) * contracted)
    for match in _CONVOLUTION.finditer(body):
        kernel, dtype = shape(match[3])
        outputs = kernel[[at.strip() for at in match[1].split(",")].index("o")]
        add(match[0], dtype, 2.0 * math.prod(shape(match[4])[0]) * math.prod(kernel) / max(outputs, 1))
    return dict(total)


@functools.lru_cache(4096)
def summarize(module: str) -> Summary:
    body = without_locations(module)
    places = {match[1]: Line(match[2], match[3] or "", int(match[4] or 0)) for match in _LOCATION.finditer(module)}
    used = Counter(places[name] for name in _USED.findall(body) if name in places)
    arguments, results = signature(module)
    return Summary(
        signature=f"({', '.join(map(short, arguments))}) -> ({', '.join(map(short, results))})",
        n_ops=len(_OP.findall(body)),
        lines=tuple(line for line, _ in used.most_common()),
        flops=_flops(body),
        has_loop='"stablehlo.while"' in body,
    )


def short(text: str) -> str:
    """ "tensor<4x8xf32>" as "f32[4, 8]"."""
    sizes, dtype = shape(text)
    return f"{dtype}[{', '.join(map(str, sizes))}]"


def difference(new: str, old: str) -> str:
    """Why `new` is another program than `old`: what of the signature differs, or that only constants do."""
    sides: Sequence[tuple[str, list[str], list[str]]] = tuple(
        zip(("argument", "result"), signature(new), signature(old), strict=True)
    )
    for what, ours, theirs in sides:
        if len(ours) != len(theirs):
            return f"{len(ours)} {what}s instead of {len(theirs)}"
        changed = [
            f"{what} {at}: {short(b)} became {short(a)}"
            for at, (a, b) in enumerate(zip(ours, theirs, strict=True))
            if a != b
        ]
        if changed:
            return "; ".join(changed[:2]) + (f" and {len(changed) - 2} more" if len(changed) > 2 else "")
    return "the same types: a constant of the program changed (a Python number, a size or the offset of a view)"
