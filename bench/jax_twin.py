"""The network of bench/workloads.py in JAX: a whole training step under jax.jit, with weights and state donated.

PYTHON bench/jax_twin.py WEIGHTS.safetensors       # a Python that has JAX; bench/training.py --jax PYTHON starts it

An environment of its own takes it: python -m venv jax && jax/bin/pip install jax
"""

import json
import math
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    sys.exit(f"{error}: python -m venv jax && jax/bin/pip install jax, then --jax jax/bin/python")

N_HEADS = 4
LEARNING_RATE, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.999), 1e-8, 1e-2  # torch.optim.AdamW's
DTYPES = {"F32": np.float32, "I64": np.int64}


def read(path: Path) -> dict[str, Any]:
    """A safetensors file: the length of a JSON header, the header, the bytes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            part = data[8 + length + begin : 8 + length + end]
            arrays[name] = np.frombuffer(part, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def linear(x: Any, weights: dict[str, Any], name: str, stem: str = "weight", bias: str = "bias") -> Any:
    return x @ weights[f"{name}{stem}"].T + weights[f"{name}{bias}"]


def layer_norm(x: Any, weights: dict[str, Any], name: str) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * weights[name + "weight"] + weights[name + "bias"]


def attention(x: Any, weights: dict[str, Any], name: str) -> Any:
    batch, length, width = x.shape
    joined = linear(x, weights, name, "in_proj_weight", "in_proj_bias")
    query, key, value = joined.reshape(batch, length, 3, N_HEADS, width // N_HEADS).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(width // N_HEADS)
    mixed = (jax.nn.softmax(scores) @ value).swapaxes(1, 2).reshape(batch, length, width)
    return linear(mixed, weights, name + "out_proj.")


def loss_of(weights: dict[str, Any], tokens: Any) -> Any:
    x = weights["0.weight"][tokens]
    n_layers = sum(name.endswith("linear1.bias") for name in weights)
    for i in range(n_layers):
        name = f"1.layers.{i}."
        x = x + attention(layer_norm(x, weights, name + "norm1."), weights, name + "self_attn.")
        hidden = jax.nn.gelu(
            linear(layer_norm(x, weights, name + "norm2."), weights, name + "linear1."), approximate=False
        )
        x = x + linear(hidden, weights, name + "linear2.")
    logits = jax.nn.log_softmax(linear(x, weights, "2."))
    return -jnp.take_along_axis(logits, tokens[..., None], -1).mean()


def train(state: tuple[Any, Any, Any, Any], tokens: Any) -> tuple[Any, Any]:
    """One step of AdamW; the state is the weights, both means and the count."""
    weights, means, squares, count = state
    loss, gradients = jax.value_and_grad(loss_of)(weights, tokens)
    count = count + 1
    first, second = BETAS
    means = jax.tree.map(lambda m, g: first * m + (1 - first) * g, means, gradients)
    squares = jax.tree.map(lambda v, g: second * v + (1 - second) * g * g, squares, gradients)

    def update(w: Any, m: Any, v: Any) -> Any:
        root = jnp.sqrt(v) / jnp.sqrt(1 - second**count) + EPSILON
        return w * (1 - LEARNING_RATE * DECAY) - LEARNING_RATE / (1 - first**count) * m / root

    return (jax.tree.map(update, weights, means, squares), means, squares, count), loss


def build(path: Path) -> Callable[[], Any]:
    arrays = read(path)
    tokens = jnp.asarray(arrays.pop("tokens").astype(np.int32))
    weights = {name: jnp.asarray(array) for name, array in arrays.items()}
    state = (weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.zeros(()))
    compiled = jax.jit(train, donate_argnums=0)

    def step() -> Any:
        nonlocal state
        state, loss = compiled(state, tokens)
        return loss

    return step


if __name__ == "__main__":
    from training import serve

    serve(build(Path(sys.argv[1])))
