"""A CompileOptionsProto as the options that `aot.Compiler` takes. The fields are those of src/pjrt/options.c."""

import struct
from collections.abc import Iterator

from torch_pjrt.aot import Options

BUILD, PORTABLE, OVERRIDES = 3, 4, 7
REPLICAS, PARTITIONS, SPMD, ASSIGNMENT, SHARDY, OPTIMIZATION_LEVEL = 4, 5, 6, 9, 19, 24


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields: integers, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 1:
            yield tag >> 3, data[at : at + 8]
            at += 8
        else:
            length, at = _varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length


def _override(entry: bytes) -> tuple[str, str | bool | int | float]:
    parts = dict(fields(entry))
    name, value = parts[1], parts[2]
    assert isinstance(name, bytes) and isinstance(value, bytes)
    kind, content = next(fields(value))
    if kind == 1 and isinstance(content, bytes):
        return name.decode(), content.decode()
    if kind == 4 and isinstance(content, bytes):
        return name.decode(), float(struct.unpack("<d", content)[0])
    assert isinstance(content, int)
    return name.decode(), bool(content) if kind == 2 else content - (content >> 63 << 64)


def _devices(assignment: bytes, n_replicas: int, n_partitions: int) -> tuple[int, ...]:
    """The proto has the replicas of each partition, the options the partitions of each replica."""
    by_partition = [
        [number for field, number in fields(value) if field == 1 and isinstance(number, int)]
        for kind, value in fields(assignment)
        if kind == 3 and isinstance(value, bytes)
    ]
    return tuple(by_partition[p][r] for r in range(n_replicas) for p in range(n_partitions))


def parse_options(proto: bytes) -> Options:
    top = list(fields(proto))
    build = dict(fields(next(value for number, value in top if number == BUILD and isinstance(value, bytes))))

    def number(field: int, default: int = 0) -> int:
        value = build.get(field, default)
        assert isinstance(value, int)
        return value

    n_replicas, n_partitions = number(REPLICAS, 1), number(PARTITIONS, 1)
    assignment = build.get(ASSIGNMENT)
    return Options(
        n_replicas=n_replicas,
        n_partitions=n_partitions,
        use_spmd=bool(number(SPMD)),
        use_shardy=bool(number(SHARDY)),
        device_ids=_devices(assignment, n_replicas, n_partitions) if isinstance(assignment, bytes) else None,
        portable=any(field == PORTABLE and value for field, value in top),
        optimization_level=number(OPTIMIZATION_LEVEL),
        overrides=tuple(_override(value) for field, value in top if field == OVERRIDES and isinstance(value, bytes)),
    )
