"""Targets: which TPU to compile for, "v6e:2x4"."""

import math
import re
from dataclasses import dataclass

from torch_pjrt.aot.chips import CHIPS, Chip

_NAME = re.compile(r"([a-z0-9]+):(\d{1,5}(?:x\d{1,5}){0,2})")
# Of one chip each, as the names are known from Google's documentation and from others.
_ALIASES = {
    "v5litepod": "v5e",
    "v5lite": "v5e",
    "trillium": "v6e",
    "v6lite": "v6e",
    "ironwood": "tpu7x",
    "v7x": "tpu7x",
}


@dataclass(frozen=True)
class Target:
    """A slice of one generation of chips. `grid` has as many sizes as the chips' network has dimensions."""

    chip: Chip
    grid: tuple[int, ...]

    @property
    def name(self) -> str:
        """As libtpu reads it."""
        return f"{self.chip.name}:{'x'.join(map(str, self.grid))}"

    @property
    def n_chips(self) -> int:
        return math.prod(self.grid)

    @property
    def n_devices(self) -> int:
        return self.n_chips * self.chip.devices_per_chip

    @staticmethod
    def parse(text: str) -> "Target":
        """ValueError, which says what is allowed, for what is no target."""
        name = text.strip().lower()
        if ":" not in name:  # "v6e": one chip
            name += ":1x1"
        match = _NAME.fullmatch(name)
        chip = CHIPS.get(_ALIASES.get(match[1], match[1])) if match else None
        if match is None or chip is None:
            raise ValueError(
                f"{text!r} is no target: it is the generation of the chips ({', '.join(CHIPS)}), a colon and their "
                'grid, such as "v6e:2x4" or "v5p:4x4x8"'
            )
        grid = tuple(int(size) for size in match[2].split("x"))
        if len(grid) > chip.dims and set(grid[chip.dims :]) != {1}:
            raise ValueError(f"{text!r} is no target: {chip.name} chips lie in a grid of {chip.dims} dimensions")
        grid = (grid + (1,) * chip.dims)[: chip.dims]
        if 0 in grid or math.prod(grid) > chip.most_chips:
            raise ValueError(
                f"{text!r} is no target: a slice of {chip.name} has 1 to {chip.most_chips} chips, not {math.prod(grid)}"
            )
        return Target(chip, grid)
