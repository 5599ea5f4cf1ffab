"""Special functions against PyTorch's CPU: over the whole range, at poles and limits, in every dtype the CPU has."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-7, torch.float16: 4e-3, torch.bfloat16: 2e-2}

BESSEL = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
]
CHEBYSHEV = [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS = [
    *CHEBYSHEV,
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


@pytest.fixture(autouse=True)
def no_fallbacks() -> Iterator[None]:
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def check(function: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> None:
    want = function(*arguments)
    got = function(*(argument.to("tpu") for argument in arguments)).cpu()
    tolerance = TOLERANCE.get(want.dtype, 0)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def line(dtype: torch.dtype) -> torch.Tensor:
    """The whole range of a function of one argument: dense around zero, sparse to both ends, edges and no numbers.

    Numbers below the smallest normal one are left out: the device may take them for zero.
    """
    middle = torch.linspace(-12, 12, 601, dtype=torch.float64)
    rest = torch.logspace(-30, 15, 181, dtype=torch.float64)
    edges = torch.tensor([0, -0.0, 2, 2.09, -2.09, 5, 8, 103.8, 103.9, 1e30, math.inf, -math.inf, math.nan])
    return torch.cat([middle, rest, -rest[:140], edges.double()]).to(dtype)


@pytest.mark.parametrize("name", BESSEL)
def test_bessel(name: str) -> None:
    function = getattr(torch.special, name)
    for dtype in torch.float32, torch.float64:
        check(function, line(dtype))
    for dtype in torch.int64, torch.uint8, torch.bool:
        check(function, torch.tensor([0, 1, 2, 7]).to(dtype))


@pytest.mark.parametrize("name", BESSEL)
def test_bessel_has_the_dtypes_of_the_cpu(name: str) -> None:
    function = getattr(torch.special, name)
    for dtype in torch.float16, torch.bfloat16, torch.complex64:
        for device in "cpu", "tpu":
            with pytest.raises(NotImplementedError):
                function(torch.ones(2, dtype=dtype, device=device))


def pairs(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[:, None], y


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    function = getattr(torch.special, name)
    middle = torch.linspace(-3, 3, 121, dtype=torch.float64)
    edges = torch.tensor([0, -0.0, 1, -1, 0.5, 2, 1 - 2**-20, 0.9999, -0.9999, 30, 1e10, -1e10, math.inf, -math.inf])
    x = torch.cat([middle, edges.double()])
    degrees = torch.cat([torch.arange(-2, 25), torch.tensor([40, 127, 128, 129, -1000])])
    check(function, *pairs(x, torch.cat([degrees, torch.tensor([512, 513])]).double()))
    check(function, *pairs(x.float(), degrees))
    check(function, *pairs(torch.tensor([-1, 0, 1, 2]), torch.tensor([False, True])))


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degrees_are_truncated(name: str) -> None:
    n = torch.tensor([2.7, -0.5, 3.999, math.nan, math.inf, -math.inf, 1e19, -1e30])
    check(getattr(torch.special, name), torch.full_like(n, 2.5), n)


@pytest.mark.strict
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_numbers_compile_nothing_new(name: str) -> None:
    function = getattr(torch.special, name)
    x, n = torch.tensor([0.3, 2.0]), torch.tensor([1.0, 3.0, 7.0])
    x_tpu, n_tpu = x.to("tpu"), n.to("tpu")
    function(x_tpu, 3), function(0.5, n_tpu)
    before = torch.tpu.compile_stats()["programs"]
    for k in 1, 4, 11:
        torch.testing.assert_close(function(x_tpu, k).cpu(), function(x, k))
        torch.testing.assert_close(function(0.1 * k, n_tpu).cpu(), function(0.1 * k, n))
    assert torch.tpu.compile_stats()["programs"] == before


def test_chebyshev_at_one_bit_from_the_end() -> None:
    """W_n(1 - e) is 2 n + 1 for small e. The CPU's shifted form gives the value at the other end there."""
    x = torch.tensor([1 - 2**-24], device="tpu")
    n = torch.arange(5.0, 12, device="tpu")
    torch.testing.assert_close(torch.special.shifted_chebyshev_polynomial_w(x, n), 2 * n + 1, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_division_by_a_number_is_correctly_rounded(dtype: torch.dtype) -> None:
    x = torch.arange(1, 200, dtype=dtype)
    for n in 41.0, 49.0, 10.0, 3.0:
        y = (x * n).to("tpu")
        for quotient in (
            y / n,
            y / torch.tensor(n, dtype=dtype, device="tpu"),
            torch.div(y, n, rounding_mode="trunc"),
            torch.div(y, n, rounding_mode="floor"),
            y // n,
        ):
            assert quotient.cpu().equal(x)


# --- incomplete gamma functions, gradients of samples ---


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma(name: str) -> None:
    """Every region of both, and their borders: small and large arguments, near each other and far."""
    edges = [0, -0.0, -1, 0.5, 1, 1.05, 1.1, 2, 5, 19.9, 20, 20.1, 25, 199, 201, 1000, math.inf, -math.inf, math.nan]
    values = torch.cat([torch.logspace(-12, 9, 43), torch.tensor(edges)]).double()
    a, x = pairs(values, values)
    for dtype in torch.float64, torch.float32:
        check(getattr(torch, name), a.to(dtype), x.to(dtype))
    near = torch.logspace(-2, 6, 200, dtype=torch.float64)[:, None]
    check(getattr(torch, name), near, near * torch.linspace(0.5, 1.5, 41, dtype=torch.float64))
    for half in torch.float16, torch.bfloat16:
        check(getattr(torch, name), near[:100].to(half), near[:100, 0].to(half))


def test_incomplete_gamma_has_a_gradient_by_x() -> None:
    a, x = torch.tensor([0.5, 2.0, 31.0]), torch.tensor([0.5, 3.0, 30.0])
    for function in torch.igamma, torch.igammac:
        check(lambda a, x, f=function: torch.func.grad(lambda x: f(a, x).sum())(x), a, x)


def test_gradients_of_gamma_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    for dtype in torch.float32, torch.float64:
        alpha = torch.exp(torch.rand(4000, generator=generator, dtype=torch.float64) * 12 - 4).to(dtype)
        sample = torch._standard_gamma(alpha, generator=generator)
        check(torch._standard_gamma_grad, alpha, torch.cat([sample[:-2], torch.tensor([0, 1e-30], dtype=dtype)]))


def test_gradients_of_dirichlet_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    for dtype in torch.float32, torch.float64:
        alpha = torch.exp(torch.rand(2000, 3, generator=generator, dtype=torch.float64) * 9 - 3).to(dtype)
        x = torch._sample_dirichlet(alpha, generator=generator)
        check(torch._dirichlet_grad, x, alpha, alpha.sum(-1, True).expand_as(alpha))


@pytest.mark.parametrize(
    "distribution",
    [torch.distributions.Gamma, torch.distributions.Beta, torch.distributions.StudentT, torch.distributions.Chi2],
)
def test_samples_have_gradients(distribution: type[torch.distributions.Distribution]) -> None:
    n = len(distribution.arg_constraints) if distribution is not torch.distributions.StudentT else 1
    parameters = [torch.full((50,), 2.5, device="tpu", requires_grad=True) for _ in range(n)]
    sample = distribution(*parameters).rsample()
    for gradient in torch.autograd.grad(sample.sum(), parameters):
        assert gradient.isfinite().all() and gradient.count_nonzero() > 0


# --- bits ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_frexp(dtype: torch.dtype) -> None:
    numbers = [0, -0.0, 1, -1, 0.5, 3, math.inf, -math.inf, math.nan, 1e-40, -1e-45, 3e38, 1e-310, -5e-324, 1e300, 0.1]
    x = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    for got, want in zip(torch.frexp(x.to("tpu")), torch.frexp(x), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
    assert torch.frexp(x.to("tpu"))[0][1].cpu().signbit()


def test_frexp_is_for_floats() -> None:
    for device in "cpu", "tpu":
        with pytest.raises(RuntimeError, match="floating-point"):
            torch.frexp(torch.ones(2, dtype=torch.int64, device=device))


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool],
)
def test_hash(dtype: torch.dtype) -> None:
    x = (torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)) * 50).to(dtype)
    if dtype.is_floating_point:
        x[0, 0] = torch.tensor([math.nan, -0.0, 1e-40, -1e-45, -math.inf]).to(dtype)
    for dim, keepdim in ((), False), (0, True), ((0, -1), False):
        check(lambda x, d=dim, k=keepdim: torch.hash_tensor(x, d, keepdim=k).view(torch.int64), x)


def test_hash_errors() -> None:
    for device in "cpu", "tpu":
        x = torch.ones(3, 2, device=device)
        for error, call in (
            (RuntimeError, lambda x=x: torch.hash_tensor(x, mode=1)),
            (RuntimeError, lambda x=x: torch.hash_tensor(x[:0])),
            (IndexError, lambda x=x: torch.hash_tensor(x[:0], 0)),
            (IndexError, lambda x=x: torch.hash_tensor(x, 5)),
            (NotImplementedError, lambda x=x: torch.hash_tensor(x + 1j)),
        ):
            with pytest.raises(error):
                call()
