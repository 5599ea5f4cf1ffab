"""The sections, in the order in which they run."""

SECTIONS = ("ops",)
