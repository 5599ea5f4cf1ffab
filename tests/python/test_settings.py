"""Settings of PyTorch that change what an op computes: they are part of what a program is remembered under."""

from collections.abc import Callable, Iterator

import pytest
import torch
from processes import run

FACTORIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "integers plus a float": lambda x: x + 1.5,
    "true division": lambda x: x / 2,
    "integers times an imaginary number": lambda x: x * 1j,
    "a float function": lambda x: x.sqrt(),
    "mean of a comparison": lambda x: torch.where(x > 0, 1.5, 0.5),
    "ones": lambda x: torch.ones(2, device=x.device),
    "full": lambda x: torch.full((2,), 1.5, device=x.device),
    "arange": lambda x: torch.arange(0, 1, 0.25, device=x.device),
    "linspace": lambda x: torch.linspace(0, 1, 3, device=x.device),
    "scalar_tensor": lambda x: torch.scalar_tensor(1.5, device=x.device),
    "eye": lambda x: torch.eye(2, device=x.device),
}


@pytest.fixture
def restore() -> Iterator[None]:
    dtype, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    yield
    torch.set_default_dtype(dtype)
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("name", FACTORIES)
def test_default_dtype(restore: None, name: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        want = FACTORIES[name](torch.arange(3))
        got = FACTORIES[name](torch.arange(3, device="tpu"))
        assert got.dtype == want.dtype
        torch.testing.assert_close(got.cpu(), want)


def test_default_dtype_of_random_numbers(restore: None) -> None:
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        assert torch.rand(2, device="tpu").dtype == torch.randn(2, device="tpu").dtype == dtype


def test_matmul_precision_is_part_of_the_program(restore: None) -> None:
    a = torch.randn(16, 16, device="tpu")
    want = a.cpu().double() @ a.cpu().double()
    compiled = []
    for precision in ("highest", "high", "medium", "highest"):
        torch.set_float32_matmul_precision(precision)
        before = torch.tpu.compile_stats()["programs"]
        got = (a @ a).cpu().double()
        compiled.append(torch.tpu.compile_stats()["programs"] - before)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-4 if precision == "highest" else 0.2)
    assert compiled[1:] == [1, 1, 0]  # each precision is a program of its own, and is found again


def test_the_newer_setting_of_precision_counts() -> None:
    """torch.backends.fp32_precision: PyTorch's older getter raises once it is set, and products did with it. A process of
    its own, as the older setter pins the newer settings."""
    said = run("""if True:
        import torch
        x = torch.ones(37, 53, device="tpu")
        for precision in ("ieee", "tf32", "bf16"):
            torch.backends.fp32_precision = precision
            before = torch.tpu.compile_stats()["programs"]
            assert (x @ x.t()).sum().item() == 37 * 37 * 53
            print(precision, torch.tpu.compile_stats()["programs"] - before)
    """)
    assert said.stdout.split() == ["ieee", "2", "tf32", "1", "bf16", "1"]  # the first with the program of the sum
