"""torch.distributions on the device: the cases of the conformance suite, with nothing by way of the CPU."""

import sys
from pathlib import Path

import pytest
import torch
from torch import distributions as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from conformance.sections import distributions


@pytest.fixture(autouse=True)
def settings():
    """Nothing goes by way of the CPU."""
    before, torch.tpu.config.fallback = torch.tpu.config.fallback, "error"
    yield
    torch.tpu.config.fallback = before


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in distributions.cases()])
def test_case(case):
    case.run()


def test_every_distribution_has_an_example():
    """Those that PyTorch exports, less bases and helpers."""
    bases = {"Distribution", "ExponentialFamily", "Independent", "TransformedDistribution", "MixtureSameFamily"}
    kinds = {name for name in dist.__all__ if isinstance(getattr(dist, name), type)}
    kinds = {name for name in kinds if issubclass(getattr(dist, name), dist.Distribution)}
    assert kinds - bases <= set(distributions.EXAMPLES)


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
