"""Transforms of functions: torch.func, forward-mode AD, double backward. The conformance suite has every operator."""

import pytest
import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

DEVICE = "tpu"
X = torch.linspace(-1.0, 1.5, 12).view(3, 4)
W = torch.linspace(0.5, -0.7, 20).view(5, 4)


def net(w, x):
    return F.gelu(F.linear(x, w)).softmax(-1).pow(2).sum()


TRANSFORMS = {
    "grad": lambda w, x: grad(net)(w, x),
    "grad of each sample": lambda w, x: vmap(grad(net), (None, 0))(w, x),
    "vjp": lambda w, x: vjp(net, w, x)[1](torch.ones((), device=x.device)),
    "jvp": lambda w, x: jvp(net, (w, x), (w.flip(0), x.flip(0))),
    "jacrev": lambda w, x: jacrev(lambda x: F.linear(x, w).tanh())(x),
    "jacfwd": lambda w, x: jacfwd(lambda x: F.linear(x, w).tanh())(x),
    "hessian": lambda w, x: hessian(lambda x: net(w, x))(x[0]),
    "vmap over two batches": lambda w, x: vmap(vmap(torch.outer, (None, 0)), (0, None))(x, x),
    "vmap with in_dims": lambda w, x: vmap(torch.dot, (1, 1))(x, x),
    "vmap in chunks": lambda w, x: vmap(lambda row: row.cumsum(0), chunk_size=2)(x),
    "vmap of indexing": lambda w, x: vmap(lambda row, i: row[i])(x, torch.tensor([0, 3, 1], device=x.device)),
    "vmap of a convolution": lambda w, x: vmap(lambda row: F.conv1d(row.view(1, 1, 4), w[:1, None, :3]))(x),
    "vmap of a factorization": lambda w, x: vmap(
        lambda row: torch.linalg.inv(torch.outer(row, row) + torch.eye(4, device=x.device))
    )(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms(transform):
    torch.testing.assert_close(
        transform(W.to(DEVICE), X.to(DEVICE)), transform(W, X), check_device=False, rtol=1e-4, atol=1e-5
    )


ATTENTION = torch.linspace(-1.0, 1.0, 2 * 3 * 2 * 4 * 8).view(2, 3, 2, 4, 8)
ATTENDED = {
    "vmap": lambda x: vmap(lambda q: F.scaled_dot_product_attention(q, q, q.flip(-1)))(x),
    "vmap of grad": lambda x: vmap(
        grad(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum())
    )(x),
    "jacrev": lambda x: jacrev(lambda q: F.scaled_dot_product_attention(q, q, q).sum((0, 1, 3)))(x[0]),
}


@pytest.mark.parametrize("transform", ATTENDED.values(), ids=ATTENDED)
def test_attention(transform):
    """The fused attention has no batching rule: under vmap the composition of single ops runs."""
    torch.testing.assert_close(transform(ATTENTION.to(DEVICE)).cpu(), transform(ATTENTION), rtol=1e-4, atol=1e-5)


def test_attention_along_a_direction():
    x = ATTENTION[0]
    attend = lambda q: F.scaled_dot_product_attention(q, q, q.flip(-1))  # noqa: E731
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = jvp(attend, (x,), (x.flip(0),))
    got = jvp(attend, (x.to(DEVICE),), (x.flip(0).to(DEVICE),))
    torch.testing.assert_close([t.cpu() for t in got], list(want), rtol=1e-4, atol=1e-5)


def test_an_ensemble_of_modules():
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)) for _ in range(3)]
    want = torch.stack([model(X) for model in models])
    models = [model.to(DEVICE) for model in models]
    parameters, buffers = stack_module_state(models)
    got = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), (0, 0, None))(
        parameters, buffers, X.to(DEVICE)
    )
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like, lambda x: F.dropout(x, 0.5)])
def test_randomness(draw):
    x = torch.full((2, 64), 0.5, device=DEVICE)
    different = vmap(draw, randomness="different")(x)
    assert not torch.equal(different[0], different[1])
    same = vmap(draw, randomness="same")(x)
    assert torch.equal(same[0], same[1])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(draw)(x)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda row: row.nonzero(), RuntimeError),
        (lambda row: row.sum().item(), RuntimeError),
        (lambda row: row[row > 0], RuntimeError),
        (lambda row: row if row.sum() > 0 else -row, RuntimeError),
    ],
)
def test_what_vmap_refuses(function, error):
    with pytest.raises(error):
        vmap(function)(X)
    with pytest.raises(error):
        vmap(function)(X.to(DEVICE))


FORWARD = {
    "pointwise": lambda x: (x.sin() * x.exp()).tanh(),
    "matrix product": lambda x: x @ x.T,
    "reduction": lambda x: (x.logsumexp(1), x.std(0), x.norm()),
    "softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "indexing": lambda x: (x[:, ::2], x.gather(1, torch.zeros(3, 2, dtype=torch.long, device=x.device))),
    "in place": lambda x: x.clone().mul_(2).index_fill_(0, torch.tensor([1], device=x.device), 3.0),
    "scan": lambda x: (x.cumsum(0), x.cumprod(1), x.sort(1).values),
    "factorization": lambda x: torch.linalg.cholesky(x @ x.T + 2 * torch.eye(3, device=x.device)),
    "convolution": lambda x: F.conv1d(x[None], x[None, :, :2]),
    "no tangent": lambda x: (x.argmax(), torch.zeros_like(x)),
}


@pytest.mark.parametrize("function", FORWARD.values(), ids=FORWARD)
def test_forward_mode(function):
    results = []
    for device in ("cpu", DEVICE):
        x = X.to(device)
        with fwAD.dual_level():
            out = function(fwAD.make_dual(x, x.flip(0) + 0.5))
            parts = [fwAD.unpack_dual(t) for t in ((out,) if isinstance(out, torch.Tensor) else out)]
        results.append([(p.primal, p.tangent) for p in parts])
    for (want, want_tangent), (got, got_tangent) in zip(*results, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
        assert (got_tangent is None) == (want_tangent is None)
        if want_tangent is not None:
            torch.testing.assert_close(got_tangent.cpu(), want_tangent, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        net,
        lambda w, x: F.layer_norm(F.linear(x, w), (5,)).sigmoid().sum(),
        lambda w, x: (x[:, None] - w).square().sum(-1).logsumexp(0).sum(),
    ],
)
def test_double_backward(function):
    results = []
    for device in ("cpu", DEVICE):
        w, x = (t.to(device, copy=True).requires_grad_() for t in (W, X))
        first = torch.autograd.grad(function(w, x), (w, x), create_graph=True)
        results.append(torch.autograd.grad(sum(g.square().sum() for g in first), (w, x)))
    torch.testing.assert_close(results[1], results[0], check_device=False, rtol=1e-3, atol=1e-4)
