"""`make aot` on a sample: some hundred programs of all families of operators compile for a TPU with libtpu."""

import subprocess
import sys
from pathlib import Path

import pytest
from aot.modules import Module, n_bytes
from native import ROOT, needs_libtpu


@pytest.mark.parametrize(
    ("type", "n"),
    [
        ("f32", 4), ("i1", 1), ("5xi1", 5), ("4x8xf32", 128), ("complex<f64>", 16), ("3xcomplex<f32>", 24), ("7xi4", 4),
        ("2xf8E4M3FN", 2), ("2x3xf8E8M0FNU", 6), ("0x3xbf16", 0),
    ],
)  # fmt: skip
def test_bytes_of_types(type: str, n: int) -> None:
    assert n_bytes(type) == n


@pytest.mark.parametrize(
    ("attributes", "n"),
    [
        ("{}, {}", 0),
        ("{}, {tf.aliasing_output = 0 : i32}", 24),
        ("{tf.aliasing_output = 1 : i32}, {tf.aliasing_output = 0 : i32}", 40),
    ],
)
def test_donated_bytes_of_modules(attributes: str, n: int) -> None:
    code = f"arg_attrs = [{attributes}], function_type = (tensor<2xcomplex<f32>>, tensor<2x3xf32>) -> (tensor<f32>)"
    assert Module("", "", "", code).donated_bytes == n


@needs_libtpu
@pytest.mark.strict
def test_a_sample_of_programs_compiles(tmp_path: Path) -> None:
    """Each 37th operator and dtype of PyTorch's database."""
    command = [sys.executable, str(ROOT / "tools/aot/run.py"), "--sources=ops", "--targets=v6e", "--stride=37"]
    done = subprocess.run(
        [*command, "--samples=2", f"--folder={tmp_path}"], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("ops"))
    assert int(line.split()[2]) > 200
