"""What users do wrong: an exception of the CPU's type that says which op, which operands and which line. Nothing aborts."""

import inspect
import os
import re

import pytest
import torch
from processes import run
from torch import nn

DEVICE = "tpu"


def line_here():
    return inspect.currentframe().f_back.f_lineno


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device=DEVICE)


def index(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype, device=DEVICE)


# ---- shapes ---------------------------------------------------------------------------------------------------------


def test_a_message_names_op_operands_and_line():
    with pytest.raises(RuntimeError) as error:
        ones(4, 8) + ones(3)
    line = line_here() - 1
    text = str(error.value)
    assert text.startswith("add.Tensor(f32[4, 8], f32[3]")
    assert "8" in text and "3" in text and "dimension 1" in text
    assert text.endswith(f"at {__file__}:{line}")


SHAPES = [
    (lambda d: torch.ones(4, 8, device=d) @ torch.ones(3, device=d), RuntimeError, r"mv\(f32\[4, 8\], f32\[3\]\)"),
    (
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        RuntimeError,
        r"mm\(f32\[2, 3\], f32\[2, 3\]\)",
    ),
    (lambda d: torch.bmm(torch.ones(2, 3, device=d), torch.ones(2, 3, device=d)), RuntimeError, "3D"),
    (
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(3, device=d)]),
        RuntimeError,
        "same number of dimensions",
    ),
    (lambda d: torch.stack([torch.ones(2, device=d), torch.ones(3, device=d)]), RuntimeError, "equal size"),
    (lambda d: torch.ones(4, 8, device=d).view(5, 7), RuntimeError, "invalid for input of size 32"),
    (lambda d: torch.ones(4, 8, device=d).expand(3, 4, 9), RuntimeError, "expanded size"),
    (lambda d: torch.ones(4, device=d).sum(5), IndexError, "Dimension out of range"),
    (lambda d: torch.ones(4, device=d).softmax(3), IndexError, "Dimension out of range"),
    (lambda d: torch.ones(4, device=d).topk(9), RuntimeError, "out of range"),
    (lambda d: torch.ones(4, device=d)[9], IndexError, "index 9 is out of bounds"),
    (lambda d: torch.ones(4, 4, device=d)[1, 1, 1], IndexError, "too many indices"),
    (lambda d: nn.Linear(3, 4).to(d)(torch.ones(2, 5, device=d)), RuntimeError, "addmm|shapes"),
    (lambda d: nn.Conv2d(3, 4, 3).to(d)(torch.ones(1, 2, 8, 8, device=d)), RuntimeError, "channels"),
    (
        lambda d: torch.ones(3, device=d).gather(0, torch.zeros(2, 2, dtype=torch.int64, device=d)),
        RuntimeError,
        "dimensions",
    ),
    (lambda d: torch.empty(-1, device=d), RuntimeError, "negative dimension"),
    (lambda d: torch.empty(2**62, device=d), RuntimeError, "overflow"),
    (lambda d: torch.arange(0, 10, -1, device=d), RuntimeError, "step sign"),
    (lambda d: torch.linspace(0, 1, -1, device=d), RuntimeError, "non-negative"),
    (lambda d: torch.cat([]), (RuntimeError, ValueError), "non-empty"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), SHAPES)
def test_shapes(wrong, kind, text):
    with pytest.raises(kind):
        wrong("cpu")
    with pytest.raises(kind, match=text):
        wrong(DEVICE)


# ---- dtypes ---------------------------------------------------------------------------------------------------------

DTYPES = [
    (lambda d: torch.ones(3, device=d).bitwise_not(), "bitwise_not"),
    (lambda d: torch.ones(3, device=d) & torch.ones(3, device=d), "bitwise_and"),
    (lambda d: torch.ones(3, dtype=torch.int32, device=d).sqrt_(), "can't be cast"),
    (lambda d: torch.zeros(2, device=d).masked_fill(torch.ones(2, device=d), 1), "mask"),
    (lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d).double(), "dtype|type"),
    (lambda d: torch.ones(3, device=d)[torch.ones(2, device=d)], "indices"),
    (lambda d: nn.functional.embedding(torch.ones(2, device=d), torch.ones(3, 4, device=d)), "indices|ndex"),
    (lambda d: torch.ones(3, dtype=torch.int64, device=d).mean(), "mean"),
    (lambda d: torch.ones(2, 2, dtype=torch.int64, device=d).softmax(0), "softmax"),
    (lambda d: torch.complex(torch.ones(2), torch.ones(2)).to(d) > 1, "gt|complex"),
    (lambda d: torch.tensor([1, 2], device=d).requires_grad_(), "floating point"),
    (lambda d: torch.randn(3, dtype=torch.int64, device=d), "normal|randn"),
]


@pytest.mark.parametrize(("wrong", "text"), DTYPES)
def test_dtypes(wrong, text):
    with pytest.raises(Exception) as on_cpu:
        wrong("cpu")
    with pytest.raises(Exception, match=text) as on_device:
        wrong(DEVICE)
    assert issubclass(on_device.type, on_cpu.type) or issubclass(on_cpu.type, on_device.type)


# ---- devices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, y: x + y,
        lambda x, y: y * x,
        lambda x, y: x @ y.view(3, 1),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.stack([y, x]),
        lambda x, y: x.add_(y),
        lambda x, y: torch.addcmul(x, x, y),
        lambda x, y: nn.functional.linear(x, y.view(1, 3)),
        lambda x, y: x.gather(0, y.long()),
        lambda x, y: torch._foreach_add_([x], [y]),
        lambda x, y: x.masked_fill(y > 0, 1.0),
        lambda x, y: nn.functional.mse_loss(x, y),
        lambda x, y: nn.functional.embedding(y.long(), x.view(3, 1)),
    ],
)
def test_mixed_devices(mixed):
    with pytest.raises(
        RuntimeError, match=r"Expected all tensors to be on the same device.*(tpu.*cpu|cpu.*tpu)"
    ) as error:
        mixed(ones(3), torch.zeros(3))
    assert "alpha=" not in str(error.value)


def test_numbers_of_the_cpu_are_welcome():
    x, two = ones(3), torch.tensor(2.0)
    assert (x + two).tolist() == (two + x).tolist() == [3, 3, 3]
    assert x.add_(two).mul_(two).tolist() == [6, 6, 6]
    assert torch.where(x > 0, x, two).tolist() == [6, 6, 6]
    assert x.masked_fill(x > 0, torch.tensor(1.0)).tolist() == [1, 1, 1]
    assert (x + torch.tensor(1, dtype=torch.float64)).dtype == torch.float32


def test_devices_that_do_not_exist():
    for wrong in (
        lambda: torch.ones(1, device="tpu:99"),
        lambda: torch.ones(1).to("tpu:99"),
        lambda: torch.empty(1, device="tpu:99"),
        lambda: torch.zeros(2, device=torch.device("tpu", 99)),
        lambda: nn.Linear(1, 1, device="tpu:99"),
        lambda: torch.tpu.set_device(99),
        lambda: torch.tpu.synchronize(99),
        lambda: torch.Generator("tpu:99"),
    ):
        with pytest.raises((RuntimeError, ValueError, AssertionError), match="99"):
            wrong()
    assert torch.tpu.current_device() == 0
    assert (ones(2) + 1).tolist() == [2, 2]


def test_generators_of_another_device():
    with pytest.raises(RuntimeError, match="tpu.*generator"):
        torch.rand(3, device=DEVICE, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="generator|device"):
        torch.rand(3, generator=torch.Generator(DEVICE))


def test_layouts_that_are_not_there():
    with pytest.raises(NotImplementedError, match="nested"):
        torch.nested.nested_tensor([ones(2), ones(3)], layout=torch.strided).sum(-1)
    with pytest.raises((NotImplementedError, RuntimeError, TypeError), match="quantize|QUInt8"):
        torch.quantize_per_tensor(ones(3), 0.1, 0, torch.quint8)


# ---- indices: the device finds them, so they are raised at the next read --------------------------------------------

BAD_INDICES = [
    lambda x, i: x[i],
    lambda x, i: x.index_select(0, i),
    lambda x, i: x.gather(0, i.view(1, 1)),
    lambda x, i: torch.take(x, i * 4),
    lambda x, i: nn.functional.embedding(i, x),
    lambda x, i: nn.functional.cross_entropy(x[:1], i),
    lambda x, i: x.clone().scatter_(0, i.view(1, 1), 1.0),
    lambda x, i: x.clone().index_add_(0, i, x[:1]),
    lambda x, i: x.clone().index_put_((i,), x[0]),
    lambda x, i: x.clone().index_copy_(0, i, x[:1]),
    lambda x, i: x.clone().index_fill_(0, i, 1.0),
    lambda x, i: x[:, i],
]


@pytest.mark.parametrize("read", BAD_INDICES)
@pytest.mark.parametrize("bad", [9, -10])
def test_bad_index(read, bad):
    x = ones(4, 8)
    result = read(x, index(bad))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):  # test_index_checks.py: which
        result.cpu()
    assert read(x, index(1)).cpu() is not None  # raised once, and the device works on


def test_bad_index_at_synchronisation():
    ones(4)[index(4)]
    with pytest.raises(IndexError, match=r"index.Tensor.*index 4 is out of bounds for dimension with size 4"):
        torch.tpu.synchronize()
    torch.tpu.synchronize()
    ones(4)[index(-5)]
    with pytest.raises(IndexError):
        ones(1).item()


def test_bad_index_names_the_line():
    """Also where the program was made by another line."""
    table = ones(5, 8)
    nn.functional.embedding(index(1, 2), table)
    nn.functional.embedding(index(1, 7), table)
    line = line_here() - 1
    nn.functional.embedding(index(1, 3), table)
    with pytest.raises(IndexError) as error:
        torch.tpu.synchronize()
    assert f"embedding(f32[5, 8], i64[2]) (called at {__file__}:{line}): index 7 is out of bounds" in str(error.value)


def test_negative_indices():
    x = torch.arange(4.0, device=DEVICE)
    assert x[index(-1, -4)].tolist() == [3, 0]
    assert x[index(0, 3, -1).int()].tolist() == [0, 3, 3]


def test_index_checks_turned_off():
    code = """
import torch
x = torch.arange(4.0, device="tpu")
assert torch.tpu.config.check_index is False
assert x[torch.tensor([1, 9], device="tpu")].cpu().shape == (2,)
torch.tpu.synchronize()
print("fine")
"""
    assert run(code, TORCH_PJRT_CHECK_INDEX="0", **plugin()).stdout.strip() == "fine"


def test_index_checks_can_be_switched_while_running():
    x = ones(4)
    torch.tpu.config.check_index = False
    try:
        assert x[index(7)].cpu().shape == (1,)
    finally:
        torch.tpu.config.check_index = True
    with pytest.raises(IndexError):
        x[index(7)].cpu()


def test_debug_mode_raises_at_the_op():
    code = """
import torch
x = torch.ones(4, device="tpu")
i = torch.tensor([9], device="tpu")
try:
    x[i]
except IndexError as error:
    print(error)
"""
    out = run(code, TORCH_PJRT_EAGER_MODE="debug", **plugin()).stdout
    assert "index 9 is out of bounds" in out and "index.Tensor" in out
    assert re.search(r"<string>:6", out)


# ---- memory and plugins ---------------------------------------------------------------------------------------------


def plugin():
    return {name: value for name, value in os.environ.items() if name == "TORCH_PJRT_PLUGIN"}


def test_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(2**45, device=DEVICE).sum().item()
    assert ones(3).sum().item() == 3


def test_plugin_that_is_no_plugin(tmp_path):
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"not a library")
    code = "import torch\ntorch.ones(1, device='tpu')"
    for path in (broken, tmp_path / "absent.so"):
        finished = run(code, check=False, TORCH_PJRT_PLUGIN=str(path))
        assert finished.returncode == 1
        assert str(path) in finished.stderr and "RuntimeError" in finished.stderr
    libc = next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line)
    finished = run(code, check=False, TORCH_PJRT_PLUGIN=libc)
    assert finished.returncode == 1 and "GetPjrtApi" in finished.stderr


def test_an_error_changes_nothing():
    x = torch.arange(4.0, device=DEVICE)
    version, address = x._version, x.data_ptr()
    with pytest.raises(RuntimeError):
        x.add_(ones(3))
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(4))
    with pytest.raises(RuntimeError):
        torch.mul(ones(2, 4), 2, out=x[:2].expand(4, 2))
    assert x.tolist() == [0, 1, 2, 3] and x.data_ptr() == address and x._version == version


def test_errors_in_backward():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad + ones(7)

    x = ones(3).requires_grad_()
    with pytest.raises(RuntimeError, match="add.Tensor"):
        Broken.apply(x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_ops_that_read_host_memory_get_it() -> None:
    """PyTorch composes this one of reads from data_ptr(), which is no memory here: the process died."""
    x = torch.randn(16)
    for got, want in zip(
        torch.choose_qparams_optimized(x.to("tpu"), 16, 10, 0.1, 8),
        torch.choose_qparams_optimized(x, 16, 10, 0.1, 8),
        strict=True,
    ):
        assert got.device.type == "tpu" and got.cpu().equal(want)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.filterwarnings("ignore:.*has no kernel for the tpu device")
def test_eigenvalues_of_what_is_not_finite(bad, dtype):
    """PyTorch's CPU, where these run, ends the process over them."""
    for places in ((0, 0), (1, 2), (slice(None), slice(None))):
        a = torch.eye(3, dtype=dtype)
        a[places] = bad
        for operation in (torch.linalg.eig, torch.linalg.eigvals):
            with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
                operation(a.to(DEVICE))
    out = torch.empty(3, dtype=torch.complex128, device=DEVICE)
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
        torch.linalg.eigvals(a.double().to(DEVICE) if not dtype.is_complex else a.to(DEVICE), out=out)
