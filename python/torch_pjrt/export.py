"""Programs of `torch.export` as folders that run without Python (docs/export.md).

    program = torch.export.export(model, (x,))
    torch_pjrt.export.save(program, "folder")
    y, = torch_pjrt.export.load("folder")(x)

A package holds the StableHLO of the model as text, its graph (docs/graph_text.md), its weights as safetensors, and a
manifest. `include/tpj/package.h` runs it from C.
"""

import importlib.metadata
import json
import os
import re
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import fx

from torch_pjrt import _C, _loader, _pack, _safetensors, _trace
from torch_pjrt.compile._program import draws

__all__ = ["FORMAT", "VERSION", "Package", "load", "save"]

FORMAT, VERSION = "torch_pjrt.package", 1
_DTYPES = {name: dtype for dtype, name in _pack.DTYPES.items()}
_INPUT_LINE = re.compile(r"  %\d+ = input ")
_NEW = 1  # TPJ_GLUE_RESULT_NEW
_CODES = {1: "runtime", 2: "type", 3: "value", 4: "index", 5: "linalg"}  # tpj_code
_KINDS = torch.export.graph_signature.InputKind
_RESULTS = torch.export.graph_signature.OutputKind


def save(
    program: torch.export.ExportedProgram,
    folder: str | os.PathLike[str],
    *,
    compiled: bool = False,
    precision: str | None = None,
) -> Path:
    """Write a package. A package of that name is replaced once the new one is complete; any other folder is an error.

    `compiled`: also keep the program that the current device's compiler makes of it. `precision`: of float32 products,
    as in `torch.compile`'s options ("highest" by default). Raises NotImplementedError for what a package cannot hold:
    sizes that vary, random numbers, effects, an op without a StableHLO form.
    """
    target = Path(folder)
    if target.exists() and not (target / "manifest.json").is_file():
        raise FileExistsError(f"{target} exists and is no package")
    plan = _Plan(program)
    text = plan.text
    precision = precision and precision.upper()
    module, parameters, checks = _C.lower_text(text, precision)
    files: dict[str, bytes] = {"program.mlir": module.encode(), "program.graph": text.encode()}
    executables = []
    if compiled:
        _C.start()
        identity, binary = _C.compile_module(module)
        files["compiled.0"] = binary
        executables.append({"file": "compiled.0", "identity": identity})
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, data in files.items():
            (made / name).write_bytes(data)
        _safetensors.write(made / "weights.safetensors", plan.weights)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "versions": {"torch": torch.__version__, "torch_pjrt": importlib.metadata.version("torch_pjrt")},
            "files": {name: _describe_file(made / name) for name in (*files, "weights.safetensors")},
            "program": "program.mlir",
            "graph": "program.graph",
            "precision": precision,
            "weights_file": "weights.safetensors",
            "inputs": plan.inputs,
            "outputs": plan.outputs,
            "weights": [{"name": name, **_describe(value)} for name, value in plan.weights.items()],
            "graph_inputs": plan.arguments,
            "arguments": [plan.arguments[number] for number in parameters],
            "results": plan.results,
            "checks": [
                {"op": op, "low": low, "size": size, "code": _CODES[code], "message": message}
                for op, low, size, code, message in checks
            ],
            "executables": executables,
        }
        (made / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        made.chmod(0o777 & ~_umask())
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return target


def load(folder: str | os.PathLike[str], device: str | torch.device = _loader.BACKEND) -> "Package":
    """Read a package for the device. ValueError names the file that is missing or damaged."""
    return Package(Path(folder), torch.device(device))


class Package:
    """A loaded package: a function of tensors, given in order or by name, that returns a tuple of tensors.

    `inputs` and `outputs` are what the manifest says of them; `weights` are tensors of the device by name, and those
    that the model changes change with each call. An input that the model writes to is written to.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._manifest = _read_manifest(folder)
        self.inputs: list[dict[str, Any]] = self._manifest["inputs"]
        self.outputs: list[dict[str, Any]] = self._manifest["outputs"]
        text = _read_file(folder, self._manifest, self._manifest["graph"]).decode()
        stored = _safetensors.parse(_read_file(folder, self._manifest, self._manifest["weights_file"]))
        self.weights: dict[str, torch.Tensor] = {}
        for entry in self._manifest["weights"]:
            value = stored.get(entry["name"])
            if value is None:
                raise ValueError(f"{folder}: weight '{entry['name']}' is missing")
            if value.dtype != _DTYPES[entry["dtype"]]:
                value = value.view(_DTYPES[entry["dtype"]])
            self.weights[entry["name"]] = value.reshape(entry["shape"]).to(device)
        self._names = list(self.weights)
        self._device = device
        n_inputs, n_results = len(self._manifest["graph_inputs"]), len(self._manifest["results"])
        self._run = _Runner(str(folder), text, n_inputs, n_results, self._manifest["precision"])

    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = self._bind(args, kwargs)
        on_device = [value.to(self._device) for value in given]
        weights = [self.weights[name] for name in self._names]
        tensors = [
            on_device[argument["input"]] if "input" in argument else weights[argument["weight"]]
            for argument in self._manifest["graph_inputs"]
        ]
        outputs: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for result, value in zip(self._manifest["results"], self._run(tensors), strict=True):
                if "weight" in result:
                    weights[result["weight"]].copy_(value)
                else:
                    outputs[result["output"]] = value
            own = []
            for number, entry in enumerate(self.outputs):
                if "writes" in entry:
                    names = [described["name"] for described in self.inputs]
                    given[names.index(entry["writes"])].copy_(outputs[number])
                else:
                    own.append(outputs[number])
        return tuple(own)

    def _bind(self, args: tuple[torch.Tensor, ...], kwargs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        names = [entry["name"] for entry in self.inputs]
        if len(args) > len(names):
            raise TypeError(f"the package takes {len(names)} inputs, and {len(args)} were given")
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in values:
                raise TypeError(f"input '{name}' is {'given twice' if name in values else 'none of ' + str(names)}")
            values[name] = value
        for entry in self.inputs:
            if entry["name"] not in values:
                raise TypeError(f"input '{entry['name']}' is missing")
            value = values[entry["name"]]
            if _describe(value) != {"dtype": entry["dtype"], "shape": entry["shape"]}:
                raise ValueError(
                    f"input '{entry['name']}' is {entry['dtype']}{entry['shape']}, and "
                    f"{value.dtype} {list(value.shape)} was given"
                )
        return [values[name] for name in names]


class _Runner:
    """The package's graph as something that runs."""

    def __init__(self, name: str, text: str, n_inputs: int, n_results: int, precision: str | None) -> None:
        lines = text.splitlines(keepends=True)
        body = "".join(line for line in lines if line.startswith("  ") and not _INPUT_LINE.match(line))
        description = [n_results, *(number for i in range(n_results) for number in (_NEW, i)), 0]
        self._graph = _C.graph_create(name, body, n_inputs, 0, False, -1, description, precision, None, 0, {}, False)
        weakref.finalize(self, _C.graph_destroy, self._graph)

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return torch.ops.torch_pjrt.run_graph(self._graph, tensors, [])


class _Plan:
    """What an exported program becomes: its graph's text, its weights, and who is who."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        if program.range_constraints:
            names = ", ".join(str(symbol) for symbol in program.range_constraints)
            raise NotImplementedError(f"a package has fixed sizes, and {names} vary: export without dynamic_shapes")
        program = program.run_decompositions(_table())
        self._program = program
        self._signature = program.graph_signature
        module = program.graph_module
        module.graph.eliminate_dead_code()
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.weights: dict[str, torch.Tensor] = {}
        self.arguments: list[dict[str, int]] = []
        self.results: list[dict[str, int]] = []
        self._stored: dict[Any, int] = {}  # weights by the memory that they are
        self._weight_of: dict[str, int] = {}
        self._lines: list[str] = []
        self._nodes: list[fx.Node] = []
        for spec in self._signature.input_specs:
            self._add_argument(spec)
        packer = _pack.Packer("".join(self._lines), len(self._nodes))
        for number, node in enumerate(self._nodes):
            packer.add_input(node, number)
        self._add_nodes(module, packer)
        returned = module.graph.output_node().args[0]
        for spec, value in zip(self._signature.output_specs, returned, strict=True):
            self._add_result(spec, value, packer)
        self.text = "\n".join(["graph {", *packer.lines, "}"]) + "\n"

    def _add_argument(self, spec: Any) -> None:
        if not isinstance(spec.arg, torch.export.graph_signature.TensorArgument):
            if isinstance(spec.arg, torch.export.graph_signature.ConstantArgument):
                return  # a number, which is part of the graph
            raise NotImplementedError(f"input {spec.arg.name} is no tensor")
        node = next(node for node in self._program.graph.nodes if node.name == spec.arg.name)
        described = _describe(node.meta["val"])
        self._lines.append(f"  %{len(self._nodes)} = input {described['dtype']}{described['shape']}\n")
        self._nodes.append(node)
        if spec.kind == _KINDS.USER_INPUT:
            self.arguments.append({"input": len(self.inputs)})
            self.inputs.append({"name": spec.arg.name, **described})
            return
        if spec.kind in (_KINDS.PARAMETER, _KINDS.BUFFER) and spec.target in self._program.state_dict:
            value = self._program.state_dict[spec.target]
        else:
            value = self._program.constants[spec.target]
        self.arguments.append({"weight": self._store(spec.target, value)})

    def _store(self, name: str, value: torch.Tensor) -> int:
        """Weights that are the same memory are stored once."""
        value = value.detach()
        key: Any = name
        if value.device.type == "cpu" and value.numel():
            key = (value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        if key not in self._stored:
            self._stored[key] = len(self.weights)
            self.weights[name] = value
        self._weight_of[name] = self._stored[key]
        return self._stored[key]

    def _add_nodes(self, module: fx.GraphModule, packer: _pack.Packer) -> None:
        for node in module.graph.nodes:
            if node.op == "get_attr":
                value = getattr(module, node.target)
                if isinstance(value, fx.GraphModule):
                    node.meta["val"] = value
                else:
                    packer.add_constant(node, value)
            elif node.op == "call_function" and not _is_assertion(node):
                if draws(node):
                    raise NotImplementedError(f"{_where(node)}: a package has no random state; export in eval mode")
                try:
                    packer.add_call(node)
                except _pack.Unpackable as error:
                    raise NotImplementedError(f"{_where(node)}: {error}") from None

    def _add_result(self, spec: Any, value: Any, packer: _pack.Packer) -> None:
        if value is None:
            return
        if not isinstance(value, fx.Node) or not isinstance(value.meta.get("val"), torch.Tensor):
            raise NotImplementedError(f"an output that is no tensor: {value}")
        if spec.kind in (_RESULTS.BUFFER_MUTATION, getattr(_RESULTS, "PARAMETER_MUTATION", None)):
            self.results.append({"weight": self._weight_of[spec.target]})
        elif spec.kind in (_RESULTS.USER_OUTPUT, _RESULTS.USER_INPUT_MUTATION):
            self.results.append({"output": len(self.outputs)})
            described: dict[str, Any] = {"name": spec.arg.name, **_describe(value.meta["val"])}
            if spec.kind == _RESULTS.USER_INPUT_MUTATION:
                described["writes"] = spec.target
            self.outputs.append(described)
        else:
            raise NotImplementedError(f"an output of kind {spec.kind.name}")
        packer.add_return(value, ordered=False)


def _table() -> dict[Any, Any]:
    """Decompositions for what has no row: composite ops keep the row that they have."""
    table = torch.export.default_decompositions()
    for op in list(table):
        if _pack.has_row(op):
            del table[op]
    table.update(_trace.decompositions())
    return table


def _is_assertion(node: fx.Node) -> bool:
    return str(node.target).startswith(("aten._assert", "aten.sym_constrain"))


def _where(node: fx.Node) -> str:
    line = _pack.user_line(node)
    return f"{node.target}" + (f" at {line[0]}:{line[1]}" if line else "")


def _describe(value: torch.Tensor) -> dict[str, Any]:
    if value.dtype not in _pack.DTYPES:
        raise NotImplementedError(f"dtype {value.dtype} in a package")
    return {"dtype": _pack.DTYPES[value.dtype], "shape": [int(size) for size in value.shape]}


def _describe_file(path: Path) -> dict[str, int]:
    crc = 0
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 22), b""):
            crc = zlib.crc32(part, crc)
    return {"bytes": path.stat().st_size, "crc32": crc}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path}: this is no package")
    if manifest.get("version") != VERSION:
        raise NotImplementedError(
            f"{path}: the package has version {manifest.get('version')}, this library reads {VERSION}: export it again"
        )
    return dict(manifest)


def _read_file(folder: Path, manifest: Mapping[str, Any], name: str) -> bytes:
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise ValueError(f"{folder / name}: {error.strerror}") from None
    entry = manifest["files"][name]
    if len(data) != entry["bytes"] or zlib.crc32(data) != entry["crc32"]:
        raise ValueError(f"{folder / name}: the file is damaged: its size or checksum is not the manifest's")
    return data
