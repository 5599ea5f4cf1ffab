"""nested: PyTorch's list of operators on jagged nested tensors, forward and, in float32, backward."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.opinfo.definitions.nested import njt_op_db

from conformance.compare import GRADIENT_TOLERANCE, agree, agree_gradients, to_device
from conformance.harness import Case, NoSample
from conformance.opinfos import Call, all_samples, is_random, name_of, spread

SAMPLES = 4


def parts(tree: Any) -> Any:
    """Nested tensors as their components, whose number and sizes then have to agree."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda t: [t.values(), t.offsets()] if t.is_nested else t, tree
    )


def gradients(result: Any, call: Call) -> list[torch.Tensor | None]:
    outputs = [t for t in torch.utils._pytree.tree_leaves(parts(result)) if isinstance(t, torch.Tensor)]
    outputs = [t for t in outputs if t.requires_grad]
    inputs = [t for t in call.tensors if t.requires_grad]
    if not outputs or not inputs:
        return []
    total = torch.stack([t.abs().sum() for t in outputs]).sum()
    return list(torch.autograd.grad(total, inputs, allow_unused=True))


def run(op: Any) -> str:
    try:
        calls = all_samples(op, torch.float32, op.supports_autograd)
    except RuntimeError as e:
        raise NoSample(f"PyTorch has no samples: {e}") from None
    n_run = 0
    for call in spread(calls, SAMPLES):
        try:
            want = call(op.op)
            wanted = gradients(want, call)
        except Exception:
            continue  # the CPU refuses it
        n_run += 1
        twin = call.map(to_device)
        got = twin(op.op)
        agree(parts(want), parts(got), values=not is_random(op))
        if not is_random(op):
            agree_gradients(parts(wanted), parts(gradients(got, twin)), GRADIENT_TOLERANCE)
    if n_run == 0:
        raise NoSample("no sample that the CPU takes")
    return f"{n_run} samples"


def cases() -> Iterator[Case]:
    for op in njt_op_db:
        yield Case(name_of(op), "float32", partial(run, op), group=op.name)
