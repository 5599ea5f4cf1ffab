"""The sections, in the order in which they run."""

SECTIONS = (
    "ops",
    "errors",
    "out",
    "inplace",
    "noncontiguous",
    "views",
    "empty",
    "strides",
    "modules",
    "optimizers",
    "refs",
    "forward_ad",
    "gradgrad",
    "func",
    "fake",
    "sparse",
    "nested",
    "distributions",
    "compiled",
)
