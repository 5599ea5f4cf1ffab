"""nn.MultiheadAttention and nn.TransformerEncoder in inference, which take a path of their own, against PyTorch's CPU."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn

N, T, D, HEADS = 3, 6, 16, 4


@pytest.fixture(autouse=True)
def no_fallbacks() -> Iterator[None]:
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


def pair(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    module.eval()
    return module, copy.deepcopy(module).to("tpu")


def batch() -> torch.Tensor:
    return torch.randn(N, T, D, generator=torch.Generator().manual_seed(0))


SOURCE = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
PADDING = torch.arange(T) >= torch.tensor([[6], [4], [1]])
MASKS = {"none": {}, "source": {"attn_mask": SOURCE}, "padding": {"key_padding_mask": PADDING}}
MASKS["both"] = MASKS["source"] | MASKS["padding"]


@pytest.mark.parametrize("masks", list(MASKS.values()), ids=list(MASKS))
@pytest.mark.parametrize("weights", ["none", "average", "each head"])
def test_attention(masks: dict[str, torch.Tensor], weights: str) -> None:
    torch.manual_seed(0)
    cpu, tpu = pair(nn.MultiheadAttention(D, HEADS, batch_first=True))
    x, options = batch(), {"need_weights": weights != "none", "average_attn_weights": weights == "average"}
    with torch.inference_mode():
        want = cpu(x, x, x, **masks, **options)
        y = x.to("tpu")
        got = tpu(y, y, y, **{name: mask.to("tpu") for name, mask in masks.items()}, **options)
    torch.testing.assert_close(got[0].cpu(), want[0])
    assert (got[1] is None) == (want[1] is None)
    if want[1] is not None:
        torch.testing.assert_close(got[1].cpu(), want[1])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm_first: bool, activation: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, HEADS, 32, batch_first=True, norm_first=norm_first, activation=activation)
    cpu, tpu = pair(layer)
    x = batch()
    for masks in {}, {"src_mask": SOURCE}, {"src_key_padding_mask": PADDING}:
        with torch.inference_mode():
            want = cpu(x, **masks)
            got = tpu(x.to("tpu"), **{name: mask.to("tpu") for name, mask in masks.items()})
        torch.testing.assert_close(got.cpu(), want)


def test_encoder_with_padding() -> None:
    """The CPU packs the rows and fills up with zeros; what stands in padding is nobody's."""
    torch.manual_seed(0)
    cpu, tpu = pair(nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, 32, batch_first=True), 2))
    x = batch()
    with torch.inference_mode():
        want = cpu(x, src_key_padding_mask=PADDING)
        got = tpu(x.to("tpu"), src_key_padding_mask=PADDING.to("tpu")).cpu()
    torch.testing.assert_close(got[~PADDING], want[~PADDING])
