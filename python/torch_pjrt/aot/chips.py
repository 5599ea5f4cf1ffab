"""What the TPUs can do, by generation. One table; everything that plans or predicts reads it.

Numbers are those of Google's documentation, per chip, at the address that each row names. A chip may show as two
devices to programs (`devices_per_chip`): a device then has its share.
"""

from dataclasses import dataclass

T = 1e12
GIB = 2**30
GB = 1e9

# A float32 matrix product is that many bfloat16 products on the matrix unit: PyTorch's default, "highest", splits each
# number into three of bfloat16 and multiplies six pairs of them, "high" three pairs, "medium" one.
FLOAT32_PRODUCTS = {"highest": 6, "high": 3, "medium": 1}


@dataclass(frozen=True)
class Chip:
    name: str  # as topologies name it, "v6e"
    kind: str  # as devices call it, "TPU v6 lite"
    flops: dict[str, float]  # peak operations a second of matrix products, by the dtype of the operands
    memory_bytes: int  # HBM; the compiler keeps a little of it for itself
    memory_bandwidth: float  # bytes a second
    ici_bandwidth: float  # bytes a second between chips, over all links, both directions together
    ici_links: int  # as many neighbours
    cores: int  # TensorCores
    devices_per_chip: int
    dims: int  # of the grid
    most_chips: int  # of one slice
    source: str

    def peak(self, dtype: str, float32_precision: str = "highest") -> float:
        """Peak flops of a chip for matrix products of `dtype` operands ("bfloat16", "float32", "int8", "float8").

        Others run at float32's rate at best: the matrix unit has no units for them.
        """
        if dtype in self.flops:
            return self.flops[dtype]
        if dtype in ("float16", "float8", "int8"):
            return self.flops["bfloat16"]
        return self.flops["bfloat16"] / FLOAT32_PRODUCTS[float32_precision]


_DOCS = "https://cloud.google.com/tpu/docs/"

CHIPS = {
    chip.name: chip
    for chip in (
        # The page of v4 does not give the links; the one of TPU versions gives 2,400 Gbit/s in one direction.
        Chip(
            name="v4",
            kind="TPU v4",
            flops={"bfloat16": 275 * T, "int8": 275 * T},
            memory_bytes=32 * GIB,
            memory_bandwidth=1200 * GB,
            ici_bandwidth=600 * GB,
            ici_links=6,
            cores=2,
            devices_per_chip=1,
            dims=3,
            most_chips=4096,
            source=_DOCS + "v4",
        ),
        Chip(
            name="v5e",
            kind="TPU v5 lite",
            flops={"bfloat16": 197 * T, "int8": 393 * T},
            memory_bytes=16 * GIB,
            memory_bandwidth=819 * GB,
            ici_bandwidth=400 * GB,
            ici_links=4,
            cores=1,
            devices_per_chip=1,
            dims=2,
            most_chips=256,
            source=_DOCS + "v5e",
        ),
        Chip(
            name="v5p",
            kind="TPU v5",
            flops={"bfloat16": 459 * T, "int8": 918 * T, "float8": 459 * T},
            memory_bytes=95 * GIB,
            memory_bandwidth=2765 * GB,
            ici_bandwidth=1200 * GB,
            ici_links=6,
            cores=2,
            devices_per_chip=1,
            dims=3,
            most_chips=6144,
            source=_DOCS + "v5p",
        ),
        Chip(
            name="v6e",
            kind="TPU v6 lite",
            flops={"bfloat16": 918 * T, "int8": 1836 * T, "float8": 918 * T},
            memory_bytes=32 * GIB,
            memory_bandwidth=1638 * GB,
            ici_bandwidth=800 * GB,
            ici_links=4,
            cores=1,
            devices_per_chip=1,
            dims=2,
            most_chips=256,
            source=_DOCS + "v6e",
        ),
        Chip(
            name="tpu7x",
            kind="TPU7x",
            flops={"bfloat16": 2307 * T, "float8": 4614 * T},
            memory_bytes=192 * GIB,
            memory_bandwidth=7380 * GB,
            ici_bandwidth=1200 * GB,
            ici_links=6,
            cores=2,
            devices_per_chip=2,
            dims=3,
            most_chips=9216,
            source=_DOCS + "tpu7x",
        ),
    )
}
