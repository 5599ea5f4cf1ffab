"""Reading and writing by index, and results whose size depends on the data, against the CPU. What PyTorch's operator
database covers is not repeated: this is about combinations of indices, repeated and negative ones, sizes of zero, and
that a changing number does not compile again."""

import pytest
import torch
from twins import DEVICE, agree


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch.manual_seed(0)
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


ROWS = torch.tensor([[0, -1], [2, 1]])
COLUMNS = torch.tensor([1, 3])
MASK = torch.tensor([True, False, True])

# x, and the three tensors above on its device.
INDICES = {
    "one": lambda x, i, j, m: x[i],
    "adjacent": lambda x, i, j, m: x[:, i, j],
    "apart": lambda x, i, j, m: x[i, :, j],
    "after a slice": lambda x, i, j, m: x[1:, ::2, j],
    "with None": lambda x, i, j, m: x[None, i, None],
    "with an ellipsis": lambda x, i, j, m: x[..., j],
    "with a number": lambda x, i, j, m: x[:, 1, j],
    "mask": lambda x, i, j, m: x[m],
    "mask and index": lambda x, i, j, m: x[m, :2, j],
    "mask of two dimensions": lambda x, i, j, m: x[x[..., 0] > 0],
    "nothing": lambda x, i, j, m: x[j[:0]],
    "nothing is true": lambda x, i, j, m: x[x > 1e6],
}


@pytest.mark.parametrize("name", INDICES)
def test_reading(name):
    agree(INDICES[name], torch.randn(3, 4, 5), ROWS, COLUMNS, MASK)


@pytest.mark.parametrize("name", ["one", "adjacent", "apart", "mask", "mask and index", "nothing"])
def test_gradient_of_reading(name):
    def gradient(x, *indices):
        x = x.detach().requires_grad_()
        INDICES[name](x, *indices).square().sum().backward()
        return x.grad

    agree(gradient, torch.randn(3, 4, 5), ROWS, COLUMNS, MASK)


def test_writing():
    def write(x, i, j, values):
        x = x.clone()
        x[i, :, j] = values
        x[-1] = 7
        x[:, 1:3, 0] += 1
        x[x < -1] = 0
        return x

    agree(write, torch.randn(3, 4, 5), ROWS, COLUMNS, torch.randn(4))


def test_repeated_indices_add_up():
    index = torch.tensor([0, 2, 0, 0])
    ones = torch.ones(4, 2)
    agree(lambda x, i, v: x.index_put((i,), v, accumulate=True), torch.zeros(3, 2), index, ones)
    agree(lambda x, i, v: x.index_add(0, i, v, alpha=2), torch.zeros(3, 2), index, ones)
    agree(lambda x, i, v: x.scatter_add(0, i[:, None].expand(4, 2), v), torch.zeros(3, 2), index, ones)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_scatter_reduce(reduce, include_self, dtype):
    x, src = (torch.randn(4, 3) * 5).to(dtype), (torch.randn(6, 2) * 5).to(dtype)
    index = torch.randint(0, 4, (6, 2))
    agree(lambda *a: a[0].scatter_reduce(0, a[1], a[2], reduce, include_self=include_self), x, index, src)


def test_embedding_gradient_leaves_padding_out():
    def gradient(weight, indices):
        weight = weight.detach().requires_grad_()
        torch.nn.functional.embedding(indices, weight, padding_idx=1, scale_grad_by_freq=True).sum().backward()
        return weight.grad

    agree(gradient, torch.randn(4, 3), torch.tensor([[0, 1, 2], [0, 0, 1]]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    def both(weight, indices, offsets):
        weight = weight.detach().requires_grad_()
        result = torch.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, padding_idx=2)
        result.square().sum().backward()
        return result.detach(), weight.grad

    agree(both, torch.randn(5, 3), torch.tensor([0, 4, 2, 2, 1, 0]), torch.tensor([0, 2, 2, 4]))


def test_sizes_that_depend_on_data():
    x = torch.tensor([[3, 0, 3], [0, 1, 1]])
    agree(lambda a: a.nonzero(), x)
    agree(lambda a: a[0, 0].nonzero(), x)
    agree(lambda a: a[:0].nonzero(), x)
    agree(lambda a: torch.unique(a, return_inverse=True, return_counts=True), x)
    agree(lambda a: torch.unique(a, dim=1, return_inverse=True, return_counts=True), x)
    agree(lambda a: torch.unique_consecutive(a, return_inverse=True, return_counts=True), x)
    agree(lambda a: torch.unique_consecutive(a, dim=0), x)
    agree(lambda a: a.flatten().bincount(minlength=6), x)
    agree(lambda a: torch.repeat_interleave(a, torch.tensor([2, 0], device=a.device), dim=0), x)
    agree(lambda a: a.masked_select(a > 0), x)


@pytest.mark.parametrize("n", [0, 1, 191, 192, 193])
def test_every_size_is_told_from_the_count(n):
    """192 = 0xC0 was the mark of the program that counts, so that 192 elements came back as their number."""
    x = torch.arange(n)
    there = x.to(DEVICE)
    for function in (
        lambda x: x.masked_select(x >= 0),
        lambda x: (x >= 0).nonzero(),
        lambda x: x[x >= 0],
        lambda x: x.unique(),
        lambda x: torch.ones_like(x).repeat_interleave(torch.ones_like(x)),
        lambda x: x.bincount(),
    ):
        want, got = function(x), function(there)
        assert got.shape == want.shape
        assert torch.equal(got.cpu(), want)


def test_unique_keeps_every_nan():
    agree(torch.unique, torch.tensor([1.0, float("nan"), 1.0, float("nan"), -0.0, 0.0]))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [5, 500])
def test_searchsorted(n, right):
    edges = torch.randn(3, n).sort().values
    values = torch.cat([torch.randn(3, 40), edges[:, :3], torch.full((3, 1), float("nan"))], 1)
    agree(lambda e, v: torch.searchsorted(e, v, right=right), edges, values)
    agree(lambda e, v: torch.bucketize(v, e[0], right=right, out_int32=True), edges, values)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_puts_nan_where_the_cpu_does(descending):
    x = torch.randn(4, 9)
    x[0, 2] = x[0, 5] = float("nan")
    x[1, 3], x[1, 4] = float("inf"), float("-inf")
    agree(lambda a: a.sort(dim=1, descending=descending, stable=True), x)
    agree(lambda a: a.topk(3, largest=descending)[0], x)
    agree(lambda a: (a.median(1), a.nanmedian(1))[0], x)


def test_topk_of_long_rows():
    x = torch.randn(2, 5000)
    x[0, 77] = float("nan")
    agree(lambda a: a.topk(5), x)
    agree(lambda a: a.t().topk(5, dim=0), x)


def test_scans_keep_place():
    x = torch.tensor([[2, 5, 5, 1, 7, 7], [1, 1, 0, 3, 2, 3]])
    agree(lambda a: a.cummax(1), x)
    agree(lambda a: a.cummin(1), x)
    agree(lambda a: a.to(torch.bool).cumsum(0), x)
    far = torch.tensor([-1000.0, 0.0, 1000.0, float("-inf"), 999.0])
    agree(lambda a: a.logcumsumexp(0), far)


def compiled(function):
    before = torch.tpu.compile_stats()["programs"]
    function()
    return torch.tpu.compile_stats()["programs"] - before


def test_a_moving_start_compiles_once():
    torch.arange(5, 9, device=DEVICE)
    assert compiled(lambda: [torch.arange(n, n + 4, device=DEVICE) for n in range(20)]) == 0
    assert torch.arange(2, 8, 3, device=DEVICE).tolist() == [2, 5]
    assert torch.arange(1, 0, -0.25, device=DEVICE).tolist() == [1, 0.75, 0.5, 0.25]


ZEROS = torch.zeros(1, 9, dtype=torch.long)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x, zeros: x[0, 0, 0], IndexError),
        (lambda x, zeros: x[zeros[0, :2], zeros[0, :3]], IndexError),
        (lambda x, zeros: x.gather(2, zeros), IndexError),
        (lambda x, zeros: x.gather(0, zeros), RuntimeError),
        (lambda x, zeros: x.index_add(0, zeros[0, :2], x[:1]), RuntimeError),
        (lambda x, zeros: x.topk(9), RuntimeError),
        (lambda x, zeros: torch.arange(1, 0, device=x.device), RuntimeError),
        (lambda x, zeros: torch.cat([x, x[:, :1]]), RuntimeError),
    ],
)
def test_errors_are_those_of_the_cpu(function, error):
    x = torch.randn(3, 4)
    with pytest.raises(error):
        function(x, ZEROS)
    with pytest.raises(error):
        function(x.to(DEVICE), ZEROS.to(DEVICE))
