"""Sparse tensors: what PyTorch's CPU gives, on the device; layouts, `is_coalesced` and gradients included."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from twins import same

COO, CSR = torch.sparse_coo, torch.sparse_csr
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.complex64]


@pytest.fixture(autouse=True)
def settings():
    """Nothing goes by way of the CPU."""
    torch.sparse.check_sparse_tensor_invariants.disable()
    before, torch.tpu.config.fallback = torch.tpu.config.fallback, "error"
    yield
    torch.tpu.config.fallback = before


def make(device, *sizes, nnz=9, dense=(), dtype=torch.float32, seed=0):
    """Uncoalesced: some places come more than once."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.stack([torch.randint(size, (nnz,), generator=generator) for size in sizes])
    values = torch.randint(-8, 9, (nnz, *dense), generator=generator).to(dtype)
    return torch.sparse_coo_tensor(indices.to(device), values.to(device), sizes + dense)


def agree(f):
    """What f(device) gives on both, and what it adds to .grad."""
    for want, got in zip(*map(_leaves, (f("cpu"), f("tpu"))), strict=True):
        if isinstance(want, torch.Tensor) and want.layout != torch.strided:
            assert got.device.type == "tpu" and got.layout == want.layout
            if want.layout == COO:
                assert (want.is_coalesced(), want.sparse_dim()) == (got.is_coalesced(), got.sparse_dim())
                assert not want.is_coalesced() or torch.equal(want.indices(), got.indices().cpu())
            want, got = want.to_dense(), got.to_dense()
        same(want, got, rtol=1e-4, atol=1e-5)


def _leaves(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


# ---- construction, metadata, copies ----


@pytest.mark.parametrize("dtype", DTYPES + [torch.bool])
def test_coalesce_and_dense_in_every_dtype(dtype):
    agree(lambda d: [make(d, 4, 6, dtype=dtype).coalesce(), make(d, 4, 6, dtype=dtype).to_dense()])


def test_coalesce_of_rows_and_of_nothing():
    agree(lambda d: [make(d, 4, dense=(3,)).coalesce(), make(d, 4, 6, nnz=0).coalesce(), make(d, 4, nnz=1).coalesce()])


def test_coalesce_sums_what_is_there_twice():
    x = torch.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), device="tpu")
    assert (x._nnz(), x.is_coalesced()) == (3, False)
    x = x.coalesce()
    assert (x.indices().tolist(), x.values().tolist()) == ([[0, 1], [0, 2]], [4.0, 8.0])
    assert x.is_coalesced() and x._nnz() == 2


@pytest.mark.parametrize(
    "f",
    [
        lambda d: torch.sparse_coo_tensor([[0, 3], [1, 2]], [1.0, 2.0], (4, 4), device=d),
        lambda d: torch.sparse_coo_tensor(torch.tensor([[0, 3], [1, 2]], device=d), torch.ones(2, device=d)),
        lambda d: torch.sparse_coo_tensor([[0, 3]], [1.0, 2.0], (4,), device=d, check_invariants=True),
        lambda d: torch.sparse_coo_tensor(size=(3, 4), device=d).coalesce(),
        lambda d: torch.zeros(2, 3, layout=COO, device=d),
        lambda d: torch.zeros_like(make(d, 3, 4)),
        lambda d: torch.empty_like(make(d, 3, 4)).copy_(make(d, 3, 4)),
        lambda d: make("cpu", 3, 4).to(d),
        lambda d: make(d, 3, 4).to(torch.float64),
        lambda d: make(d, 3, 4).clone(),
        lambda d: copy.deepcopy(make(d, 3, 4)),
        lambda d: make(d, 3, 4).zero_(),
        lambda d: make(d, 3, 4).sparse_resize_((5, 6), 2, 0),
        lambda d: [make(d, 3, 4)._nnz(), make(d, 3, 4, dense=(2,)).dense_dim(), make(d, 3).is_coalesced()],
        lambda d: [make(d, 3, 4)._indices(), make(d, 3, 4)._values()],
        lambda d: torch.tensor([[0, 1.0], [2, 0]], device=d).to_sparse(),
        lambda d: torch.tensor([[0, 1.0], [2, 0], [0, 0]], device=d).to_sparse(1),
        lambda d: torch.zeros(3, 3, device=d).to_sparse(),
        lambda d: torch.tensor(3.0, device=d).to_sparse() * 2,
        lambda d: make(d, 3, 4).cpu().to(d),
        lambda d: torch._sparse_broadcast_to(make(d, 1, 6), (4, 6)),
    ],
)
def test_construction_and_copies(f):
    agree(f)


def test_copies_stay_on_the_host_or_the_device():
    x = make("cpu", 3, 4)
    assert x.to("tpu").device == torch.device("tpu:0") and x.to("tpu").is_sparse
    assert torch.equal(x.to("tpu").cpu().to_dense(), x.to_dense())


def test_save_and_load():
    file = io.BytesIO()
    torch.save({"x": make("tpu", 3, 4)}, file)
    file.seek(0)
    x = torch.load(file)["x"]
    assert x.device.type == "tpu" and torch.equal(x.to_dense().cpu(), make("cpu", 3, 4).to_dense())


def test_printing():
    text = repr(make("tpu", 3, 4, nnz=2))
    assert "device='tpu:0'" in text and "layout=torch.sparse_coo" in text and "nnz=2" in text
    assert text.replace("device='tpu:0', ", "") == repr(make("cpu", 3, 4, nnz=2))


# ---- arithmetic ----

ZERO_PRESERVING = [
    "abs",
    "asin",
    "asinh",
    "atan",
    "ceil",
    "deg2rad",
    "erf",
    "expm1",
    "floor",
    "frac",
    "log1p",
    "nan_to_num",
    "neg",
    "rad2deg",
    "relu",
    "round",
    "sgn",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


@pytest.mark.parametrize("name", ZERO_PRESERVING)
def test_functions_that_keep_zero(name):
    agree(lambda d: getattr(make(d, 4, 6), name)())
    agree(lambda d: getattr(make(d, 4, 6).coalesce(), name + "_")())


@pytest.mark.parametrize("name", ["isnan", "isinf", "isposinf", "isneginf", "signbit"])
def test_questions_about_values(name):
    agree(lambda d: getattr(make(d, 4, 6), name)())


@pytest.mark.parametrize(
    "f",
    [
        lambda d: make(d, 4, 6) + make(d, 4, 6, seed=2),
        lambda d: make(d, 4, 6).coalesce() + make(d, 4, 6, seed=2).coalesce(),
        lambda d: make(d, 4, 6) - make(d, 4, 6, seed=2),
        lambda d: make(d, 4, 6).add_(make(d, 4, 6, seed=2), alpha=3),
        lambda d: make(d, 4, 6, dtype=torch.int64) + make(d, 4, 6, seed=2),
        lambda d: make(d, 4, 6) + torch.sparse_coo_tensor(size=(4, 6), device=d),
        lambda d: torch.sparse_coo_tensor(size=(4, 6), device=d) + make(d, 4, 6),
        lambda d: torch.ones(4, 6, device=d) + make(d, 4, 6),
        lambda d: torch.ones(4, 6, device=d) - make(d, 4, 6),
        lambda d: torch.ones(4, 6, device=d).add_(make(d, 4, 6), alpha=-0.5),
        lambda d: torch.ones(6, 4, device=d).t().add_(make(d, 4, 6)),
        lambda d: torch.ones(4, 6, 3, device=d) + make(d, 4, 6, dense=(3,)),
        lambda d: torch.zeros(4, 6, dtype=torch.bool, device=d) + make(d, 4, 6, dtype=torch.bool),
        lambda d: torch.ones(4, 6, device=d, dtype=torch.int64) + make(d, 4, 6),
        lambda d: make(d, 4, 6) * 2.5,
        lambda d: make(d, 4, 6).mul_(3),
        lambda d: make(d, 4, 6) * torch.tensor(2.0, device=d),
        lambda d: make(d, 4, 6) * torch.arange(6.0, device=d),
        lambda d: torch.arange(24.0, device=d).view(4, 6) * make(d, 4, 6),
        lambda d: make(d, 4, 6) * make(d, 4, 6, seed=2),
        lambda d: make(d, 4, 6, dense=(2,)).mul_(make(d, 4, 6, dense=(2,), seed=2)),
        lambda d: make(d, 4, 6) / 2,
        lambda d: make(d, 4, 6).div(2, rounding_mode="floor"),
        lambda d: make(d, 4, 6) // 2,
        lambda d: make(d, 4, 6) ** 2,
        lambda d: make(d, 4, 6).norm(),
        lambda d: make(d, 4, 6).bool().any(),
    ],
)
def test_arithmetic(f):
    agree(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda d: make(d, 4, 6).sum(),
        lambda d: make(d, 4, 6).sum(0),
        lambda d: make(d, 4, 6).sum(0, keepdim=True),
        lambda d: torch.sparse.sum(make(d, 4, 6)),
        lambda d: torch.sparse.sum(make(d, 4, 6, dense=(3,)), 0),
        lambda d: torch.sparse.sum(make(d, 4, 6, dense=(3,)), (0, 1)),
        lambda d: torch.sparse.sum(make(d, 4, 6, dense=(3,)), (1, 2)),
        lambda d: [torch.sparse.softmax(make(d, 4, 6, dense=(3,)), dim) for dim in (0, 1, 2)],
        lambda d: [torch.sparse.log_softmax(make(d, 4, 6, dense=(3,)), dim) for dim in (0, 1, 2)],
        lambda d: torch.sparse.softmax(make(d, 7), 0),
    ],
)
def test_reductions_and_softmax(f):
    agree(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda d: make(d, 4, 6).t(),
        lambda d: make(d, 4, 6, 3).permute(2, 0, 1),
        lambda d: make(d, 4, 6).unsqueeze(1),
        lambda d: make(d, 4, 6).select(1, 2),
        lambda d: make(d, 4, 6)[1],
        lambda d: make(d, 4, 6).narrow_copy(0, 1, 2),
        lambda d: make(d, 4, 6).index_select(0, torch.tensor([3, 0, 0], device=d)),
        lambda d: make(d, 4, 6).index_select(1, torch.tensor([5, -1, 2], device=d)),
        lambda d: make(d, 4, 6, dense=(3,)).index_select(2, torch.tensor([2, 0], device=d)),
        lambda d: torch.cat([make(d, 4, 6), make(d, 4, 6, seed=3)], 1),
        lambda d: torch.stack([make(d, 4, 6), make(d, 4, 6, seed=3)]),
        lambda d: torch.arange(24.0, device=d).view(4, 6).sparse_mask(make(d, 4, 6)),
        lambda d: torch.arange(72.0, device=d).view(4, 6, 3).sparse_mask(make(d, 4, 6, dense=(3,))),
        lambda d: make(d, 4, 6).coalesce().sparse_mask(make(d, 4, 6, seed=2).coalesce()),
    ],
)
def test_selection(f):
    agree(f)


# ---- products of matrices ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex64])
def test_sparse_times_dense(dtype):
    agree(lambda d: torch.sparse.mm(make(d, 4, 6, dtype=dtype), torch.arange(18, device=d).to(dtype).view(6, 3)))


def test_halves_are_summed_in_float():
    n = 512
    ones = torch.sparse_coo_tensor([[0] * n, list(range(n))], [1.0] * n, (1, n), dtype=torch.bfloat16, device="tpu")
    assert torch.sparse.mm(ones, torch.ones(n, 1, dtype=torch.bfloat16, device="tpu")).item() == n


@pytest.mark.parametrize(
    "f",
    [
        lambda d: torch.mm(torch.ones(2, 4, device=d), make(d, 4, 6)),
        lambda d: make(d, 4, 6) @ torch.ones(6, 2, device=d),
        lambda d: make(d, 4, 6).mv(torch.arange(6.0, device=d)),
        lambda d: torch.addmm(torch.ones(2, device=d), make(d, 4, 6), torch.ones(6, 2, device=d), beta=2, alpha=0.5),
        lambda d: torch.sparse.addmm(torch.ones(4, 2, device=d), make(d, 4, 6), torch.ones(6, 2, device=d)),
        lambda d: torch.full((4, 2), torch.nan, device=d).addmm_(make(d, 4, 6), torch.ones(6, 2, device=d), beta=0),
        lambda d: torch.bmm(make(d, 2, 4, 6), torch.arange(36.0, device=d).view(2, 6, 3)),
        lambda d: torch.sparse.mm(make(d, 4, 6), make(d, 6, 5, seed=1)).coalesce(),
        lambda d: torch.sparse.mm(make(d, 4, 6), torch.sparse_coo_tensor(size=(6, 5), device=d)).coalesce(),
        lambda d: torch.hspmm(make(d, 4, 6), torch.ones(6, 2, device=d)).coalesce(),
        lambda d: torch.sspaddmm(make(d, 4, 2), make(d, 4, 6), torch.ones(6, 2, device=d), beta=2, alpha=3).coalesce(),
        lambda d: torch.smm(make(d, 4, 6), torch.ones(6, 2, device=d)).coalesce(),
    ],
)
def test_matrix_products(f):
    agree(f)


# ---- gradients ----


def leaf(x):
    return x.detach().requires_grad_()


def test_gradients_of_products():
    def products(d):
        sparse, dense = leaf(make(d, 4, 6)), leaf(torch.arange(18.0, device=d).view(6, 3))
        torch.sparse.mm(sparse, dense).pow(2).sum().backward()
        return sparse.grad, dense.grad

    def both_sparse(d):
        a, b = leaf(make(d, 4, 6)), leaf(make(d, 6, 5, seed=1))
        torch.sparse.sum(torch.sparse.mm(a, b)).backward()
        return a.grad.to_dense(), b.grad.to_dense()  # where they name zeros differs

    agree(products)
    agree(both_sparse)


@pytest.mark.parametrize("dims", [0, (0, 1), (1, 2), 2, (0, 1, 2)])
def test_gradients_of_sums(dims):
    def gradient(d):
        x = leaf(make(d, 4, 6, dense=(3,)))
        y = torch.sparse.sum(x, dims)
        (torch.sparse.sum(y * y) if y.is_sparse else y.pow(2).sum()).backward()
        return x.grad

    agree(gradient)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", [torch.sparse.softmax, torch.sparse.log_softmax])
def test_gradients_of_softmax(function, dim):
    def gradient(d):
        x = leaf(make(d, 4, 6, dense=(3,)).coalesce() / 8)
        (function(x, dim).to_dense() * torch.arange(72.0, device=d).view(4, 6, 3)).sum().backward()
        return x.grad

    agree(gradient)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * 2).to_dense().sum(),
        lambda x: torch.sparse.sum(x.relu()),
        lambda x: x.coalesce().values().pow(2).sum(),
        lambda x: (x + x).to_dense().pow(2).sum(),
    ],
)
def test_gradients_of_sparse_leaves(f):
    def gradient(d):
        x = leaf(make(d, 4, 6).coalesce())
        f(x).backward()
        return x.grad.coalesce() if x.grad.is_sparse else x.grad

    agree(gradient)


def test_gradients_through_conversions():
    def values(d):
        v = leaf(torch.tensor([2.0, 3.0], device=d))
        torch.sparse_coo_tensor([[0, 1], [1, 1]], v, (2, 2), device=d).to_dense().pow(2).sum().backward()
        return v.grad

    def dense(d):
        x = leaf(torch.tensor([[0, 1.0], [2, 0]], device=d))
        x.to_sparse().to_dense().pow(2).sum().backward()
        return x.grad

    agree(values)
    agree(dense)


# ---- embeddings and optimizers, without the CPU ----


def embedding(d, kind=nn.Embedding, **options):
    torch.manual_seed(0)
    return kind(10, 4, sparse=True, **options).to(d)


def test_sparse_gradients_accumulate():
    def twice(d):
        model, x = embedding(d, padding_idx=2), torch.tensor([[1, 2], [1, 9]], device=d)
        model(x).pow(2).sum().backward()
        model(x).sum().backward()
        return model.weight.grad

    def mixed(d):
        weight, x = leaf(torch.ones(10, 4, device=d)), torch.tensor([1, 2, 1], device=d)
        grads = []
        for loss in (lambda: F.embedding(x, weight, sparse=True).sum(), lambda: weight.pow(2).sum()) * 2:
            loss().backward()
            grads.append(weight.grad.clone())
        return grads

    agree(twice)
    agree(mixed)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag(mode):
    def gradient(d):
        model = embedding(d, nn.EmbeddingBag, mode=mode)
        model(torch.tensor([1, 2, 4, 1, 9], device=d), torch.tensor([0, 2], device=d)).pow(2).sum().backward()
        return model.weight.grad

    agree(gradient)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SparseAdam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
        lambda p: torch.optim.Adagrad(p, lr=0.1),
        lambda p: torch.optim.Adagrad(p, lr=0.1, foreach=True),
    ],
)
def test_optimizers(optimizer):
    def train(d):
        model = embedding(d)
        step = optimizer(model.parameters())
        for k in range(4):
            step.zero_grad()
            model(torch.tensor([[1, 2], [1, 9 - k]], device=d)).pow(2).sum().backward()
            step.step()
        return [
            model.weight,
            *(v for v in step.state[model.weight].values() if isinstance(v, torch.Tensor) and v.dim()),
        ]

    agree(train)


# ---- errors ----


@pytest.mark.parametrize(
    "f",
    [
        lambda d: make(d, 4, 6) + torch.ones(4, 6, device=d),
        lambda d: make(d, 4, 6) + make(d, 4, 5),
        lambda d: make(d, 4, 6) + make(d, 4, dense=(6,)),
        lambda d: torch.ones(4, 5, device=d) + make(d, 4, 6),
        lambda d: make(d, 4, 6) * make(d, 4, 5),
        lambda d: torch.sparse.mm(make(d, 4, 6), torch.ones(5, 2, device=d)),
        lambda d: torch.sparse.mm(make(d, 4, 6), make(d, 5, 2)),
        lambda d: torch.bmm(make(d, 2, 4, 6), torch.ones(2, 5, 3, device=d)),
        lambda d: make(d, 4, 6).indices(),
        lambda d: make(d, 4, 6).values(),
        lambda d: make(d, 4, 6).exp(),
        lambda d: make(d, 4, 6).sqrt_(),
        lambda d: torch.sparse_coo_tensor([[0, 9]], [1.0, 2.0], (4,), device=d, check_invariants=True),
        lambda d: torch.sparse_coo_tensor([[0, -1]], [1.0, 2.0], device=d),
        lambda d: make(d, 4, 6).index_select(0, torch.tensor([4], device=d)),
        lambda d: make(d, 4, 6).index_select(2, torch.tensor([0], device=d)),
        lambda d: torch.ones(4, 5, device=d).sparse_mask(make(d, 4, 6)),
        lambda d: make(d, 4, 6, dtype=torch.int64).add_(make(d, 4, 6)),
    ],
)
def test_errors_are_those_of_the_cpu(f):
    with pytest.raises(Exception) as want:
        f("cpu")
    with pytest.raises(want.type):
        f("tpu")


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: torch.sparse.mm(x, torch.ones(6, 2)),
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x.sparse_mask(y),
    ],
)
def test_devices_do_not_mix(f):
    with pytest.raises(RuntimeError, match="device"):
        f(make("tpu", 4, 6), make("cpu", 4, 6))


# ---- compressed rows (CSR) ----


def make_csr(device, *sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randint(-8, 9, sizes, generator=generator)
    dense[..., torch.rand(sizes[-2:], generator=generator) < 0.5] = 0  # batches: the same number of elements in each
    return dense.to(dtype).to(device).to_sparse_csr()


def counting(device, *sizes, dtype=torch.float32):
    return torch.arange(torch.Size(sizes).numel(), device=device).to(dtype).view(sizes)


@pytest.mark.parametrize(
    "f",
    [
        lambda d: torch.sparse_csr_tensor([0, 1, 3], [0, 0, 1], [1.0, 2.0, 3.0], (2, 2), device=d),
        lambda d: torch.sparse_csr_tensor([0, 1, 3], [0, 0, 1], [1.0, 2.0, 3.0], device=d, check_invariants=True),
        lambda d: [make_csr(d, 4, 5).crow_indices(), make_csr(d, 4, 5).col_indices(), make_csr(d, 4, 5).values()],
        lambda d: [make_csr(d, 4, 5), make_csr(d, 4, 5).to_sparse(), make_csr(d, 4, 5).to_sparse_csc()],
        lambda d: [make_csr(d, 2, 4, 5), make_csr(d, 2, 4, 5).to_sparse()],
        lambda d: [make(d, 4, 5).to_sparse_csr(), make(d, 4, 5).to_sparse_csc()],
        lambda d: [make_csr("cpu", 4, 5).to(d), make_csr(d, 4, 5).cpu().to(d), make_csr(d, 4, 5).double()],
        lambda d: [make_csr(d, 4, 5).clone(), make_csr(d, 4, 5).t(), torch.zeros_like(make_csr(d, 4, 5))],
        lambda d: [make_csr(d, 4, 5) * 2, -make_csr(d, 4, 5), make_csr(d, 4, 5).relu(), make_csr(d, 4, 5).sin()],
        lambda d: [make_csr(d, 4, 5) + make_csr(d, 4, 5, seed=1), make_csr(d, 4, 5) * make_csr(d, 4, 5, seed=1)],
        lambda d: [counting(d, 4, 5) + make_csr(d, 4, 5), make_csr(d, 4, 5) * counting(d, 4, 5)],
        lambda d: [make_csr(d, 4, 5).sum(), make_csr(d, 4, 5)[1], counting(d, 4, 5).sparse_mask(make_csr(d, 4, 5))],
        lambda d: [make_csr(d, 4, 5) @ counting(d, 5, 3), make_csr(d, 4, 5) @ counting(d, 5)],
        lambda d: [counting(d, 2, 4) @ make_csr(d, 4, 5), make_csr(d, 4, 5) @ make_csr(d, 5, 3, seed=1)],
        lambda d: torch.addmm(torch.ones(4, 3, device=d), make_csr(d, 4, 5), counting(d, 5, 3), beta=2, alpha=3),
    ],
)
def test_csr(f):
    agree(f)


def test_csr_printing():
    text = repr(make_csr("tpu", 4, 5))
    assert "device='tpu:0'" in text and text.replace("device='tpu:0', ", "") == repr(make_csr("cpu", 4, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_sampled_addmm(dtype, batch):
    def sampled(d):
        mats = counting(d, *batch, 4, 3, dtype=dtype), counting(d, *batch, 3, 5, dtype=dtype)
        return torch.sparse.sampled_addmm(make_csr(d, *batch, 4, 5, dtype=dtype), *mats, beta=0.5, alpha=2)

    agree(sampled)


@pytest.mark.parametrize("reduce", [None, "sum", "mean", "amax", "amin"])
def test_csr_products_and_their_gradients(reduce):
    def product(d):
        sparse, dense = leaf(make_csr(d, 4, 5)), leaf(counting(d, 5, 3))
        y = torch.sparse.mm(sparse, dense, reduce) if reduce else sparse @ dense
        y.pow(2).sum().backward()
        return y, sparse.grad, dense.grad

    agree(product)


def test_what_is_left_goes_by_the_cpu_and_is_counted():
    torch.tpu.config.fallback = "silent"
    torch.tpu.reset_fallbacks()
    agree(lambda d: torch.sparse.spdiags(counting(d, 3, 3), torch.tensor([-1, 0, 2], device=d), (4, 4)))
    agree(lambda d: make_csr(d, 4, 5).sum(1, keepdim=True))
    assert set(torch.tpu.fallbacks()) == {"aten::_spdiags", "aten::_sparse_csr_sum.dim_dtype"}
    torch.tpu.config.fallback = "error"
    with pytest.raises(NotImplementedError, match="_sparse_csr_sum"):
        make_csr("tpu", 4, 5).sum(1, keepdim=True)
