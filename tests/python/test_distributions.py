"""torch.distributions on the device: what they score is the CPU's, what they draw has the moments that it should."""

import pytest
import torch
from torch import distributions as dist

N_DRAWS = 20_000


@pytest.fixture(autouse=True)
def settings():
    """Nothing goes by way of the CPU."""
    before, torch.tpu.config.fallback = torch.tpu.config.fallback, "error"
    yield
    torch.tpu.config.fallback = before


COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]
ROWS = [[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]
# Class and parameters; each list becomes a tensor that wants a gradient.
EXAMPLES = {
    "Bernoulli": (dist.Bernoulli, [0.3, 0.6]),
    "Beta": (dist.Beta, [0.5, 2.0], [1.5, 3.0]),
    "Binomial": (lambda p: dist.Binomial(10, p), [0.3, 0.7]),
    "Categorical": (dist.Categorical, ROWS),
    "Cauchy": (dist.Cauchy, [0.0, 1.0], [1.0, 2.0]),
    "Chi2": (dist.Chi2, [1.0, 3.0]),
    "ContinuousBernoulli": (dist.ContinuousBernoulli, [0.3, 0.8]),
    "Dirichlet": (dist.Dirichlet, [0.5, 1.0, 2.0]),
    "Exponential": (dist.Exponential, [0.5, 2.0]),
    "FisherSnedecor": (dist.FisherSnedecor, [3.0, 5.0], [12.0, 15.0]),
    "Gamma": (dist.Gamma, [0.5, 3.0], [1.0, 2.0]),
    "GeneralizedPareto": (dist.GeneralizedPareto, [0.0, 1.0], [1.0, 2.0], [0.1, 0.1]),
    "Geometric": (dist.Geometric, [0.3, 0.6]),
    "Gumbel": (dist.Gumbel, [0.0, 1.0], [1.0, 2.0]),
    "HalfCauchy": (dist.HalfCauchy, [1.0, 2.0]),
    "HalfNormal": (dist.HalfNormal, [1.0, 2.0]),
    "Independent": (lambda m, s: dist.Independent(dist.Normal(m, s), 1), [0.0, 1.0], [1.0, 2.0]),
    "InverseGamma": (dist.InverseGamma, [5.0, 6.0], [1.0, 2.0]),
    "Kumaraswamy": (dist.Kumaraswamy, [1.0, 2.0], [1.0, 2.0]),
    "LKJCholesky": (lambda c: dist.LKJCholesky(3, c), [1.0, 2.0]),
    "Laplace": (dist.Laplace, [0.0, 1.0], [1.0, 2.0]),
    "LogNormal": (dist.LogNormal, [0.0, 0.3], [0.5, 0.3]),
    "LogisticNormal": (dist.LogisticNormal, [0.0, 0.3], [0.5, 0.3]),
    "LowRankMultivariateNormal": (dist.LowRankMultivariateNormal, [0.0, 1.0], [[1.0], [0.5]], [1.0, 2.0]),
    "MixtureSameFamily": (
        lambda p, m, s: dist.MixtureSameFamily(dist.Categorical(p), dist.Normal(m, s)),
        [0.3, 0.7],
        [0.0, 3.0],
        [1.0, 0.5],
    ),
    "Multinomial": (lambda p: dist.Multinomial(10, p), [0.2, 0.3, 0.5]),
    "MultivariateNormal": (dist.MultivariateNormal, [0.0, 1.0], COVARIANCE),
    "NegativeBinomial": (dist.NegativeBinomial, [3.0, 5.0], [0.3, 0.5]),
    "Normal": (dist.Normal, [0.0, 1.0], [1.0, 2.0]),
    "OneHotCategorical": (dist.OneHotCategorical, ROWS),
    "OneHotCategoricalStraightThrough": (dist.OneHotCategoricalStraightThrough, ROWS),
    "Pareto": (dist.Pareto, [1.0, 2.0], [6.0, 7.0]),
    "Poisson": (dist.Poisson, [0.5, 20.0]),
    "RelaxedBernoulli": (dist.RelaxedBernoulli, [0.7, 0.7], [0.3, 0.6]),
    "RelaxedOneHotCategorical": (dist.RelaxedOneHotCategorical, [0.7], [0.2, 0.3, 0.5]),
    "StudentT": (dist.StudentT, [6.0, 8.0], [0.0, 1.0], [1.0, 2.0]),
    "TransformedDistribution": (
        lambda m, s: dist.TransformedDistribution(dist.Normal(m, s), [dist.ExpTransform()]),
        [0.0, 1.0],
        [1.0, 0.5],
    ),
    "Uniform": (dist.Uniform, [0.0, 1.0], [1.0, 3.0]),
    "VonMises": (dist.VonMises, [0.0, 1.0], [1.0, 4.0]),
    "Weibull": (dist.Weibull, [1.0, 2.0], [1.0, 2.0]),
    "Wishart": (dist.Wishart, [4.0], COVARIANCE),
}


def make(name, device):
    """The distribution and its parameters."""
    kind, *values = EXAMPLES[name]
    parameters = [torch.tensor(v, device=device, requires_grad=True) for v in values]
    return kind(*parameters), parameters


def agree(want, got, tolerance=1e-4):
    assert got.device.type == "tpu" and (want.shape, want.dtype) == (got.shape, got.dtype)
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)


def or_none(f):
    try:
        return f()
    except NotImplementedError:
        return None


@pytest.mark.parametrize("name", EXAMPLES)
def test_scores(name):
    torch.manual_seed(1)
    (cpu, parameters), (tpu, twins) = make(name, "cpu"), make(name, "tpu")
    values = cpu.sample((40,)).detach()
    want, got = cpu.log_prob(values), tpu.log_prob(values.to("tpu"))
    agree(want, got)
    if want.requires_grad:
        want = torch.autograd.grad(want.sum(), parameters, allow_unused=True)
        got = torch.autograd.grad(got.sum(), twins, allow_unused=True)
        for a, b in zip(want, got, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                agree(a, b, 1e-3)
    if (want := or_none(cpu.entropy)) is not None:
        agree(want, tpu.entropy())
    for method, argument in (("cdf", values), ("icdf", torch.rand(40, *cpu.batch_shape) * 0.98 + 0.01)):
        if (want := or_none(lambda m=method, a=argument: getattr(cpu, m)(a))) is not None:
            agree(want, getattr(tpu, method)(argument.to("tpu")))


@pytest.mark.parametrize("name", EXAMPLES)
def test_draws(name):
    torch.tpu.manual_seed_all(0)
    (cpu, _), (tpu, parameters) = make(name, "cpu"), make(name, "tpu")
    draws, like = tpu.sample((N_DRAWS,)), cpu.sample((2,))
    assert (draws.dtype, draws.shape[1:], draws.device.type) == (like.dtype, like.shape[1:], "tpu")
    assert tpu.support.check(draws).all()
    mean, variance = or_none(lambda: cpu.mean), or_none(lambda: cpu.variance)
    if mean is not None and variance is not None and mean.isfinite().all() and variance.isfinite().all():
        agree(mean, tpu.mean)
        agree(variance, tpu.variance)
        deviation = (variance / N_DRAWS).sqrt().clamp_min(1e-6)
        assert (((draws.float().mean(0).cpu() - mean) / deviation).abs() < 5).all()
    if tpu.has_rsample:
        tpu.rsample().sum().backward()
        assert any(p.grad is not None and p.grad.isfinite().all() for p in parameters)


PAIRS = [
    *((name, name) for name in ("Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Dirichlet", "Exponential")),
    *((name, name) for name in ("Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal")),
    *((name, name) for name in ("LowRankMultivariateNormal", "MultivariateNormal", "Normal", "OneHotCategorical")),
    *((name, name) for name in ("Pareto", "Poisson", "Uniform", "ContinuousBernoulli")),
    ("Beta", "Gamma"),
    ("Exponential", "Gumbel"),
    ("Gamma", "Normal"),
    ("Laplace", "Normal"),
    ("Normal", "Gumbel"),
    ("Uniform", "Normal"),
    ("MultivariateNormal", "LowRankMultivariateNormal"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_divergence(pair):
    want, got = (dist.kl_divergence(make(pair[0], d)[0], make(pair[1], d)[0]) for d in ("cpu", "tpu"))
    agree(want, got)


def test_seeds_repeat_and_differ():
    def draw(seed):
        torch.manual_seed(seed)
        return dist.Gamma(torch.full((100,), 2.0, device="tpu"), 1.0).sample()

    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), draw(4))


@pytest.mark.parametrize(
    "f",
    [
        lambda d: dist.Normal(torch.zeros(2, device=d), torch.tensor([1.0, -1.0], device=d)),
        lambda d: dist.Bernoulli(torch.tensor([1.5], device=d)),
        lambda d: dist.Gamma(torch.ones(1, device=d), torch.ones(1, device=d)).log_prob(torch.tensor([-1.0], device=d)),
    ],
)
def test_bad_parameters_raise(f):
    for device in ("cpu", "tpu"):
        with pytest.raises(ValueError, match="constraint|support"):
            f(device)
