"""Every dtype of PyTorch: storage, copies, casts and printing, arithmetic where the CPU has it, and its errors elsewhere."""

import io
import itertools
import warnings

import pytest
import torch

DEVICE = "tpu"
ALL = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype)}, key=str)
# quantized dtypes belong to backends that quantize: a tensor of one needs a quantizer, not only storage
QUANTIZED = [d for d in ALL if str(d).startswith(("torch.qint", "torch.quint"))]
# one byte an element on the CPU, where not even a copy has a kernel
SHELLS = [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 8)]
OPAQUE = [*SHELLS, torch.float4_e2m1fn_x2, *(d for d in ALL if str(d).startswith("torch.bits"))]
FLOAT8 = [d for d in ALL if str(d).startswith("torch.float8")]
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [*HALVES, torch.float32, torch.float64]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
WIDE_UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *WIDE_UNSIGNED]
COMPUTING = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX, *FLOAT8]
STORED = [*COMPUTING, *OPAQUE]

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:Casting complex values")


def test_no_dtype_is_forgotten():
    assert set(STORED) | set(QUANTIZED) == set(ALL)


def patterns(dtype, n=48):
    """A CPU tensor of n bytes; of bool, zeros and ones."""
    raw = torch.arange(n, dtype=torch.int32).mul(5).remainder(110).to(torch.uint8)
    return raw.remainder(2).to(torch.bool) if dtype == torch.bool else raw.view(dtype)


def bits(x):
    return x.contiguous().cpu().view(torch.uint8)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_elements_move(dtype):
    cpu = patterns(dtype)
    x, raw = cpu.to(DEVICE), bits(cpu)
    assert x.dtype == dtype and x.element_size() == cpu.element_size() and torch.equal(bits(x), raw)
    n, width = cpu.numel(), cpu.element_size()
    rows = raw.view(n, width)
    assert torch.equal(bits(x.clone()), raw)
    assert torch.equal(bits(x[1::2].clone()), rows[1::2].flatten())
    assert torch.equal(
        bits(x.view(3, -1).t().contiguous()).flatten(), rows.view(3, n // 3, width).transpose(0, 1).flatten()
    )
    assert torch.equal(bits(torch.cat([x, x[:2]])), torch.cat([raw, rows[:2].flatten()]))
    assert torch.equal(bits(torch.stack([x, x])).flatten(), raw.repeat(2))
    assert torch.equal(bits(x[torch.tensor([2, 0])]), rows[[2, 0]].flatten())
    assert torch.equal(bits(x.flip(0)), rows.flip(0).flatten())
    assert torch.equal(bits(x.expand(2, n).contiguous()).flatten(), raw.repeat(2))
    y = torch.zeros_like(x)
    assert not bits(y).any() and not bits(torch.zeros(3, dtype=dtype, device=DEVICE)).any()
    y[2:].copy_(x[2:])
    assert torch.equal(bits(y), torch.cat([torch.zeros(2 * width, dtype=torch.uint8), rows[2:].flatten()]))
    assert not bits(x.clone().zero_()).any()
    assert torch.empty(2, 3, dtype=dtype, device=DEVICE).shape == (2, 3)


@pytest.mark.parametrize("dtype", [d for d in STORED if d != torch.bool], ids=str)  # bool: test_views.py
def test_bits_are_seen_as_another_dtype(dtype):
    cpu = patterns(torch.uint8)
    x = cpu.to(DEVICE)
    assert torch.equal(x.view(dtype).clone().view(torch.uint8).cpu(), cpu)
    x.view(dtype)[1:].copy_(patterns(dtype).to(DEVICE)[:-1])
    width = dtype.itemsize
    assert torch.equal(x.cpu()[width:], bits(patterns(dtype))[:-width])


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_saved_and_printed(dtype):
    cpu = patterns(dtype)
    x = cpu.to(DEVICE)
    if dtype not in SHELLS:  # PyTorch's own storages have no name for these
        file = io.BytesIO()
        torch.save(x, file)
        file.seek(0)
        back = torch.load(file)
        assert back.device.type == DEVICE and back.dtype == dtype and torch.equal(bits(back), bits(cpu))
    try:
        want = repr(cpu)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            repr(x)
    else:
        assert "".join(repr(x).split()).replace(",device='tpu:0'", "") == "".join(want.split())


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
def test_dtypes_that_the_device_lacks_are_named(dtype):
    with pytest.raises((NotImplementedError, TypeError), match="quantized|has no dtype"):
        torch.empty(3, dtype=dtype, device=DEVICE)


def test_unknown_dtypes_are_errors():
    """A number that no dtype has, as a later PyTorch may pass: an error, not memory behind a table."""
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        torch.ops.aten.empty.memory_format([2], dtype=90, device=torch.device(DEVICE))


# ---- casts ----

EDGES = [0.0, -0.0, 0.1, -0.1, 1 / 3, 0.5, 1.5, 2.5, 3.7, -3.7, 17, 19, 100.3, -100.3, 127.5, 200, 240, 255.9, 448, 464,
         465, 480, 57344, 61439, 61440, 65519.9, 65520, 1e5, -7e4, 2**-6, 2**-9, 2**-10, 1.5 * 2**-11, 2**-16, 2**-17,
         1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-30, 1.0625, 1.1875]  # fmt: skip
BEYOND = [2.0**31 - 1, 3e9, 2.0**53 + 2, 1e20, 3.3e38, 1e300, float("inf"), float("-inf"), float("nan")]
WHOLE = [0, 1, -1, 2, 127, 128, 255, 256, -128, -129, 1000, 32767, 32768, 65535, 70000, 2**24 + 1, 2**31 - 1, 2**32 + 5,
         -(2**31), 2**53 + 1, 2**62 + 1, -(2**63), 2**63 - 1]  # fmt: skip


def sources(dtype, to_integer):
    """The edges of a dtype. Floats that no integer of the target can stand for are C's business (docs/numerics.md)."""
    if dtype in INTEGERS or dtype == torch.bool:
        return torch.tensor(WHOLE).to(dtype)
    if dtype in FLOAT8:
        every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
        inside = every.float().abs() < 2**30
        return every[inside] if to_integer else every
    values = torch.tensor(EDGES if to_integer else EDGES + BEYOND, dtype=torch.float64)
    if to_integer and dtype in (torch.float16, torch.complex32):
        values = values[values.abs() < 65504]
    return torch.complex(values, values.flip(0)).to(dtype) if dtype in COMPLEX else values.to(dtype)


def same_values(got, want):
    if want.dtype in COMPLEX:
        got, want = torch.view_as_real(got), torch.view_as_real(want)
    if want.dtype in FLOAT8:
        got, want = got.float(), want.float()
    if not want.is_floating_point():
        return torch.equal(got, want)
    return torch.equal(got.isnan(), want.isnan()) and torch.equal(got.nan_to_num(7), want.nan_to_num(7)) and torch.equal(
        got.signbit() & ~got.isnan(), want.signbit() & ~want.isnan())  # fmt: skip


@pytest.mark.parametrize("to", COMPUTING, ids=str)
def test_casts(to):
    for dtype in COMPUTING:
        cpu = sources(dtype, to in INTEGERS)
        got = cpu.to(DEVICE).to(to)
        assert got.dtype == to
        assert same_values(got.cpu(), cpu.to(to)), (dtype, to)


@pytest.mark.parametrize("dtype", OPAQUE, ids=str)
def test_bits_without_a_meaning_are_not_cast(dtype):
    x = patterns(dtype).to(DEVICE)
    for cast in (lambda: x.float(), lambda: torch.ones(3, device=DEVICE).to(dtype), lambda: x.item()):
        with pytest.raises((NotImplementedError, RuntimeError)):
            cast()
    with pytest.raises(NotImplementedError):
        x.fill_(1)


# ---- what the CPU computes, and what it does not ----

INDEX = torch.tensor([1, 0])
OPS = {
    "add": lambda x: x + x, "sub": lambda x: x - x, "mul": lambda x: x * x, "div": lambda x: x / x,
    "mul number": lambda x: x * 2, "neg": lambda x: -x, "abs": lambda x: x.abs(), "sum": lambda x: x.sum(),
    "sum to float": lambda x: x.sum(dtype=torch.float32), "mean": lambda x: x.mean(), "cumsum": lambda x: x.cumsum(0),
    "max": lambda x: x.max(), "argmax": lambda x: x.argmax(), "sort": lambda x: x.sort()[0], "topk": lambda x: x.topk(2)[0],
    "exp": lambda x: x.exp(), "relu": lambda x: x.relu(), "clamp": lambda x: x.clamp(0, 1), "round": lambda x: x.round(),
    "eq": lambda x: x == x.flip(0), "ne number": lambda x: x != 1, "lt": lambda x: x < x.flip(0),
    "isnan": lambda x: x.isnan(), "isfinite": lambda x: x.isfinite(), "all": lambda x: x.all(), "any": lambda x: x.any(0),
    "nonzero": lambda x: x.nonzero(), "where": lambda x: torch.where(x != 0, x, x.flip(0)),
    "masked_fill": lambda x: x.masked_fill(x != 0, 1), "boolean index": lambda x: x[x != 0], "index": lambda x: x[INDEX],
    "index_put": lambda x: x.clone().index_put_((INDEX.to(x.device),), x[0]), "setitem": lambda x: x.clone().__setitem__(0, 1),
    "gather": lambda x: x.gather(0, torch.zeros_like(INDEX).to(x.device).expand(1, 2)), "tril": lambda x: x.tril(),
    "scatter_add": lambda x: x.scatter_add(0, torch.zeros(2, 2, dtype=torch.int64, device=x.device), x),
    "index_select": lambda x: x.index_select(0, INDEX.to(x.device)), "roll": lambda x: x.roll(1, 0),
    "repeat": lambda x: x.repeat(2, 2), "fill": lambda x: x.clone().fill_(2), "mm": lambda x: x @ x, "eye": lambda x: torch.eye(
        3, dtype=x.dtype, device=x.device), "arange": lambda x: torch.arange(3, dtype=x.dtype, device=x.device),
    "full": lambda x: torch.full((3,), 2, dtype=x.dtype, device=x.device), "equal": lambda x: torch.equal(x, x),
    "item": lambda x: x[0, 1].item(), "pad": lambda x: torch.nn.functional.pad(x, (1, 1)), "and": lambda x: x & x,
    "add float": lambda x: x + torch.ones(2, device=x.device), "add int": lambda x: x + torch.ones(2, dtype=torch.int32, device=x.device),
    "promote": lambda x: torch.cat([x, torch.ones(1, 2, device=x.device)]), "float_power": lambda x: torch.float_power(x, 2),
}  # fmt: skip

# Where the CPU has no kernel and the device computes: integers are integers, moving an element needs no arithmetic.
MOVES = {"masked_fill", "gather", "tril", "equal", "nonzero", "index_put", "setitem", "pad", "where", "roll", "fill", "eye",
         "boolean index", "arange"}  # fmt: skip
MORE = {
    **dict.fromkeys(WIDE_UNSIGNED, set(OPS) - {"mean", "add int"}),
    **dict.fromkeys(FLOAT8, MOVES | {"abs", "mul number", "isfinite", "mm", "any", "all"}),
    torch.complex32: MOVES | {"sum", "mean", "cumsum", "div", "exp", "mm", "scatter_add"},
    torch.bool: {"abs", "argmax", "topk", "arange"},
    torch.complex64: {"arange"},
    torch.complex128: {"arange"},
}


def outcome(op, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return op(x)
        except Exception as error:
            return error


@pytest.mark.parametrize("dtype", COMPUTING, ids=str)
def test_values_or_errors_of_the_cpu(dtype):
    cpu = torch.tensor([[1.0, 0.0], [4.0, 0.5]]).to(dtype)
    for name, op in OPS.items():
        want, got = outcome(op, cpu), outcome(op, cpu.to(DEVICE))
        if isinstance(want, Exception):
            if isinstance(got, Exception):
                assert isinstance(got, (NotImplementedError, RuntimeError)), (name, want, got)
                assert isinstance(got, type(want)) or isinstance(want, type(got)), (name, want, got)
            else:
                assert name in MORE.get(dtype, set()), (name, want)
        else:
            assert not isinstance(got, Exception), (name, got)
            assert type(got) is type(want), name
            if isinstance(want, torch.Tensor):
                assert got.dtype == want.dtype and got.shape == want.shape, name
                wide = torch.complex128 if want.is_complex() else torch.float64  # float8 and c32 do not compare
                got, want = (t.float().to(wide) if t.dtype in FLOAT8 else t.to(wide) for t in (got.cpu(), want))
                torch.testing.assert_close(
                    got, want, rtol=1e-6, atol=0, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
                )
            else:
                assert got == want, name


@pytest.mark.parametrize("dtype", OPAQUE, ids=str)
def test_bits_without_a_meaning_have_no_arithmetic(dtype):
    x = patterns(dtype)[:4].view(-1, 2).to(DEVICE)
    for name in ("add", "mul", "neg", "sum", "max", "sort", "exp", "relu", "lt", "mm", "abs"):
        got = outcome(OPS[name], x)
        assert isinstance(got, NotImplementedError), (name, got)


# ---- promotion ----


def promotes(a, b):
    want, got = (outcome(lambda device: torch.mul(a.to(device), b.to(device)), device) for device in ("cpu", DEVICE))
    if isinstance(want, Exception):
        assert isinstance(got, RuntimeError), (a.dtype, b.dtype, want, got)
    else:
        assert isinstance(got, torch.Tensor), (a.dtype, b.dtype, got)
        assert got.dtype == want.dtype and same_values(got.cpu(), want), (a.dtype, b.dtype)


@pytest.mark.parametrize("dtype", COMPUTING, ids=str)
def test_promotion_of_tensors(dtype):
    for other in COMPUTING[COMPUTING.index(dtype) :]:
        promotes(torch.ones(2).to(dtype), torch.ones(2).to(other))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, *HALVES, torch.float64, torch.complex64], ids=str
)
def test_promotion_of_zero_dim_tensors_and_numbers(dtype):
    for other in (torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float64, torch.complex128):
        promotes(torch.ones(2).to(dtype), torch.tensor(1).to(other))
        promotes(torch.tensor(1).to(dtype), torch.tensor(1).to(other))
    for number in (True, 2, 0.1, 1j):
        cpu = torch.ones(2).to(dtype)
        got = cpu.to(DEVICE) * number
        assert got.dtype == (cpu * number).dtype and same_values(got.cpu(), cpu * number), number


# ---- complex numbers of halves ----


def test_complex32_is_computed_in_complex64_and_rounded_once():
    torch.manual_seed(0)
    a, b = (torch.randn(64, dtype=torch.complex64).to(torch.complex32) for _ in range(2))
    x, y = a.to(DEVICE), b.to(DEVICE)
    for op in (torch.add, torch.sub, torch.mul):
        wide = op(a.to(torch.complex64), b.to(torch.complex64)).to(torch.complex32)
        assert torch.equal(torch.view_as_real(op(x, y).cpu()), torch.view_as_real(wide))


def test_complex32_is_seen_through_its_parts():
    cpu = torch.complex(torch.arange(6.0).half(), -torch.arange(6.0).half()).view(2, 3)
    x = torch.complex(cpu.real.contiguous().to(DEVICE), cpu.imag.contiguous().to(DEVICE))
    assert x.dtype == torch.complex32
    for look in (torch.view_as_real, lambda t: t.real, lambda t: t.imag, lambda t: t.t().imag, lambda t: t[:, 1:].real):
        assert torch.equal(look(x).cpu(), look(cpu))
    assert torch.equal(torch.view_as_real(x.conj().resolve_conj().cpu()), torch.view_as_real(cpu.conj().resolve_conj()))
    assert torch.equal(torch.view_as_real(-x).cpu(), torch.view_as_real(-cpu))
    assert torch.equal(x.mH.imag.cpu(), cpu.mH.imag)
    x.imag.add_(1)
    assert torch.equal(x.imag.cpu(), cpu.imag + 1) and torch.equal(x.real.cpu(), cpu.real)
    assert torch.equal(torch.view_as_complex(torch.view_as_real(cpu).to(DEVICE)).real.cpu(), cpu.real)


def test_complex32_is_differentiated_through():
    x = torch.arange(4.0).to(DEVICE).requires_grad_()
    torch.view_as_real(x.chalf() * 2).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((4,), 2.0))


def test_numbers_fill_every_dtype():
    for dtype, number in itertools.product([*COMPLEX, *FLOAT8, *FLOATS], (0, 1, 2.5, 0.1)):
        want = torch.full((2,), number, dtype=dtype)
        assert same_values(torch.full((2,), number, dtype=dtype, device=DEVICE).cpu(), want), (dtype, number)
        assert same_values(torch.zeros(2, dtype=dtype, device=DEVICE).fill_(number).cpu(), want), (dtype, number)
