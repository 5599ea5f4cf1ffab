"""Collects the programs of a TPU: runs PyTorch's operator database on a CPU plugin, with programs lowered as for a TPU.

A worker (`python collect.py --worker`) runs its share of the cases, and moves the modules that each has made into the
file. The harness of the conformance tests starts it again behind a case that ends its process.
"""

import argparse
import concurrent.futures
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from conformance import harness  # noqa: E402

from aot.modules import Modules  # noqa: E402

SECTION = "aot"
SAMPLES = 4  # of one operator and dtype, spread over all of them
DTYPES = ("float32", "bfloat16", "int32")


def environment(dump: Path) -> dict[str, str]:
    """For a process whose programs are collected."""
    return {
        **os.environ,
        "TORCH_PJRT_LOWER_FOR": "tpu",
        "TORCH_PJRT_DUMP_DIR": str(dump),
        "TORCH_PJRT_COMPILE_THREADS": "1",
    }


# ---- in the worker --------------------------------------------------------------------------------------------------


def run_backward(outputs: Any, inputs: list[Any]) -> None:
    import torch
    from conformance.compare import tensors

    outs = [t for t in tensors(outputs) if t.requires_grad]
    ins = [t for t in inputs if t.requires_grad]
    if outs and ins:
        torch.autograd.grad(outs, ins, [torch.ones_like(t) for t in outs], allow_unused=True)


def run(op: Any, dtype: Any, n_samples: int, modules: Modules, dump: Path, name: str) -> str:
    """Samples, and in float dtypes their gradients; what the device refuses makes no program."""
    import torch
    from conformance import opinfos
    from conformance.compare import to_device

    differentiate = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    n, refused = 0, ""
    for call in opinfos.spread(opinfos.all_samples(op, dtype, requires_grad=differentiate), n_samples):
        try:
            device_call = opinfos.on_device(op, call, to_device)
            got = device_call(op.op)
            if differentiate:
                run_backward(got, device_call.tensors)
            torch.tpu.synchronize()  # type: ignore[attr-defined]
            n += 1
        except TimeoutError:
            raise
        except Exception as error:
            refused = f"{type(error).__name__}: {error}"
    modules.take_dumped(dump, f"ops: {name}")
    if not n:
        raise harness.NoSample(refused)
    return f"{n} samples"


def cases(n_samples: int, modules: Modules, dump: Path) -> Iterator[harness.Case]:
    import torch
    from conformance import opinfos

    for case in opinfos.cases_of(lambda op, dtype: "", tuple(getattr(torch, dtype) for dtype in DTYPES)):
        op, dtype = case.run.args  # type: ignore[attr-defined]
        name = f"{case.name} {case.dtype}"
        yield harness.Case(case.name, case.dtype, partial(run, op, dtype, n_samples, modules, dump, name), case.group)


def work(selection: harness.Selection, n_samples: int, rows: Path, modules: Modules, dump: Path) -> None:
    import warnings

    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    done = {row.key for row in harness.read_rows(rows, SECTION) if row.state != "START"}
    modules.take_dumped(dump, "ops: a case that ended its process")
    for case in selection.of(cases(n_samples, modules, dump)):
        row = harness.Row(SECTION, case.name, case.dtype, "START")
        if row.key in done:
            continue
        harness.append_row(rows, row)
        state, detail = harness.outcome(case)
        harness.append_row(rows, harness.Row(SECTION, case.name, case.dtype, state, harness.one_line(detail)))


# ---- around it ------------------------------------------------------------------------------------------------------


def collect(folder: Path, ops: str, stride: int, n_samples: int, n_workers: int) -> list[harness.Row]:
    """Run what has not been run yet, in as many processes; a row for each case. `folder` keeps all state."""

    def share(k: int) -> list[harness.Row]:
        rows = folder / f"rows-{k}-of-{n_workers}.jsonl"
        command = [sys.executable, __file__, "--worker", f"--folder={folder}", f"--rows={rows}", f"--ops={ops}"]
        command += [f"--stride={stride * n_workers}", f"--offset={k * stride}", f"--samples={n_samples}"]
        return harness.run_section(command, SECTION, rows, lambda row: None)

    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        return [row for rows in pool.map(share, range(n_workers)) for row in rows]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--worker", action="store_true", required=True)
    p.add_argument("--folder", type=Path, required=True)
    p.add_argument("--rows", type=Path, required=True)
    p.add_argument("--ops", default="")
    p.add_argument("--stride", type=int, default=1)
    p.add_argument("--offset", type=int, default=0)
    p.add_argument("--samples", type=int, default=SAMPLES)
    args = p.parse_args()
    selection = harness.Selection([op for op in args.ops.split(",") if op], [], args.stride, args.offset)
    with tempfile.TemporaryDirectory() as dump:
        os.environ.update(environment(Path(dump)))
        work(selection, args.samples, args.rows, Modules(args.folder / "modules.sqlite"), Path(dump))


if __name__ == "__main__":
    main()
