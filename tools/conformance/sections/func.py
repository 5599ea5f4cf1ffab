"""func: torch.func over every operator, in float32: vmap, grad, vjp, jvp and jacrev, and vmap of what is random."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.func import grad, jacrev, jvp, vjp, vmap

from conformance import opinfos
from conformance.compare import GRADIENT_TOLERANCE, TOLERANCE, Attempt, agree, random_like, same_exception, tensors
from conformance.harness import Case, Mismatch, NoSample

Tensors = tuple[torch.Tensor, ...]


def function_of(op: Any, call: opinfos.Call) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """The operator as a function of the tensors of a call alone, and those."""
    leaves, spec = pytree.tree_flatten((call.input, call.args, call.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def function(*values: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        return opinfos.Call(*pytree.tree_unflatten(filled, spec))(op.op)

    return function, [leaves[i].detach() for i in places]


# ---- vmap -----------------------------------------------------------------------------------------------------------


def flipped(t: torch.Tensor) -> torch.Tensor:
    """The values in another order: each operator's domain is kept, of matrices symmetry and definiteness too."""
    return t.flip(tuple(range(t.dim())))


# Operators of which an argument is sorted, or means something in its order alone (pivots).
SORTED = {"bucketize", "searchsorted", "nn.functional.embedding_bag", "linalg.ldl_solve"}


def batched(op: Any, t: torch.Tensor) -> torch.Tensor:
    return torch.stack([t, t if op.name in SORTED else flipped(t), t])


def check_vmap(op: Any, dtype: torch.dtype) -> str:
    n = n_refused = 0
    for call in opinfos.samples(op, dtype, at_most=2):
        attempts = []
        for made in (call, opinfos.on_device(op, call)):
            function, values = function_of(op, made)
            if values and all(t.layout == torch.strided for t in values):
                batch = [batched(op, t) for t in values]
                attempts.append(Attempt(partial(vmap(function), *batch)))
        if not attempts:
            continue
        n += 1
        if same_exception(attempts[0], attempts[1]):
            n_refused += 1
        else:
            opinfos.agree_derivatives(op, attempts[0].result, attempts[1].result, TOLERANCE)
    if not n:
        raise NoSample
    return f"{n} samples, of which {n_refused} are refused as on the CPU"


def elements_differ(t: torch.Tensor) -> bool:
    return bool((t[0] != t[1]).any())


def check_random_vmap(randomness: str, op: Any, dtype: torch.dtype) -> str:
    """The results' structure, and whether the elements of the batch differ."""
    n = 0
    for call in opinfos.samples(op, dtype, at_most=2):
        attempts = []
        for made in (call, opinfos.on_device(op, call)):
            function, values = function_of(op, made)
            if values:
                batch = [torch.stack([t, t, t]) for t in values]
                torch.manual_seed(5)
                attempts.append(Attempt(partial(vmap(function, randomness=randomness), *batch)))
        if not attempts:
            continue
        n += 1
        want, got = attempts
        if same_exception(want, got):
            continue
        agree(want.result, got.result, values=False)
        for a, b in zip(tensors(want.result), tensors(got.result), strict=True):
            if a.numel() > 50 and not op.name.startswith(("empty", "new_empty")):
                differ = elements_differ(a), elements_differ(b)
                if differ[0] != differ[1]:
                    raise Mismatch("RANDOMNESS", f"elements differ on the CPU: {differ[0]}, here: {differ[1]}")
    if not n:
        raise NoSample
    return f"{n} samples"


# ---- derivatives ----------------------------------------------------------------------------------------------------


def of_differentiable(op: Any, call: opinfos.Call) -> tuple[Callable[..., Tensors], Tensors]:
    """The operator's floating results as a function of the arguments that want a gradient, and those."""
    function, values = function_of(op, call)
    places = [i for i, t in enumerate(call.tensors) if t.requires_grad]

    def partial_function(*some: torch.Tensor) -> Tensors:
        filled = list(values)
        for place, value in zip(places, some, strict=True):
            filled[place] = value
        return tuple(t for t in tensors(function(*filled)) if t.is_floating_point() or t.is_complex())

    return partial_function, tuple(values[i] for i in places)


def run_grad(function: Callable[..., Tensors], inputs: Tensors) -> Any:
    def total(*some: torch.Tensor) -> torch.Tensor:
        return sum((t.abs().sum() for t in function(*some)), start=torch.zeros((), device=inputs[0].device))

    return grad(total, argnums=tuple(range(len(inputs))))(*inputs)


def run_vjp(function: Callable[..., Tensors], inputs: Tensors) -> Any:
    out, pull, *_ = vjp(function, *inputs)
    return out, pull(tuple(random_like(out)))


def run_jvp(function: Callable[..., Tensors], inputs: Tensors) -> Any:
    return jvp(function, inputs, tuple(random_like(inputs)))


def run_jacrev(function: Callable[..., Tensors], inputs: Tensors) -> Any:
    return jacrev(function, argnums=tuple(range(len(inputs))))(*inputs)


DERIVATIVES = {"grad": run_grad, "vjp": run_vjp, "jvp": run_jvp, "jacrev": run_jacrev}
LARGEST_JACOBIAN = 4096  # elements of an input: a Jacobian takes a pass for each element of the output


def check_derivative(name: str, op: Any, dtype: torch.dtype) -> str:
    n = 0
    for call in opinfos.samples(op, dtype, requires_grad=True, at_most=1 if name == "jacrev" else 2):
        attempts = []
        for made in (call, opinfos.on_device(op, call)):
            function, inputs = of_differentiable(op, made)
            if not inputs or (name == "jacrev" and max(t.numel() for t in inputs) > LARGEST_JACOBIAN):
                break
            attempts.append(Attempt(partial(DERIVATIVES[name], function, inputs)))
        if len(attempts) < 2:
            continue
        n += 1
        if not same_exception(attempts[0], attempts[1]):
            opinfos.agree_derivatives(op, attempts[0].result, attempts[1].result, GRADIENT_TOLERANCE)
    if not n:
        raise NoSample
    return f"{n} samples"


def renamed(prefix: str, found: Iterator[Case]) -> Iterator[Case]:
    for case in found:
        yield Case(f"{prefix}.{case.name}", case.dtype, case.run, group=case.group)


def cases() -> Iterator[Case]:
    dtypes = (torch.float32,)
    yield from renamed("vmap", opinfos.cases_of(check_vmap, dtypes, where=lambda op: not opinfos.is_random(op)))
    for name in DERIVATIVES:

        def has_derivative(op: Any, forward: bool = name == "jvp") -> bool:
            return not opinfos.is_random(op) and bool(op.supports_forward_ad if forward else op.supports_autograd)

        yield from renamed(name, opinfos.cases_of(partial(check_derivative, name), dtypes, where=has_derivative))
    for randomness in ("different", "same", "error"):
        run = partial(check_random_vmap, randomness)
        found = opinfos.cases_of(run, dtypes, where=opinfos.is_random)
        yield from renamed(f"randomness_{randomness}", found)
