"""Debug mode: values that are asked about, errors at their operator, and the program in a file."""

import re
from pathlib import Path

import pytest
import torch

DEVICE = "tpu"


@pytest.fixture(autouse=True)
def dump_dir(tmp_path):
    previous = torch.tpu.config.dump_dir
    torch.tpu.config.dump_dir = str(tmp_path)
    yield tmp_path
    torch.tpu.config.dump_dir = previous


def module_of(error: BaseException) -> str:
    path = re.search(r"StableHLO of the program: (\S+)", str(error))
    assert path is not None, error
    return Path(path[1]).read_text()


def zeros(*sizes, dtype=torch.float32):
    return torch.zeros(*sizes, dtype=dtype, device=DEVICE)


MAKES_NAN = {
    "quotient": (lambda: zeros(3, 5) / zeros(3, 5), "div.Tensor(f32[3, 5], f32[3, 5])", "15 NaN among its 15"),
    "in place": (lambda: zeros(4).sub_(1).log_(), "log(f32[4])", "4 NaN"),
    "half": (lambda: torch.sqrt(zeros(2, dtype=torch.float16) - 1), "sqrt(f16[2])", "2 NaN"),
    "complex": (lambda: zeros(2, dtype=torch.complex64) / zeros(2, dtype=torch.complex64), "div.Tensor(", "2 NaN"),
    "float8": (lambda: (zeros(2) / 0.0).to(torch.float8_e5m2), "div.Tensor(", "2 NaN"),
    "backward": (
        lambda: torch.sqrt(zeros(3).requires_grad_()).mul(0).sum().backward(),
        "div.Tensor(f32[3], f32[3])",
        "3 NaN among its 3",
    ),
}


@pytest.mark.parametrize("name", MAKES_NAN)
def test_nan_is_found_where_it_is_made(name):
    make, op, values = MAKES_NAN[name]
    make()  # nobody asks
    with torch.tpu.debug():
        make()
    with torch.tpu.debug(check_nan=True), pytest.raises(RuntimeError) as raised:
        make()
    message = str(raised.value)
    assert message.startswith(op) and values in message and "result 0" in message
    if name != "backward":  # autograd's thread has no line of the user
        assert re.search(r"test_debug_mode.py:\d+", message)
    assert "stablehlo." in module_of(raised.value)
    make()


def test_nan_that_comes_from_outside_is_found_where_it_is_read():
    x = torch.tensor([[1.0, float("nan")], [2.0, 3.0]]).to(DEVICE)
    with torch.tpu.debug(check_nan=True):
        with pytest.raises(RuntimeError, match=r"^add.Tensor\(.*operand 0 has 1 NaN among its 4"):
            x + 1
        assert (x[1] + 1).tolist() == [3, 4], "the view has none"
        assert torch.isnan(x).sum().item() == 1 and torch.nan_to_num(x).sum().item() == 6


def test_infinities_only_where_asked_for():
    with torch.tpu.debug(check_nan=True):
        mask = torch.full((3, 3), float("-inf"), device=DEVICE).triu(1)
        assert torch.softmax(mask, -1)[0].tolist() == [1, 0, 0]
    with torch.tpu.debug(check_inf=True), pytest.raises(RuntimeError, match="result 0 has 9 infinities"):
        torch.full((3, 3), float("-inf"), device=DEVICE)


def test_debug_is_a_call_and_a_block():
    assert torch.tpu.eager_mode() == "strict"
    with torch.tpu.debug(check_nan=True):
        assert torch.tpu.eager_mode() == "debug" and torch.tpu.config.check_nan
    assert torch.tpu.eager_mode() == "strict" and not torch.tpu.config.check_nan
    with pytest.raises(ZeroDivisionError), torch.tpu.debug(check_inf=True):
        _ = 1 / 0
    assert torch.tpu.eager_mode() == "strict" and not torch.tpu.config.check_inf
    restore = torch.tpu.debug()
    assert torch.tpu.eager_mode() == "debug" and not torch.tpu.config.check_nan
    restore.__exit__(None, None, None)
    assert torch.tpu.eager_mode() == "strict"


def test_bad_indices_raise_at_their_operator():
    x, index = torch.arange(4.0).to(DEVICE), torch.tensor([1, 9]).to(DEVICE)
    with torch.tpu.debug(), pytest.raises(IndexError, match="index 9 is out of bounds") as raised:
        x[index]
    assert "index.Tensor" in str(raised.value) and "gather" in module_of(raised.value)


def test_memory_summary_says_who_holds_what():
    x = torch.ones(1000, 100, device=DEVICE)
    kept = [x * (i + 2) for i in range(3)]
    summary = torch.tpu.memory_summary()
    assert re.search(r"1200000 bytes in 3 storages: mul.Tensor\(f32\[1000, 100\], number\) \(first called at", summary)
    assert "test_debug_mode.py" in summary and "held by" not in torch.tpu.memory_summary(abbreviated=True)
    assert len(kept) == 3


def test_out_of_memory_says_who_holds_it():
    with pytest.raises(torch.OutOfMemoryError, match=r"tensors on tpu:0 hold \d+ bytes, at most"):
        torch.ones(2**45, device=DEVICE).sum().item()
