"""A quick sample of the conformance suite (tools/conformance): each section of operators, a stride through PyTorch's database.

A case that differs from the CPU and is not among the known differences of expected.toml fails. Beside it, what the
sections found, as whole kinds.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

RUN = Path(__file__).resolve().parents[2] / "tools" / "conformance" / "run.py"
DEVICE = "tpu"


@pytest.mark.parametrize(
    ("section", "stride"),
    [
        ("ops", 700),
        ("errors", 20),
        ("out", 110),
        ("inplace", 60),
        ("noncontiguous", 180),
        ("views", 110),
        ("empty", 140),
    ],
)
def test_sample(section, stride, tmp_path):
    summary = tmp_path / "summary.json"
    arguments = [section, f"--stride={stride}", "--offset=7", f"--json={summary}"]
    done = subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True)
    found = json.loads(summary.read_text())[section]
    assert found["cases"] > 5
    assert done.returncode == 0, done.stdout


def test_a_case_that_ends_its_process_is_one_crash(tmp_path):
    """The worker is started again behind it."""
    from conformance import harness

    rows = tmp_path / "rows.jsonl"
    worker = """
import os, sys
from pathlib import Path
from conformance import harness
path = Path(sys.argv[1])
done = {row.name for row in harness.read_rows(path, "s")}
for name in ("a", "b", "c"):
    if name not in done:
        harness.append_row(path, harness.Row("s", name, "", "START"))
        if name == "b":
            os.abort()
        harness.append_row(path, harness.Row("s", name, "", harness.OK))
"""
    found = harness.run_section(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(RUN.parents[1])!r})\n{worker}", str(rows)],
        "s",
        rows,
        lambda row: None,
    )
    assert [(row.name, row.state) for row in found] == [("a", "OK"), ("b", "CRASH"), ("c", "OK")]


def outcome(function, device):
    try:
        result = function(device)
        torch.tpu.synchronize()
        return result.cpu()
    except Exception as e:
        return type(e)


def x(device, *shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device=device)


ERRORS = {
    "random fills": [
        lambda d: x(d, 3).cauchy_(0.0, -1.0),
        lambda d: x(d, 3).exponential_(0.0),
        lambda d: x(d, 3).geometric_(1.5),
        lambda d: x(d, 3).log_normal_(0.0, -1.0),
        lambda d: x(d, 3).normal_(0.0, -1.0),
        lambda d: x(d, 3).uniform_(2.0, 1.0),
        lambda d: x(d, 3).bernoulli_(1.5),
    ],
    "weights": [
        lambda d: torch.multinomial(-x(d, 3), 1),
        lambda d: torch.multinomial(x(d, 3) * float("nan"), 1),
        lambda d: torch.multinomial(x(d, 3) * float("inf"), 2, replacement=True),
        lambda d: torch.multinomial(x(d, 2, 3) * 0, 1),
    ],
    "extremes of nothing": [
        lambda d: x(d, 0).amax(),
        lambda d: x(d, 0).amin(0),
        lambda d: x(d, 3, 0).aminmax()[0],
        lambda d: x(d, 3, 0).aminmax(dim=1)[0],
        lambda d: x(d, 0).argmax(),
        lambda d: torch.linalg.vector_norm(x(d, 3, 0), float("inf"), dim=1),
    ],
    "indices": [
        lambda d: x(d, 3).gather(0, x(d, 1, dtype=torch.int64) * 9),
        lambda d: x(d, 3).scatter(0, x(d, 1, dtype=torch.int64) * 9, x(d, 1)),
        lambda d: x(d, 3).index_select(0, x(d, 1, dtype=torch.int64) * 9),
        lambda d: x(d, 3)[x(d, 1, dtype=torch.int64) * 9],
    ],
    "dtypes of out=": [
        lambda d: torch.mm(x(d, 2, 2), x(d, 2, 2), out=x(d, 2, 2, dtype=torch.float64)),
        lambda d: torch.dot(x(d, 2), x(d, 2), out=x(d, dtype=torch.float64)),
        lambda d: torch.ceil(x(d, 2), out=x(d, 2, dtype=torch.float64)),
        lambda d: torch.tril(x(d, 2, 2), out=x(d, 2, 2, dtype=torch.float64)),
        lambda d: torch.cat([x(d, 2), x(d, 2)], out=x(d, 4, dtype=torch.bool)),
        lambda d: torch.add(x(d, 2), 1, out=x(d, 2, dtype=torch.int64)),
    ],
}


@pytest.mark.parametrize("function", [f for group in ERRORS.values() for f in group])
def test_errors_have_the_type_of_the_cpu(function):
    want = outcome(function, "cpu")
    assert isinstance(want, type)
    assert outcome(function, DEVICE) is want


@pytest.mark.parametrize(
    "function",
    [
        lambda d: torch.add(x(d, 2), 1, out=x(d, 2, dtype=torch.float64)),
        lambda d: torch.sum(x(d, 2, 2), 0, out=x(d, 2, dtype=torch.int64)),
        lambda d: torch.cumsum(x(d, 3), 0, out=x(d, 3, dtype=torch.int32)),
        lambda d: torch.arange(5, out=x(d, 0, dtype=torch.int16)),
        lambda d: torch.linspace(0, 4, 4, out=x(d, 2, 2)),
        lambda d: torch.ones(3, out=x(d, 2, dtype=torch.int64)),
        lambda d: torch.eye(3, out=x(d, 1, dtype=torch.float64)),
        lambda d: torch.kron(x(d, 2, 3), x(d, 3, 2), out=x(d, 6, 6)),
        lambda d: torch.stack([x(d, 2), x(d, 2)], out=x(d, 2, 2).t()),
    ],
)
def test_out_takes_the_result_as_on_the_cpu(function):
    want, got = function("cpu"), function(DEVICE)
    assert got.device.type == DEVICE
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


def test_out_on_another_device():
    for function in (torch.exp, torch.special.bessel_j1, torch.conj_physical):
        with pytest.raises(RuntimeError, match="same device"):
            function(x(DEVICE, 3), out=x("cpu", 3))


def test_out_that_is_an_operand():
    a = x(DEVICE, 4)
    assert torch.add(a, 1, out=a) is a  # an element is read before it is written
    for write in (
        lambda: torch.cat([a[:2], a[:2]], out=a),
        lambda: torch.take(a, torch.arange(4, device=DEVICE), out=a),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
