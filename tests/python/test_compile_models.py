"""Models of Transformers from small random configurations under torch.compile: logits, gradients and tokens of the CPU."""

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch_pjrt

transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}


def tokens() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(3, 60, (2, 9)), "labels": torch.randint(3, 60, (2, 9))}


def images() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([1, 3])}


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **GROUPED))


def bert() -> Any:
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, **rates))


def vit() -> Any:
    sizes = {k: v for k, v in SIZES.items() if k != "vocab_size"}
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.ViTConfig(**sizes, **rates, image_size=16, patch_size=4, num_labels=5)
    return transformers.ViTForImageClassification(config)


EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}


def qwen3_moe() -> Any:
    config = transformers.Qwen3MoeConfig(**SIZES, **GROUPED, **EXPERTS, num_experts=4)
    return transformers.Qwen3MoeForCausalLM(config)


def deepseek_v3() -> Any:
    latent = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
    routed = {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1}
    config = transformers.DeepseekV3Config(
        **SIZES, **EXPERTS, **latent, **routed, num_key_value_heads=4, max_position_embeddings=64
    )
    return transformers.DeepseekV3ForCausalLM(config)


MODELS = [(llama, tokens), (bert, tokens), (vit, images), (qwen3_moe, tokens), (deepseek_v3, tokens)]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.tpu.reset_fallbacks()
    torch.manual_seed(0)


@pytest.mark.parametrize(("make", "inputs"), MODELS)
def test_logits_and_gradients(make: Callable[[], Any], inputs: Callable[[], dict[str, torch.Tensor]]) -> None:
    model = make().train()
    model.config.use_cache = False
    twin = copy.deepcopy(model).to("tpu")
    given = inputs()
    want = model(**given)
    want.loss.backward()
    got = torch.compile(twin, backend="tpu", fullgraph=True)(**{k: v.to("tpu") for k, v in given.items()})
    got.loss.backward()
    torch.testing.assert_close(got.logits.cpu(), want.logits, rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert torch.tpu.fallbacks() == {}


def test_generation_with_a_static_cache_takes_two_captures() -> None:
    model = llama().eval()
    ids = torch.randint(3, 60, (1, 5))
    settings = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": "static", "disable_compile": True}
    want = model.generate(ids, **settings)
    model.to("tpu")
    model.forward = torch.compile(model.forward, backend="tpu", dynamic=False)
    got = model.generate(ids.to("tpu"), **settings)
    assert got.tolist() == want.tolist()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 4, "the prompt, and one token"


@pytest.mark.strict
def test_training_with_batches_of_any_size() -> None:
    """Two buckets of the batch by one of the length: two forms of one capture."""
    model = llama().train()
    model.config.use_cache = False
    twin = copy.deepcopy(model).to("tpu")
    run = torch.compile(twin, backend="tpu", fullgraph=True, dynamic=True)
    with torch_pjrt.explain() as report:
        for shape in ((2, 9), (3, 12), (4, 16)):
            ids = torch.randint(3, 60, shape)
            want = model(input_ids=ids, labels=ids)
            got = run(input_ids=ids.to("tpu"), labels=ids.to("tpu"))
            for m, out in ((model, want), (twin, got)):
                m.zero_grad()
                out.loss.backward()
            torch.testing.assert_close(got.logits.cpu(), want.logits, rtol=1e-4, atol=1e-5)
            for p, q in zip(model.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not any("each set of sizes" in note for note in report.notes)
    assert len(report.programs) == 4, "forward and backward for two buckets"


def test_generation_with_a_cache_that_grows_takes_a_program_for_each_bucket() -> None:
    model = llama().eval()
    ids = torch.randint(3, 60, (1, 5))
    settings = {"max_new_tokens": 8, "do_sample": False, "disable_compile": True}
    want = model.generate(ids, **settings)
    model.to("tpu")
    model.forward = torch.compile(model.forward, backend="tpu", dynamic=True)
    with torch_pjrt.explain() as report:
        got = model.generate(ids.to("tpu"), **settings)
    assert got.tolist() == want.tolist()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2, "the prompt, and one token"
    assert len(report.programs) <= 3, "the prompt, and caches of up to 8 and 16"
