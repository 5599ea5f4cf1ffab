"""The models of docs/models.md, small and with random weights: one training pass each, eager and compiled.

    python tools/aot/models.py eager llama
    python tools/aot/models.py compiled whisper

Run by programs.py, which collects the programs.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

SIZES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS: dict[str, Any] = {"vocab_size": 64, **SIZES}
GROUPED: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}
EXPERTS: dict[str, Any] = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
T5: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
PAD: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SPEECH: dict[str, Any] = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 8,
    "max_source_positions": 16, "max_target_positions": 32, "decoder_start_token_id": 1,
}  # fmt: skip
LABELS: dict[str, Any] = {"num_labels": 5}
VISION: dict[str, Any] = {"image_size": 16, "patch_size": 4}
TIMES: dict[str, Any] = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
LATENT: dict[str, Any] = {
    "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
}  # fmt: skip


def causal(name: str, **config: Any) -> Callable[[], Any]:
    def make() -> Any:
        return getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**config))

    return make


def tokens() -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 60, (2, 9))
    return {"input_ids": ids, "labels": ids}


def speech() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(2, 8, 32), "labels": torch.randint(3, 60, (2, 9))}


def images() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([1, 3])}


def pairs() -> dict[str, Any]:
    return {"input_ids": torch.randint(3, 60, (2, 9)), "pixel_values": torch.randn(2, 3, 16, 16), "return_loss": True}


def gpt2() -> Any:
    config = transformers.GPT2Config(**PAD, vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def gemma3() -> Any:
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**WORDS, **GROUPED, **PAD))


def bert() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig(**WORDS))


def t5() -> Any:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**T5))


def whisper() -> Any:
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**SPEECH, **PAD))


def vit() -> Any:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, **VISION, **LABELS))


def clip() -> Any:
    config = transformers.CLIPConfig(
        text_config={**WORDS, **PAD, "max_position_embeddings": 64},
        vision_config={**SIZES, **VISION},
        projection_dim=16,
    )
    return transformers.CLIPModel(config)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]], torch.dtype]] = {
    "llama": (causal("Llama", **WORDS, **GROUPED), tokens, torch.float32),
    "qwen3": (causal("Qwen3", **WORDS, **GROUPED), tokens, torch.float32),
    "gemma3": (gemma3, tokens, torch.float32),
    "mistral": (causal("Mistral", **WORDS, **GROUPED), tokens, torch.float32),
    "phi": (causal("Phi", **WORDS, max_position_embeddings=64), tokens, torch.float32),
    "gpt2": (gpt2, tokens, torch.float32),
    "bert": (bert, tokens, torch.float32),
    "t5": (t5, tokens, torch.float32),
    "whisper": (whisper, speech, torch.float32),
    "vit": (vit, images, torch.float32),
    "clip": (clip, pairs, torch.float32),
    "mamba": (causal("Mamba", **TIMES), tokens, torch.float32),
    "qwen3_moe": (causal("Qwen3Moe", **WORDS, **GROUPED, **EXPERTS, num_experts=4), tokens, torch.bfloat16),
    "deepseek_v3": (
        causal("DeepseekV3", **WORDS, **EXPERTS, **LATENT, n_routed_experts=4, n_group=2, topk_group=1,
               num_key_value_heads=4, max_position_embeddings=64, first_k_dense_replace=1, n_shared_experts=1),
        tokens,
        torch.bfloat16,
    ),
}  # fmt: skip


def train(mode: str, name: str) -> None:
    """Two steps: the second updates the optimizer's state in place."""
    make, inputs, dtype = MODELS[name]
    torch.manual_seed(0)
    model = make().to(dtype).train().to("tpu")
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = torch.compile(model, backend="tpu") if mode == "compiled" else model
    given = {key: value.to("tpu") if isinstance(value, torch.Tensor) else value for key, value in inputs().items()}
    given = {key: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
             for key, value in given.items()}  # fmt: skip
    for _ in range(2):
        run(**given).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.tpu.synchronize()  # type: ignore[attr-defined]


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2])
