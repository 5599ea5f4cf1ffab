"""What users may ask of the backend: torch.compile's `options=` and `mode=`. docs/compile.md lists them."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Modes that PyTorch knows, as options. A run is one launch already, which is all that "reduce-overhead" asks for.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"optimization_level": 3},
    "max-autotune-no-cudagraphs": {"optimization_level": 3},
}
_EFFORTS = {None: 0, 0: 9, 1: 19, 2: 29, 3: 39}  # ExecutionOptions.EffortLevel of XLA's xla.proto


@dataclasses.dataclass(frozen=True)
class Options:
    """`optimization_level`: XLA's effort, 0 to 3, None for the plugin's own. `compiler_options`: XLA's debug options by
    name. `precision` of float32 products: "highest", "high" or "default", None for PyTorch's setting. `cuts`: whether a
    graph may be cut where a node cannot be in a program. `dump_dir`: a folder for the graphs and their StableHLO.
    `name`: what the programs are called there and in messages. `buckets`: what sizes that change are padded to,
    "powers" of two, multiples of an int, or a list of sizes and then multiples of the last; "exact": not at all."""

    optimization_level: int | None = None
    compiler_options: Mapping[str, str | int | float | bool] = dataclasses.field(default_factory=dict)
    precision: str | None = None
    cuts: bool = True
    dump_dir: str | None = None
    name: str = "graph"
    buckets: str | int | Sequence[int] = "powers"

    def __post_init__(self) -> None:
        _check("optimization_level", self.optimization_level, _EFFORTS)
        _check("precision", self.precision, (None, "highest", "high", "default"))
        for name, value in self.compiler_options.items():
            if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
                raise TypeError(f"compiler_options: {name!r}: {value!r} is no str, bool, int or float by name")
        if not isinstance(self.cuts, bool):
            raise TypeError(f"option 'cuts' is a bool, not {self.cuts!r}")
        _check_buckets(self.buckets)
        if self.dump_dir is not None:
            Path(self.dump_dir).mkdir(parents=True, exist_ok=True)

    @property
    def effort(self) -> int:
        return _EFFORTS[self.optimization_level]

    def key(self) -> str:
        """Tells options apart; in order."""
        shown = {**dataclasses.asdict(self), "compiler_options": sorted(self.compiler_options.items())}
        return repr(sorted(shown.items()))

    def bucket(self, size: int) -> int:
        """The size that one of `size` elements is padded to."""
        if self.buckets == "powers":
            return 1 << max(size - 1, 0).bit_length()
        step: Any = self.buckets
        if not isinstance(step, int):
            sizes: list[Any] = sorted(step)
            for one in sizes:
                if size <= one:
                    return int(one)
            step = sizes[-1]
        return -(-size // step) * step

    def dump(self, name: str, suffix: str, text: str) -> None:
        """Write a file beside the StableHLO of a program, if the user wants files."""
        if self.dump_dir is not None:
            Path(self.dump_dir, name + suffix).write_text(text)


def read(mode: str | None, options: Mapping[str, Any] | None) -> Options:
    """Raises ValueError with the nearest name for one that there is not, and for a value that no option has."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in options or {}:
        if name not in known:
            raise ValueError(f"there is no option {name!r}{_nearest(name, known)}; there are {', '.join(known)}")
    if mode is not None and mode not in MODES:
        raise ValueError(f"there is no mode {mode!r}{_nearest(mode, MODES)}; there are {', '.join(MODES)}")
    return Options(**{**MODES[mode or "default"], **(options or {})})


def _check(name: str, value: Any, allowed: Iterable[Any]) -> None:
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"option {name!r} is one of {', '.join(map(repr, allowed))}, not {value!r}")


def _check_buckets(buckets: Any) -> None:
    sizes = [buckets] if isinstance(buckets, int) else buckets
    if buckets in ("powers", "exact"):
        return
    fits = isinstance(sizes, Sequence) and len(sizes) > 0 and not isinstance(sizes, str)
    if not fits or not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise ValueError(f"option 'buckets' is 'powers', 'exact', a size or a list of sizes, not {buckets!r}")


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(str(name), known, 1, 0.4)
    return f", did you mean {found[0]!r}?" if found else ""
