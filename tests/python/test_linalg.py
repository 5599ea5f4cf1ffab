"""Linear algebra runs on the device: factors have the properties that define them, and everything has the CPU's values."""

import pytest
import torch
from native import LIBTPU, link_core, needs_libtpu, run_c

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.fixture(autouse=True)
def no_fallback():
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def on_tpu(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [x.to("tpu") for x in tensors]


def epsilon(dtype: torch.dtype, n: int = 8) -> float:
    """What n operations in a row may lose."""
    return 8 * n * torch.finfo(dtype).eps


def assert_near(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    """Relative to the largest element of `want`, in each matrix of a stack by itself."""
    got, want = got.cpu(), want.cpu()
    assert got.shape == want.shape and got.dtype == want.dtype
    scale = want.abs().amax((-2, -1), keepdim=True) if want.dim() > 1 else want.abs().max()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    assert ((got - want).abs() / scale).max() <= tolerance


def assert_orthonormal(columns: torch.Tensor) -> None:
    columns = columns.cpu()
    identity = torch.eye(columns.shape[-1], dtype=columns.dtype).expand(*columns.shape[:-2], -1, -1)
    assert_near(columns.mH @ columns, identity, epsilon(columns.dtype))


def assert_like_cpu(got, want) -> None:
    """Structure, dtypes, shapes and strides."""
    got = got if isinstance(got, tuple) else (got,)
    want = want if isinstance(want, tuple) else (want,)
    describe = [[(x.dtype, x.shape, x.stride()) for x in result] for result in (got, want)]
    assert describe[0] == describe[1]


def random_unitary(n: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(n, n, dtype=dtype))[0]


def hard_matrices(n: int, dtype: torch.dtype) -> torch.Tensor:
    """A stack of square matrices that are hard for an iteration: no rank, repeated values, all magnitudes."""
    torch.manual_seed(1)
    i = torch.arange(1, n + 1, dtype=torch.float64)
    large, small = (1e25, 1e-25) if torch.finfo(dtype).bits == 32 else (1e200, 1e-200)
    graded = (10.0 ** torch.linspace(0, -14, n, dtype=torch.float64)).to(dtype)
    nilpotent = torch.diag(torch.ones(n - 1), 1).to(dtype)
    matrices = [
        torch.zeros(n, n, dtype=dtype),
        torch.eye(n, dtype=dtype),
        torch.ones(n, n, dtype=dtype),
        -3 * random_unitary(n, dtype),
        torch.randn(n, 2, dtype=dtype) @ torch.randn(2, n, dtype=dtype),
        (1 / (i[:, None] + i - 1)).to(dtype),
        random_unitary(n, dtype) * graded @ random_unitary(n, dtype),
        nilpotent,
        torch.diag(i.flip(0)).to(dtype),
        torch.randn(n, n, dtype=dtype) * large,
        torch.randn(n, n, dtype=dtype) * small,
        torch.diag(torch.cat([torch.full((n // 2,), 2.0), torch.full((n - n // 2,), -2.0)])).to(dtype),
    ]
    return torch.stack(matrices)


# ---- singular values ----


def check_svd(a: torch.Tensor, full: bool) -> None:
    (x,) = on_tpu(a)
    u, s, vh = got = torch.linalg.svd(x, full_matrices=full)
    assert_like_cpu(got, torch.linalg.svd(a, full_matrices=full))
    k = min(a.shape[-2:])
    assert_orthonormal(u)
    assert_orthonormal(vh.mH)
    assert_near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, epsilon(a.dtype))
    assert (s >= 0).all() and (s.diff(dim=-1) <= 0).all()
    want = torch.linalg.svdvals(a)
    for values in (s, torch.linalg.svdvals(x)):
        assert_near(values[..., None], want[..., None], epsilon(a.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [6, 7])
def test_svd_of_hard_matrices(dtype: torch.dtype, n: int) -> None:
    check_svd(hard_matrices(n, dtype), False)


@pytest.mark.parametrize(
    ("shape", "full"),
    [((1, 1), True), ((5, 1), True), ((1, 4), False), ((2, 2), False), ((7, 4), True), ((7, 4), False), ((9, 3), True)]
    + [((3, 5), True), ((2, 8), False), ((2, 3, 4, 3), True)],
)
def test_svd_of_any_shape(shape: tuple[int, ...], full: bool) -> None:
    torch.manual_seed(2)
    check_svd(torch.randn(shape), full)


def test_svd_of_a_larger_matrix() -> None:
    torch.manual_seed(3)
    check_svd(torch.randn(90, 70) @ torch.diag(torch.logspace(0, -5, 70)), False)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 2, 3), (2, 0, 3)])
def test_svd_of_nothing(shape: tuple[int, ...]) -> None:
    a = torch.empty(shape)
    for full in (True, False):
        got, want = torch.linalg.svd(a.to("tpu"), full_matrices=full), torch.linalg.svd(a, full_matrices=full)
        assert_like_cpu(got, want)
        for x, y in zip(got, want, strict=True):
            assert torch.equal(x.cpu(), y)


def test_svd_gradient() -> None:
    torch.manual_seed(4)
    a = torch.randn(2, 4, 3, dtype=torch.float64)
    gradients = []
    for device in ("cpu", "tpu"):
        x = a.detach().to(device).requires_grad_()
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        (u.abs().sum() + (s**2).sum() + vh.abs().prod()).backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-9)


# ---- eigenvalues of Hermitian matrices ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [6, 7])
def test_eigh_of_hard_matrices(dtype: torch.dtype, n: int) -> None:
    a = hard_matrices(n, dtype)
    unit = a[1:] / a[1:].abs().amax((-2, -1), keepdim=True)
    a = torch.cat([a + a.mH, -unit @ unit.mH])
    (x,) = on_tpu(a)
    values, vectors = got = torch.linalg.eigh(x)
    want = torch.linalg.eigh(a)
    assert_like_cpu(got, want)
    assert_orthonormal(vectors)
    assert_near((vectors * values[..., None, :]) @ vectors.mH, a, epsilon(dtype))
    for found in (values, torch.linalg.eigvalsh(x)):
        assert (found.diff(dim=-1) >= 0).all()
        assert_near(found[..., None], want[0][..., None], epsilon(dtype))


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_reads_one_triangle(uplo: str) -> None:
    torch.manual_seed(5)
    a = torch.randn(3, 3, dtype=torch.complex64)
    (x,) = on_tpu(a)
    assert_near(torch.linalg.eigvalsh(x, UPLO=uplo)[None], torch.linalg.eigvalsh(a, UPLO=uplo)[None], 1e-5)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (1, 1), (2, 3, 4, 4)])
def test_eigh_of_any_shape(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape)
    got = torch.linalg.eigh(a.to("tpu"))
    assert_like_cpu(got, torch.linalg.eigh(a))
    if a.numel() > 0:
        assert_near(got[0][..., None], torch.linalg.eigvalsh(a)[..., None], 1e-5)


def test_eigh_gradient() -> None:
    torch.manual_seed(6)
    a = torch.randn(4, 4, dtype=torch.float64)
    gradients = []
    for device in ("cpu", "tpu"):
        x = a.detach().to(device).requires_grad_()
        values, vectors = torch.linalg.eigh(x + x.mT)
        ((values**3).sum() + vectors.abs().sum()).backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-9)


# ---- memory order ----


def matrices_of(function, device: str):
    torch.manual_seed(7)
    square, tall = torch.randn(2, 4, 4), torch.randn(2, 5, 3)
    positive, right = square @ square.mT + torch.eye(4), torch.randn(2, 4, 3)
    return function(*(x.to(device) for x in (square, tall, positive, right)))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, t, p, b: torch.linalg.inv_ex(a),
        lambda a, t, p, b: torch.linalg.cholesky_ex(p, upper=True),
        lambda a, t, p, b: torch.linalg.lu_factor_ex(t),
        lambda a, t, p, b: torch.linalg.lu(t),
        lambda a, t, p, b: torch.linalg.solve_ex(a, b),
        lambda a, t, p, b: torch.linalg.solve_ex(a, b.mT, left=False),
        lambda a, t, p, b: torch.linalg.solve(a, b[..., 0]),
        lambda a, t, p, b: torch.linalg.solve_triangular(a, b, upper=True),
        lambda a, t, p, b: torch.linalg.solve_triangular(a, b.mT, upper=True, left=False),
        lambda a, t, p, b: torch.cholesky_solve(b, p),
        lambda a, t, p, b: torch.cholesky_inverse(p),
        lambda a, t, p, b: torch.linalg.qr(t),
        lambda a, t, p, b: torch.linalg.qr(t, "complete"),
        lambda a, t, p, b: torch.linalg.qr(t.mT, "r"),
        lambda a, t, p, b: torch.geqrf(t),
        lambda a, t, p, b: torch.linalg.householder_product(*torch.geqrf(t)),
        lambda a, t, p, b: torch.ormqr(*torch.geqrf(a), b),
        lambda a, t, p, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
        lambda a, t, p, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b.mT, left=False),
    ],
)
def test_factors_lie_in_memory_as_on_the_cpu(function) -> None:
    """As LAPACK writes them: column after column."""
    want, got = matrices_of(function, "cpu"), matrices_of(function, "tpu")
    assert_like_cpu(tuple(got) if isinstance(got, tuple) else got, tuple(want) if isinstance(want, tuple) else want)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for x, y in pairs:
        torch.testing.assert_close(x.cpu(), y, rtol=1e-3, atol=1e-4)


# ---- the exponential ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exp(dtype: torch.dtype) -> None:
    """A small and a large matrix, one that only turns, a nilpotent one, and zero: each is scaled by itself."""
    torch.manual_seed(8)
    a = torch.randn(5, 3, 3, dtype=dtype)
    a[0] *= 1e-4
    a[1] *= 20
    a[2] = 40 * (a[2] - a[2].mH)
    a[3] = torch.diag(torch.ones(2), 1)
    a[4] = 0
    got = torch.linalg.matrix_exp(a.to("tpu"))
    assert_like_cpu(got, torch.linalg.matrix_exp(a))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    assert_near(got, torch.linalg.matrix_exp(a.to(wide)).to(dtype), 100 * epsilon(dtype))
    assert torch.equal(got[4].cpu(), torch.eye(3, dtype=dtype))
    assert torch.equal(got[3].cpu(), torch.tensor([[1, 1, 0.5], [0, 1, 1], [0, 0, 1]], dtype=dtype))


def test_matrix_exp_of_what_is_no_number() -> None:
    a = torch.zeros(3, 2, 2)
    a[0, 1, 0], a[1, 0, 0] = torch.nan, torch.inf
    got = torch.linalg.matrix_exp(a.to("tpu")).cpu()
    assert got[:2].isnan().all() and torch.equal(got[2], torch.eye(2))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (0, 2, 2), (3, 0, 0), (2, 3, 1, 1)])
def test_matrix_exp_of_any_shape(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape)
    got, want = torch.linalg.matrix_exp(a.to("tpu")), torch.linalg.matrix_exp(a)
    assert_like_cpu(got, want)
    torch.testing.assert_close(got.cpu(), want)


# ---- least squares ----


def least_squares(a: torch.Tensor, b: torch.Tensor, device: str, **options):
    return tuple(torch.linalg.lstsq(a.to(device), b.to(device), **options))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((2, 4, 3), (2, 4)), ((4, 3), (4,)), ((1, 4, 3), (2, 4, 2))],
)
def test_lstsq(driver: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    torch.manual_seed(9)
    a, b = torch.randn(a_shape, dtype=torch.float64), torch.randn(b_shape, dtype=torch.float64)
    got, want = least_squares(a, b, "tpu", driver=driver), least_squares(a, b, "cpu", driver=driver)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x.cpu(), y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_lstsq_without_full_rank(driver: str) -> None:
    """The solution of least norm; no residuals when one matrix of the stack lacks rank."""
    torch.manual_seed(10)
    a, b = torch.randn(2, 5, 3, dtype=torch.complex128), torch.randn(2, 5, 2, dtype=torch.complex128)
    a[1, :, 2] = a[1, :, 0]
    got, want = least_squares(a, b, "tpu", driver=driver), least_squares(a, b, "cpu", driver=driver)
    assert got[2].tolist() == [3, 2]
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x.cpu(), y, rtol=1e-9, atol=1e-9)


def test_lstsq_cuts_off_at_rcond() -> None:
    a, b = torch.diag(torch.tensor([4.0, 2.0, 1.0])), torch.ones(3, 1)
    got = least_squares(a, b, "tpu", rcond=0.3, driver="gelsd")
    torch.testing.assert_close(got[0].cpu(), torch.tensor([[0.25], [0.5], [0.0]]))
    assert got[2].item() == 2


@pytest.mark.parametrize("driver", ["gels", "gelsd"])
@pytest.mark.parametrize("shapes", [((0, 3), (0, 2)), ((3, 0), (3, 2)), ((0, 3, 2), (0, 3, 2)), ((2, 0, 3), (2, 0, 2))])
def test_lstsq_of_nothing(driver: str, shapes: tuple) -> None:
    a, b = (torch.randn(shape) for shape in shapes)
    got, want = least_squares(a, b, "tpu", driver=driver), least_squares(a, b, "cpu", driver=driver)
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
    assert not got[0].any()
    if got[1].numel() > 0:
        torch.testing.assert_close(got[1].cpu(), (b**2).sum(-2))


@pytest.mark.parametrize(
    ("a_shape", "b_shape", "driver"),
    [
        ((3,), (3,), None),
        ((5, 3), (4, 2), None),
        ((5, 3), (4,), None),
        ((5, 3), (4, 5, 2), None),
        ((5, 3), (5, 2), "x"),
    ],
)
def test_lstsq_that_cannot_be(a_shape: tuple[int, ...], b_shape: tuple[int, ...], driver: str | None) -> None:
    a, b = torch.randn(a_shape), torch.randn(b_shape)
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="lstsq: (input|parameter)"):
            least_squares(a, b, device, driver=driver)


# ---- torch.cholesky ----


@pytest.mark.filterwarnings("ignore:.*torch.cholesky is deprecated")
@pytest.mark.parametrize("upper", [False, True])
def test_deprecated_cholesky(upper: bool) -> None:
    torch.manual_seed(11)
    a = torch.randn(2, 4, 4, dtype=torch.complex128)
    a = a @ a.mH + torch.eye(4)
    got, want = torch.cholesky(a.to("tpu"), upper), torch.cholesky(a, upper)
    assert_like_cpu(got, want)
    torch.testing.assert_close(got.cpu(), want)
    out = torch.empty(0, dtype=a.dtype, device="tpu")
    assert torch.cholesky(a.to("tpu"), upper, out=out) is out
    torch.testing.assert_close(out.cpu(), want)


@pytest.mark.filterwarnings("ignore:.*torch.cholesky is deprecated")
def test_deprecated_cholesky_fails() -> None:
    for device in ("cpu", "tpu"):
        a = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1, 1]))]).to(device)
        with pytest.raises(torch.linalg.LinAlgError, match=r"cholesky: \(Batch element 1\).*minor of order 2"):
            torch.cholesky(a)
        with pytest.raises(RuntimeError, match="can't be cast|safely castable"):
            torch.cholesky(a[0], out=torch.empty(3, 3, dtype=torch.int32, device=device))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_ex_names_the_minor(dtype: torch.dtype, upper: bool) -> None:
    torch.manual_seed(12)
    a = torch.randn(1, 6, 6, dtype=dtype)
    a = (a @ a.mH + torch.eye(6, dtype=dtype)).repeat(8, 1, 1)
    for i in range(6):
        a[i, i, i] -= 100
    a[6, 2, 2] = torch.nan
    got, want = (torch.linalg.cholesky_ex(x, upper=upper) for x in (a.to("tpu"), a))
    assert got.info.tolist() == want.info.tolist() == [1, 2, 3, 4, 5, 6, 3, 0]
    assert_near(got.L[7], want.L[7], epsilon(dtype))


# ---- indefinite matrices ----


def indefinite(n: int, dtype: torch.dtype, hermitian: bool) -> torch.Tensor:
    """A stack in which pivots of one row and of two take turns, and which has one matrix of no rank."""
    torch.manual_seed(13)
    a = torch.randn(5, n, n, dtype=dtype)
    a[1] -= torch.diag(a[1].diagonal())
    a[2] = torch.diag(torch.ones(n - 1), 1)
    a[3, 2:] = a[3, :, 2:] = 0
    a[4] = a[4] @ a[4].mH
    return a + (a.mH if hermitian else a.mT)


@pytest.mark.parametrize("n", [2, 7])
@pytest.mark.parametrize(
    ("dtype", "hermitian"),
    [(dtype, False) for dtype in DTYPES] + [(torch.complex64, True), (torch.complex128, True)],
)
def test_ldl(n: int, dtype: torch.dtype, hermitian: bool) -> None:
    a, b = indefinite(n, dtype, hermitian), torch.randn(5, n, 2, dtype=dtype)
    want = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
    got = torch.linalg.ldl_factor_ex(a.to("tpu"), hermitian=hermitian)
    assert_like_cpu(tuple(got), tuple(want))
    assert torch.equal(got.pivots.cpu(), want.pivots) and torch.equal(got.info.cpu(), want.info)
    assert_near(got.LD, want.LD, 10 * epsilon(dtype))
    solvable = want.info == 0
    assert 3 <= solvable.sum() < 5 or n == 2
    x = torch.linalg.ldl_solve(got.LD, got.pivots, b.to("tpu"), hermitian=hermitian)
    y = torch.linalg.ldl_solve(want.LD, want.pivots, b, hermitian=hermitian)
    assert_like_cpu(x, y)
    residual = (a @ x.cpu() - b)[solvable].abs().amax((-2, -1))
    size = (a.abs().sum(-1).amax(-1) * x.cpu().abs().amax((-2, -1)))[solvable]
    assert (residual <= 10 * epsilon(dtype) * size).all()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (1, 1), (2, 2, 3, 3)])
def test_ldl_of_any_shape(shape: tuple[int, ...]) -> None:
    torch.manual_seed(14)
    a, b = torch.randn(shape), torch.randn(*shape[:-1], 2)
    got, want = torch.linalg.ldl_factor_ex(a.to("tpu")), torch.linalg.ldl_factor_ex(a)
    assert_like_cpu(tuple(got), tuple(want))
    x, y = torch.linalg.ldl_solve(*got[:2], b.to("tpu")), torch.linalg.ldl_solve(*want[:2], b)
    assert_like_cpu(x, y)
    torch.testing.assert_close(x.cpu(), y, rtol=1e-3, atol=1e-3)


# ---- what has no factors ----


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (torch.linalg.svd, torch.nan),
        (torch.linalg.svdvals, torch.nan),
        (torch.linalg.eigh, torch.nan),
        (torch.linalg.eigh, torch.inf),
        (torch.linalg.eigvalsh, torch.nan),
        (lambda a: torch.linalg.lstsq(a, a, driver="gels"), 0),
    ],
)
def test_what_has_no_factors_raises(function, bad: float, shape: tuple[int, ...]) -> None:
    """On the device at the next read."""
    for device in ("cpu", "tpu"):
        a = torch.eye(3).repeat(*shape[:-2], 1, 1).to(device)
        a[..., 1, :] = a[..., :, 1] = bad
        with pytest.raises(torch.linalg.LinAlgError if bad else RuntimeError, match="failed to converge|full rank"):
            [x.cpu() for x in function(a)]
            torch.accelerator.synchronize()


def test_eigh_ignores_the_other_triangle() -> None:
    a = torch.tensor([[2.0, torch.nan], [1.0, 2.0]])
    torch.testing.assert_close(torch.linalg.eigvalsh(a.to("tpu")).cpu(), torch.tensor([1.0, 3.0]))


# ---- the rows for a TPU ----


@needs_libtpu
@pytest.mark.parametrize("topology", ["v5e:1x1", "v6e:1x1"])
@pytest.mark.parametrize(
    ("shapes", "op", "n_results"),
    [
        ("5, 3", "_linalg_svd(A=%0, full_matrices=true, compute_uv=true)", 3),
        ("3, 5", "_linalg_svd(A=%0, full_matrices=false, compute_uv=false)", 3),
        ("2, 5, 5", '_linalg_eigh(A=%0, UPLO="L", compute_v=true)', 2),
        ("2, 4, 4", "linalg_matrix_exp(self=%0)", 1),
        ("2, 4, 4", "linalg_cholesky_ex(self=%0, upper=false)", 2),
        ("2, 4, 4", "linalg_ldl_factor_ex(self=%0, hermitian=false)", 3),
        ("4, 4", "linalg_ldl_solve(LD=%0, pivots=%1, B=%0, hermitian=false)", 1),
    ],
)
def test_it_compiles_for_a_tpu(tmp_path_factory, topology: str, shapes: str, op: str, n_results: int) -> None:
    program = tmp_path_factory.mktemp("aot") / "aot"
    link_core(program, "examples/c/aot.c")
    results = "".join(f"  return %2:{i}\n" for i in range(n_results))
    text = f"graph {{\n  %0 = input f32[{shapes}]\n  %1 = input i32[{shapes[-1]}]\n  %2 = {op}\n{results}}}\n"
    graph = program.parent / "op.graph"
    graph.write_text(text)
    assert "temporaries" in run_c(program, str(LIBTPU), topology, str(graph))


# ---- matrices that have no such decomposition ----

EYE = torch.eye(3)
HOPELESS = {
    "nan": torch.full((3, 3), torch.nan),
    "a nan above": EYE.index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(torch.nan)),
    "a nan below": EYE.index_put((torch.tensor(2), torch.tensor(1)), torch.tensor(torch.nan)),
    "inf": EYE.index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(torch.inf)),
    "zeros": torch.zeros(3, 3),
    "negative": -EYE,
    "one of two": torch.stack([EYE, torch.zeros(3, 3)]),
    "complex nan": torch.full((3, 3), torch.nan, dtype=torch.complex64),
}
DECOMPOSITIONS = {
    "svd": torch.linalg.svd,
    "svdvals": torch.linalg.svdvals,
    "eigh": torch.linalg.eigh,
    "eigh of the upper half": lambda x: torch.linalg.eigh(x, UPLO="U"),
    "eigvalsh": torch.linalg.eigvalsh,
    "cholesky": torch.linalg.cholesky,
    "cholesky_ex": lambda x: torch.linalg.cholesky_ex(x, check_errors=True),
    "inv": torch.linalg.inv,
    "inv_ex": lambda x: torch.linalg.inv_ex(x, check_errors=True),
    "solve": lambda x: torch.linalg.solve(x, x),
    "solve_ex": lambda x: torch.linalg.solve_ex(x, x, check_errors=True),
    "lu_factor": torch.linalg.lu_factor,
    "lu_factor_ex": lambda x: torch.linalg.lu_factor_ex(x, check_errors=True),
    "ldl_factor": torch.linalg.ldl_factor,
    "matrix_power": lambda x: torch.linalg.matrix_power(x, -1),
    "tensorinv": lambda x: torch.linalg.tensorinv(x, 1),
    "pinv": torch.linalg.pinv,
    "matrix_rank": torch.linalg.matrix_rank,
    "cond": torch.linalg.cond,
    "cond by inverse": lambda x: torch.linalg.cond(x, 1),
    "nuclear norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "det": torch.linalg.det,
}
OF_SYMMETRIC = [DECOMPOSITIONS[name] for name in ("eigh", "eigh of the upper half", "eigvalsh")]


def raised_by(operation, x):
    try:
        operation(x)
        torch.tpu.synchronize()
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize("operation", DECOMPOSITIONS.values(), ids=DECOMPOSITIONS)
def test_what_has_no_decomposition_raises_as_on_the_cpu(operation):
    for name, x in HOPELESS.items():
        if operation in OF_SYMMETRIC and name in ("inf", "a nan above", "a nan below"):
            continue  # raises here; on the CPU it depends on where the number stands
        assert raised_by(operation, x.to("tpu")) == raised_by(operation, x), name


@pytest.mark.parametrize("operation", [torch.linalg.svdvals, torch.linalg.eigvalsh])
def test_not_converging_is_a_linalg_error_at_the_read_too(operation):
    values = operation(HOPELESS["nan"].to("tpu"))
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
        values.cpu()


PRODUCTS = {
    "x @ w.t()": lambda x, w: x @ w.t(),
    "x.t() @ w": lambda x, w: x.t() @ w[: x.shape[0]],
    "both": lambda x, w: w.t() @ torch.cat([x, w])[:, :5].reshape(-1)[:35].view(5, 7).t(),
    "mH": lambda x, w: x @ w.mH,
    "vector": lambda x, w: x[0] @ w.t(),
    "batches": lambda x, w: x.expand(2, *x.shape).contiguous() @ torch.stack([w, -w]).mT,
    "heads": lambda x, w: x.view(x.shape[0], 2, -1).transpose(0, 1) @ w.view(w.shape[0], 2, -1).permute(1, 2, 0),
    "four": lambda x, w: torch.einsum("abk,cdk->dcba", x.view(-1, 1, x.shape[1]), w.view(w.shape[0], 1, -1)),
    "addmm": lambda x, w: torch.addmm(w[:, 0], x, w.t(), alpha=2),
}


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_products_of_transposed_views(rows, dtype):
    """Transposes become dimension numbers of the product, in one program with it or not."""
    x, w = torch.randint(-4, 5, (rows, 6)).to(dtype), torch.randint(-4, 5, (7, 6)).to(dtype)
    if dtype.is_complex:
        x, w = x + 1j, w - 2j
    there = on_tpu(x, w)
    for name, product in PRODUCTS.items():
        want = product(x, w)
        assert torch.equal(product(*there).cpu(), want), name
    torch._dynamo.reset()
    everything = lambda x, w: [product(x, w) for product in PRODUCTS.values()]  # noqa: E731
    compiled = torch.compile(everything, backend="tpu", dynamic=False)
    for name, got in zip(PRODUCTS, compiled(*there), strict=True):
        assert torch.equal(got.cpu(), PRODUCTS[name](x, w)), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int32], ids=str)
def test_cross_products_round_as_the_cpu_does(dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = ((torch.randn(500, 3, generator=generator) * 9).to(dtype) for _ in range(2))
    assert torch.equal(torch.linalg.cross(x.to("tpu"), y.to("tpu")).cpu(), torch.linalg.cross(x, y))
