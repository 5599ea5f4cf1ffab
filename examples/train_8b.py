"""A few training steps of an 8-billion-parameter model: what `torch_pjrt plan` is for, as no weights are needed.

    torch_pjrt plan --target v6e:4x4 --html llama.html examples/train_8b.py --model llama3-8b

The architectures' numbers are those of the models' published configurations. bfloat16, AdamW, one sequence of 4,096
tokens, all in ordinary PyTorch; weights are made on the device and never on the host.
"""

import argparse

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig, Qwen3Config

MODELS = {
    "llama3-8b": lambda layers: LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers or 32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    ),
    "qwen3-8b": lambda layers: Qwen3Config(
        vocab_size=151936,
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=layers or 36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        tie_word_embeddings=False,
    ),
}


def flops_of_a_step(config: PretrainedConfig, model: nn.Module, tokens: int, sequence: int) -> float:
    """6 N D for the N parameters of matrix products and D tokens, and the products of attention: each token with each,
    forward once and backward twice (PaLM, arXiv:2204.02311, appendix B)."""
    embedding = model.get_input_embeddings()  # type: ignore[operator]
    n = sum(p.numel() for p in model.parameters()) - embedding.weight.numel()
    heads = config.num_attention_heads * (getattr(config, "head_dim", None) or config.hidden_size // 32)
    return tokens * (6.0 * n + 12.0 * config.num_hidden_layers * heads * sequence)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="llama3-8b", choices=MODELS)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--layers", type=int, help="fewer than the model has, to try things")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--checkpoint", action="store_true", help="activation checkpointing")
    args = parser.parse_args()

    config = MODELS[args.model](args.layers)
    config.use_cache = False
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    model.to_empty(device=args.device)
    for module in model.modules():  # no checkpoint is loaded: the usual start
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=config.initializer_range)
        elif hasattr(module, "variance_epsilon"):
            nn.init.ones_(module.weight)
        elif hasattr(module, "inv_freq"):
            theta = config.rope_parameters["rope_theta"] ** -(torch.arange(0, 128, 2, device=args.device) / 128)
            module.inv_freq.copy_(theta)
    if args.checkpoint:
        model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)

    for step in range(args.steps):
        tokens = torch.randint(config.vocab_size, (args.batch, args.sequence), device=args.device)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")
    n = args.batch * args.sequence
    print(f"{flops_of_a_step(config, model, n, args.sequence):.4g} flops a step by the closed form")


if __name__ == "__main__":
    main()
