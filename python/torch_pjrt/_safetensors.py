"""The safetensors format (https://github.com/huggingface/safetensors, "Format"), for packages: files that its own
library reads, without needing it. A dtype that the format has no name for is kept as its bytes, U8 of one dimension."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.complex64: "C64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_ALIGNMENT = 8


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """The widest elements first, so that all are aligned, as the format's own library has them."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    end = 0
    for name in order:
        value = tensors[name]
        n_bytes = value.numel() * value.element_size()
        known = _NAMES.get(value.dtype)
        header[name] = {
            "dtype": known or "U8",
            "shape": list(value.shape) if known else [n_bytes],
            "data_offsets": [end, end + n_bytes],
        }
        end += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for name in order:
            flat = tensors[name].detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
            if flat.numel():
                file.write(flat.view(torch.uint8).numpy().data)


def parse(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a file, on the CPU. ValueError where the bytes are no such file."""
    n_header = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else len(data)
    if n_header > len(data) - 8:
        raise ValueError("the header is longer than the file")
    header = json.loads(data[8 : 8 + n_header])
    owned = bytearray(data[8 + n_header :])  # tensors are writable
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = _DTYPES[entry["dtype"]]
        if begin == end:
            found[name] = torch.empty(entry["shape"], dtype=dtype)
        else:
            part = torch.frombuffer(owned, dtype=torch.uint8, count=end - begin, offset=begin)
            found[name] = part.clone().view(dtype).reshape(entry["shape"])
    return found
