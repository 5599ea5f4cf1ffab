"""sparse: the operators that PyTorch's database gives samples of sparse operands for, COO and CSR."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from conformance.compare import agree, to_device
from conformance.harness import Case, Mismatch, NoSample
from conformance.opinfos import Call, dtype_name, is_random, name_of, spread

SAMPLES = 4
DTYPES = (torch.float32, torch.int64, torch.complex64)
LAYOUTS = {"coo": torch.sparse_coo, "csr": torch.sparse_csr}


def dense(tree: Any) -> Any:
    """Sparse results as dense ones and their layout: where they name zeros is free."""

    def one(t: torch.Tensor) -> Any:
        return t if t.layout == torch.strided else [str(t.layout), t.detach().to_dense()]

    return torch.utils._pytree.tree_map_only(torch.Tensor, one, tree)


def run(op: Any, layout: torch.layout, dtype: torch.dtype) -> str:
    torch.manual_seed(0)
    try:
        found = list(op.sample_inputs_sparse(layout, "cpu", dtype))
    except Exception as e:
        raise NoSample(f"PyTorch has no samples: {e}") from None
    n_run = 0
    for sample in spread(found, SAMPLES):
        call = Call(sample.input, sample.args, sample.kwargs)
        try:
            want = call(op.op)
        except Exception:
            continue  # the CPU refuses it
        n_run += 1
        got = call.map(to_device)(op.op)
        if isinstance(got, torch.Tensor) and got.device.type != "tpu":
            raise Mismatch("DEVICE", f"output on {got.device}")
        agree(dense(want), dense(got), values=not is_random(op))
    if n_run == 0:
        raise NoSample("no sample that the CPU takes")
    return f"{n_run} samples"


def cases() -> Iterator[Case]:
    for op in op_db:
        for name, layout in LAYOUTS.items():
            has_layout = op.supports_sparse if layout == torch.sparse_coo else op.supports_sparse_csr
            for dtype in DTYPES if has_layout else ():
                if dtype in op.supported_dtypes("cpu"):
                    yield Case(f"{name_of(op)}.{name}", dtype_name(dtype), partial(run, op, layout, dtype), op.name)
