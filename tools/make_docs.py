"""Writes docs/settings.md from src/base/config.def and docs/operators.md from the op table: `make docs`.

The second is compared with what PyTorch registers, so it needs torch and the built package. The dtypes of its ops come
from PyTorch's operator database, which takes seconds to load: tools/dtypes.toml keeps them, `make docs` writes it anew.
"""

import fnmatch
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optable

TOOLS = Path(__file__).resolve().parent
DOCS = TOOLS.parent / "docs"

SETTINGS_HEAD = """# Settings

<!-- Written by `make docs` from src/base/config.def. -->

Each setting is an environment variable, read when PyTorch is imported, and an attribute of `torch.tpu.config`, which
may be assigned while the program runs: `torch.tpu.config.fallback = "error"`. A variable whose value does not fit is
an error that names it; one named `TORCH_PJRT_*` that is none of these is warned of. Integers may end in K, M, G or T
(powers of 1024), a bool is one of 0, 1, true, false, on, off, yes, no. `torch_pjrt info` prints the values in use.
"""

OPERATORS_HEAD = """# Operators

<!-- Written by `make docs` from the op table (src/ops) and PyTorch {version}. -->

{n_rows} overloads have a row in the op table. Only functional forms have rows: the in-place form (`add_.Tensor`) and
the `out=` form (`add.out`) of an op run by its row too.

- **Parameters** are in the notation of `src/ops/ops.h`: `T` tensor, `I` int, `B` bool, `F` float, `D` dtype, `Str`
  string, `M` memory format, `G` generator; `?` may be none, `[]` a list. `S` and `f` are numbers that are given at
  each run, so that a new value compiles nothing; `S!` is a number that is part of the program; `S~`, `F~` and `I~` are
  part of it until they are seen to change, and given at each run from then on; so is `S^`, an exponent, but for small
  whole and half numbers.
- **Dtypes** are those that PyTorch's operator database names for the CPU: *b* bool, *i* all integers, *f* all floats
  (float16, bfloat16, float32, float64), *c* complex64 and complex128; others by name. Nothing stands where the database
  has no entry of the op's name.
- **Strides** says how the results lie in memory: *contiguous*; *pointwise*, the order of the operands as PyTorch's
  TensorIterator decides it; *self*, as the first operand; *channels_last*, where the operands suggest it;
  *memory_format*, what the argument asks for.
- **Notes**: *random*, draws from the generator; *sized*, the results' sizes depend on data, which a first program
  counts; *in graphs*, PyTorch composes the op itself when it runs eagerly, and the row serves captured graphs;
  *writes*, results that go back into arguments; a number in brackets, a known difference from the CPU, listed at the
  end.
"""

OTHERS_HEAD = """## Without a row

Overloads that have a CPU kernel of their own in PyTorch {version} and no row, but for views (metadata, no kernel) and
for in-place and `out=` forms of ops above. A *decomposition* is PyTorch's, traced once a signature into a graph of
rows; where that is not possible the CPU runs the op. *By hand*: the glue has a kernel. *CPU*: the operands are copied
there and the results back, counted by `torch.tpu.fallbacks()`. Ops that have no CPU kernel either run by PyTorch's
composite kernels.
"""


TPU_HEAD = """## On a TPU

`make aot` compiles with libtpu, for v5e, v6e and tpu7x, the programs that PyTorch's operator database makes of the
rows (float32, bfloat16 and int32, forward and backward) and those of the demo, of MiniLM and of the models in
docs/models.md, and checks that donated arguments are used. What libtpu has no way for is written in another: products
of 64-bit integers as multiplication and sum, long windows and cumulative sums in steps, bfloat16 products at the
precision that they have, attention without a mask in the form of its kernel.

"""


def table(header: list[str], lines: Iterator[list[str]] | list[list[str]]) -> str:
    texts = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    texts += ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join(texts) + "\n"


# --- settings -------------------------------------------------------------------------------------------------------


def domain(setting: optable.Setting) -> str:
    if setting.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind == "int":
        return f"{setting.least} to {setting.greatest}"
    return setting.kind


def settings_page() -> str:
    parts = [SETTINGS_HEAD]
    for setting in optable.settings():
        default = f"`{setting.default}`" if setting.default else "empty"
        parts.append(
            f"## {setting.name}\n\n`{setting.environment}`: {domain(setting)}; default {default}\n\n"
            f"{setting.documentation}\n"
        )
    return "\n".join(parts)


# --- operators ------------------------------------------------------------------------------------------------------


def is_composite(name: str) -> bool:
    import torch

    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd"))


def schemas() -> dict[str, Any]:
    """The schema of each ATen overload, "add.Tensor"."""
    import torch

    return {
        schema.name.removeprefix("aten::") + ("." + schema.overload_name if schema.overload_name else ""): schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
    }


# The groups of dtypes that the page abbreviates.
GROUPS = {
    "b": ("bool",),
    "i": ("int16", "int32", "int64", "int8", "uint8"),
    "f": ("bfloat16", "float16", "float32", "float64"),
    "c": ("complex128", "complex64"),
}


def abbreviate(dtypes: list[str]) -> str:
    rest, found = set(dtypes), []
    for letter, group in GROUPS.items():
        if rest.issuperset(group):
            found.append(letter)
            rest.difference_update(group)
    return " ".join(found + sorted(rest))


def dtypes_file() -> str:
    """tools/dtypes.toml: of each ATen op that PyTorch's operator database has, the dtypes for the CPU, abbreviated."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, set[str]] = {}
    for info in op_db:
        names = {info.name.rpartition(".")[2], info.aten_name}
        if not info.name.startswith("nn."):
            names.add(info.name.replace(".", "_"))  # linalg.norm
        for name in names:
            for suffix, dtypes in (("", info.dtypes), ("_backward", info.backward_dtypes)):
                if suffix == "" or info.supports_autograd:
                    found.setdefault(name + suffix, set()).update(str(d).removeprefix("torch.") for d in dtypes)
    reached = {candidate for row in optable.rows() for candidate in names_in_database(row.name)}
    found = {name: dtypes for name, dtypes in found.items() if name in reached}
    lines = [f'"{name}" = "{abbreviate(sorted(dtypes))}"' for name, dtypes in sorted(found.items())]
    return "# Written by `make docs` from PyTorch's operator database.\n" + "\n".join(lines) + "\n"


def names_in_database(name: str) -> list[str]:
    """What PyTorch's interface may call the op of an overload."""
    base = base_of(name).replace("_forward", "").removesuffix("_functional")
    return [base, base.lstrip("_"), base.lstrip("_").removesuffix("2d")] if "nll" in base else [base, base.lstrip("_")]


def dtypes_of(name: str, known: dict[str, str]) -> str:
    return next((known[candidate] for candidate in names_in_database(name) if candidate in known), "")


def differences() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((TOOLS / "differences.toml").read_text())["difference"]
    names = [row.name for row in optable.rows()]
    for difference in found:
        for pattern in difference["rows"]:
            if not fnmatch.filter(names, pattern):
                raise ValueError(f"tools/differences.toml: no row is named {pattern}")
    return found


def notes(row: optable.Row, known: dict[str, Any], different: list[dict[str, Any]]) -> str:
    found = []
    if row.is_random:
        found.append("random")
    if row.is_sized:
        found.append("sized")
    if row.name in known and is_composite(row.name):
        found.append("in graphs")
    if row.writes:
        found.append("writes " + ", ".join(row.writes))
    for number, difference in enumerate(different, 1):
        if any(fnmatch.fnmatch(row.name, pattern) for pattern in difference["rows"]):
            found.append(f"[{number}]")
    return "; ".join(found)


def writes(schema: Any) -> bool:
    return any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)


def is_view(schema: Any) -> bool:
    return any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)


def base_of(name: str) -> str:
    """The op that an overload belongs to, in-place ones to their functional twin."""
    base = name.partition(".")[0]
    if re.fullmatch(r"__i\w+__", base):
        return "__" + base[3:]
    return base if base.endswith("__") else base.removesuffix("_")


def twin(name: str, known: dict[str, Any]) -> str | None:
    """The functional overload that computes what this one writes, as glue/op.cpp finds it; its own name if it writes
    nothing."""
    if not writes(known[name]):
        return name
    inputs = [a.name for a in known[name].arguments if not (a.kwarg_only and a.alias_info and a.alias_info.is_write)]
    for other, schema in known.items():
        same = base_of(other) == base_of(name) and not writes(schema)
        if same and [argument.name for argument in schema.arguments] == inputs:
            return other
    return None


def has_cpu_kernel(name: str) -> bool:
    import torch

    return bool(
        torch._C._dispatch_has_kernel(f"aten::{name}")
        and torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU")
    )


def is_by_hand(name: str) -> bool:
    """Whether the glue's kernel comes from another file than the loop over all ops."""
    import torch

    for line in torch._C._dispatch_dump(f"aten::{name}").splitlines():
        if line.startswith("PrivateUse1"):
            return "register.cpp" not in line
    return False


def others(known: dict[str, Any], with_row: set[str]) -> Iterator[list[str]]:
    """[overload, how it runs] of what has a CPU kernel and no row."""
    from torch_pjrt import _trace

    decomposed: set[str] = {str(op).removeprefix("aten.").removesuffix(".default") for op in _trace.decompositions()}
    covered = {base_of(name) for name in with_row}
    listed = []
    for name in sorted(known, key=lambda name: (writes(known[name]), name)):
        schema = known[name]
        if name in with_row or not has_cpu_kernel(name) or is_composite(name) or is_view(schema):
            continue
        if name == "_foobar" or name.startswith("_test_"):  # of PyTorch's own tests
            continue
        if writes(schema) and base_of(name) in covered:
            continue
        covered.add(base_of(name))
        how = "by hand" if is_by_hand(name) else "decomposition" if twin(name, known) in decomposed else "CPU"
        listed.append((name, how))
    for name, how in sorted(listed):
        yield [f"`{name}`", how]


def refused() -> list[str]:
    """What was compiled, and what libtpu refuses, a line each."""
    known = tomllib.loads((TOOLS / "aot/known.toml").read_text())
    entries = known["known"]
    if not entries:
        return [f"{known['seen']} None is refused."]
    return [known["seen"], "", "Refused:", ""] + [
        f"- {', '.join(f'`{row}`' for row in entry['rows'])} ({', '.join(entry.get('targets', ['all']))}): "
        f"{entry['reason']}. {entry.get('instead', '')}".rstrip()
        for entry in entries
    ]


def operators_page() -> str:
    import torch

    version = torch.__version__.partition("+")[0]
    rows, known, different = optable.rows(), schemas(), differences()
    dtypes = tomllib.loads((TOOLS / "dtypes.toml").read_text())
    parts = [OPERATORS_HEAD.format(version=version, n_rows=len(rows))]
    for family in dict.fromkeys(row.family for row in rows):
        lines = [
            [
                f"`{row.name}`",
                f"`{row.params}`",
                dtypes_of(row.name, dtypes),
                row.layout,
                notes(row, known, different),
            ]
            for row in rows
            if row.family == family
        ]
        parts.append(f"## {family}\n\n" + table(["Overload", "Parameters", "Dtypes", "Strides", "Notes"], lines))
    parts.append(OTHERS_HEAD.format(version=version))
    parts.append(table(["Overload", "Runs by"], others(known, {row.name for row in rows})))
    texts = [f"{number}. {difference['text']}" for number, difference in enumerate(different, 1)]
    parts.append("## Known differences from the CPU\n\n" + "\n".join(texts) + "\n")
    parts.append(TPU_HEAD + "\n".join(refused()) + "\n")
    left_out = tomllib.loads((TOOLS / "differences.toml").read_text())["left_out"]
    parts.append("## Left out\n\n" + "\n".join(f"- {what}: {why}." for what, why in left_out.items()) + "\n")
    return "\n".join(parts)


PAGES = {"settings.md": settings_page, "operators.md": operators_page}


def main() -> None:
    (TOOLS / "dtypes.toml").write_text(dtypes_file())
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
