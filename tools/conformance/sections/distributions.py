"""distributions: torch.distributions; scores are the CPU's, draws have the moments that they should have."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import distributions as dist

from conformance.compare import DEVICE, GRADIENT_TOLERANCE, agree, agree_gradients
from conformance.harness import Case, Mismatch

N_DRAWS = 100_000
SIGMAS = 5  # how far a moment of the draws may be from the right one, in its standard deviations

COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]
ROWS = [[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]
# Class and parameters; each list becomes a tensor that wants a gradient.
EXAMPLES: dict[str, tuple[Any, ...]] = {
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
# Their fourth moments are infinite, or so large that a sample says nothing about the variance.
HEAVY_TAILS = {"FisherSnedecor", "GeneralizedPareto", "InverseGamma", "LogNormal", "Pareto", "StudentT", "VonMises"}
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


def make(name: str, device: str) -> tuple[Any, list[torch.Tensor]]:
    """The distribution and its parameters."""
    kind, *values = EXAMPLES[name]
    parameters = [torch.tensor(v, device=device, requires_grad=True) for v in values]
    return kind(*parameters), parameters


def or_none(f: Callable[[], torch.Tensor]) -> torch.Tensor | None:
    try:
        return f()
    except NotImplementedError:
        return None


def score(name: str) -> str:
    """log_prob with its gradients, entropy, cdf and icdf."""
    torch.manual_seed(1)
    (cpu, parameters), (tpu, twins) = make(name, "cpu"), make(name, DEVICE)
    values = cpu.sample((40,)).detach()
    want, got = cpu.log_prob(values), tpu.log_prob(values.to(DEVICE))
    agree(want, got)
    if want.requires_grad:
        want = torch.autograd.grad(want.sum(), parameters, allow_unused=True)
        got = torch.autograd.grad(got.sum(), twins, allow_unused=True)
        agree_gradients(want, got, GRADIENT_TOLERANCE)
    if (entropy := or_none(cpu.entropy)) is not None:
        agree(entropy, tpu.entropy())
    for method, argument in (("cdf", values), ("icdf", torch.rand(40, *cpu.batch_shape) * 0.98 + 0.01)):
        if (found := or_none(partial(getattr(cpu, method), argument))) is not None:
            agree(found, getattr(tpu, method)(argument.to(DEVICE)))
    return ""


def check_moment(what: str, draws: torch.Tensor, right: torch.Tensor) -> None:
    """The mean of the draws is `right`, as far as their own spread lets it be known."""
    deviation = (draws.var(0) / len(draws)).sqrt().clamp_min(1e-6)
    off = ((draws.mean(0) - right).abs() / deviation).max().item()
    if not off < SIGMAS:
        raise Mismatch("MOMENT", f"{what} of {len(draws)} draws: off by {off:.1f} standard deviations")


def draw(name: str) -> str:
    """Shape, dtype, support, mean, variance, and the gradients of rsample."""
    torch.manual_seed(0)
    (cpu, _), (tpu, parameters) = make(name, "cpu"), make(name, DEVICE)
    drawn, like = tpu.sample((N_DRAWS,)), cpu.sample((2,))
    if (drawn.dtype, drawn.shape[1:], drawn.device.type) != (like.dtype, like.shape[1:], DEVICE):
        raise Mismatch("SHAPE", f"{drawn.dtype} {tuple(drawn.shape)} on {drawn.device}, of the CPU {like.dtype}")
    if not tpu.support.check(drawn).all():
        raise Mismatch("SUPPORT", "a draw that cannot be")
    mean, variance = or_none(lambda: cpu.mean), or_none(lambda: cpu.variance)
    if mean is not None and variance is not None and mean.isfinite().all() and variance.isfinite().all():
        agree(mean, tpu.mean)
        agree(variance, tpu.variance)
        draws, mean = drawn.cpu().double(), mean.detach().double()
        check_moment("the mean", draws, mean)
        if name not in HEAVY_TAILS:
            check_moment("the variance", (draws - mean).square(), variance.detach().double())
    if tpu.has_rsample:
        tpu.rsample().sum().backward()
        if not any(p.grad is not None and p.grad.isfinite().all() for p in parameters):
            raise Mismatch("GRAD_MISSING", "no parameter has a finite gradient from rsample")
    return ""


def divergence(p: str, q: str) -> str:
    want, got = (dist.kl_divergence(make(p, device)[0], make(q, device)[0]) for device in ("cpu", DEVICE))
    agree(want, got)
    return ""


def cases() -> Iterator[Case]:
    for name in EXAMPLES:
        yield Case(f"score.{name}", "", partial(score, name), name)
        yield Case(f"draw.{name}", "", partial(draw, name), name)
    for p, q in PAIRS:
        yield Case(f"divergence.{p}.{q}", "", partial(divergence, p, q), p)
