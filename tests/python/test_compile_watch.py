"""torch_pjrt.explain, the structured trace and the logs of torch.compile."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_pjrt

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def test_explain_lists_programs_breaks_and_recompiles() -> None:
    @torch.compile(backend="tpu")
    def fn(x: torch.Tensor, scale: int) -> torch.Tensor:
        y = (x @ x.t()) * scale
        print(end="")
        return torch.linalg.eigvals(y).abs() + 1

    x = X.to("tpu")
    with torch_pjrt.explain() as report:
        fn(x, 2)
        fn(x.double(), 2)
    names = [program["name"] for program in report.programs]
    assert len(names) >= 4 and all("stablehlo" in program["module"] for program in report.programs)
    assert report.programs[0]["flops"] >= 2 * 3 * 3 * 4 or report.programs[0]["flops"] == -1
    assert report.programs[0]["argument_bytes"] in (48, -1)
    assert sum(report.graph_breaks.values()) >= 1
    assert report.recompiles and "dtype" in report.recompiles[0]["recompile_reason"]
    assert any("runs by itself" in note and "eig" in note for note in report.notes)
    page = str(report)
    for part in ("captures", "again, because", "graph break", "programs", "note: ", "test_compile_watch.py"):
        assert part in page, page
    with torch_pjrt.explain() as report:
        fn(x, 2)
    assert report.programs == [] and report.captures == [] and report.graph_breaks == {}


def test_explain_says_why_a_graph_is_made_for_its_sizes() -> None:
    fn = torch.compile(lambda x: x.mul_(2).sum(), backend="tpu", dynamic=True)
    with torch_pjrt.explain() as report:
        fn(X.to("tpu"))
    assert any("written" in note for note in report.notes)


def test_an_error_of_a_cut_names_op_shapes_line_and_graph_file(tmp_path: Path) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x @ x.t()).abs()

    for folder in (None, str(tmp_path)):
        torch._dynamo.reset()
        options: dict[str, Any] = {"cuts": False, **({"dump_dir": folder} if folder else {})}
        with pytest.raises(
            Exception, match=r"eig\w*\.default\(f32\[3, 3\]\).*\n.*test_compile_watch\.py:\d+"
        ) as raised:
            torch.compile(fn, backend="tpu", options=options)(X.to("tpu"))
        line = next(line for line in str(raised.value).splitlines() if "the graph is in" in line)
        path = Path(line.split("the graph is in ")[1])
        assert "linalg_eig" in path.read_text()
        assert folder is None or path.parent == tmp_path


PROGRAM = """
import torch
fn = torch.compile(lambda x: torch.linalg.eigvals(x @ x.t()).abs() + 1, backend="tpu")
fn(torch.ones(3, 4, device="tpu"))
torch.tpu.synchronize()
"""


def run(tmp_path: Path, **variables: str) -> str:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=200, capture_output=True, text=True
    )
    return done.stderr


def test_the_structured_trace_holds_graphs_programs_options_and_costs(tmp_path: Path) -> None:
    run(tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    (file,) = (tmp_path / "trace").iterdir()
    names = set()
    for line in file.read_text().splitlines():
        if "{" not in line or line.startswith("\t"):
            continue
        record = json.loads(line[line.index("{") :])
        names.add(record.get("artifact", {}).get("name", ""))
    suffixes = {name.rpartition(".")[2] for name in names if name.startswith("graph0.")}
    assert suffixes >= {"graph", "options", "mlir", "costs"}


def test_logs_by_torch_logs(tmp_path: Path) -> None:
    assert "runs by itself" in run(tmp_path, TORCH_LOGS="torch_pjrt.compile")
    assert "runs by itself" not in run(tmp_path)
