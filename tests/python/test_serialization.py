"""Saving, loading, copying: the device is kept or changed as asked, and what shared memory goes on sharing it."""

import copy
import io
import pickle

import pytest
import torch
from processes import run


def save(value: object, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(x))


def move_to_tpu(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage:
    return storage.tpu() if location == "cpu" else storage


@pytest.mark.parametrize(
    ("location", "of_tpu", "of_cpu"),
    [
        (None, "tpu", "cpu"),
        ("cpu", "cpu", "cpu"),
        ("tpu", "tpu", "tpu"),
        ("tpu:0", "tpu", "tpu"),
        (torch.device("tpu"), "tpu", "tpu"),
        (torch.device("tpu", 0), "tpu", "tpu"),
        (torch.device("cpu"), "cpu", "cpu"),
        ({"tpu:0": "cpu"}, "cpu", "cpu"),
        ({"cpu": "tpu:0"}, "tpu", "tpu"),
        ({"cuda": "tpu"}, "tpu", "cpu"),
        (lambda storage, location: storage, "cpu", "cpu"),
        (lambda storage, location: None, "tpu", "cpu"),
        (move_to_tpu, "cpu", "tpu"),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_map_location(location, of_tpu, of_cpu):
    saved = {"tpu": torch.arange(5.0, device="tpu"), "cpu": torch.arange(3)}
    loaded = torch.load(save(saved), map_location=location)
    assert loaded["tpu"].device.type == of_tpu
    assert loaded["cpu"].device.type == of_cpu
    assert loaded["tpu"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert loaded["cpu"].tolist() == [0, 1, 2]


def test_file_of_another_accelerator_is_mapped():
    """As it comes from a machine with CUDA. The legacy format keeps the location as plain text after its length."""
    data = save(torch.arange(4.0, device="tpu"), _use_new_zipfile_serialization=False).getvalue()
    assert data.count(b"tpu:0") == 1
    renamed = io.BytesIO(data.replace(b"\x05\x00\x00\x00tpu:0", b"\x06\x00\x00\x00cuda:0"))
    loaded = torch.load(renamed, map_location={"cuda:0": "tpu:0"})
    assert loaded.is_tpu and loaded.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.uint16],
    ids=str,
)
def test_dtypes(dtype, legacy):
    if legacy and dtype in (torch.float8_e4m3fn, torch.uint16):
        pytest.skip("PyTorch's legacy format has no such storage, on the CPU either")
    x = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype).to("tpu")
    loaded = torch.load(save(x, _use_new_zipfile_serialization=not legacy))
    assert (loaded.dtype, loaded.device, loaded.shape) == (x.dtype, x.device, x.shape)
    assert torch.equal(loaded.cpu().view(torch.uint8), x.cpu().view(torch.uint8))


def test_views_keep_sharing():
    base = torch.arange(12.0, device="tpu")
    saved = [base, base[4:8], base.view(3, 4).t()]
    loaded = torch.load(save(saved))
    assert loaded[1].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert loaded[2].stride() == (1, 4) and torch.equal(loaded[2].cpu(), saved[2].cpu())
    loaded[0].fill_(7)
    assert loaded[1].tolist() == [7.0] * 4 and loaded[2].cpu().eq(7).all()


def test_model_with_tied_weights():
    model = Tied().to("tpu")
    tokens = torch.tensor([0, 3, 4], device="tpu")
    expected = model(tokens)
    fresh = Tied()
    fresh.load_state_dict(torch.load(save(model.state_dict()), map_location="cpu"))
    fresh.to("tpu")
    assert fresh.head.weight is fresh.embedding.weight
    assert torch.equal(fresh(tokens).cpu(), expected.cpu())
    whole = torch.load(save(model), weights_only=False)
    assert whole.head.weight is whole.embedding.weight and whole.head.weight.is_tpu
    assert torch.equal(whole(tokens).cpu(), expected.cpu())
    duplicate = copy.deepcopy(model)
    assert duplicate.head.weight is duplicate.embedding.weight is not model.head.weight
    assert torch.equal(duplicate(tokens).cpu(), expected.cpu())


def test_optimizer_state():
    parameter = torch.nn.Parameter(torch.ones(3, device="tpu"))
    optimizer = torch.optim.AdamW([parameter], lr=0.1)
    parameter.sum().backward()
    optimizer.step()
    other = torch.nn.Parameter(parameter.detach().clone())
    restored = torch.optim.AdamW([other], lr=0.1)
    restored.load_state_dict(torch.load(save(optimizer.state_dict())))
    for one, step in ((parameter, optimizer), (other, restored)):
        one.grad = torch.full((3,), 0.5, device="tpu")
        step.step()
    assert torch.equal(parameter.detach().cpu(), other.detach().cpu())
    assert restored.state[other]["exp_avg"].is_tpu


def test_pickle_and_copies():
    x = torch.arange(6.0, device="tpu").view(2, 3)
    for made in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.clone()):
        assert made.device == x.device and torch.equal(made.cpu(), x.cpu())
    assert copy.copy(x).data_ptr() == x.data_ptr() != copy.deepcopy(x).data_ptr()
    pair = copy.deepcopy([x, x[0]])
    pair[0].zero_()
    assert pair[1].tolist() == [0.0, 0.0, 0.0] and x[0].tolist() == [0.0, 1.0, 2.0]
    parameter = pickle.loads(pickle.dumps(torch.nn.Parameter(x)))
    assert isinstance(parameter, torch.nn.Parameter) and parameter.is_tpu and parameter.requires_grad


def test_lazy_bits_are_saved():
    z = torch.tensor([1 + 2j, 3 - 4j]).to("tpu")
    assert torch.load(save(z.conj())).tolist() == [1 - 2j, 3 + 4j]
    assert torch.load(save(z.conj().imag)).tolist() == [-2.0, 4.0]


def test_empty_tensor():
    loaded = torch.load(save(torch.empty(0, 3, device="tpu")))
    assert loaded.shape == (0, 3) and loaded.is_tpu


def test_generator_state_travels():
    generator = torch.Generator(device="tpu").manual_seed(11)
    torch.rand(5, device="tpu", generator=generator)
    state = torch.load(save(generator.get_state()))
    expected = torch.rand(5, device="tpu", generator=generator).tolist()
    again = torch.Generator(device="tpu")
    again.set_state(state)
    assert torch.rand(5, device="tpu", generator=again).tolist() == expected


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.arange(6.0, device="tpu").view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16, device="tpu")}
    path = tmp_path / "model.safetensors"
    safetensors.save_file(tensors, path)
    # The library names the devices that it can load to itself, and knows no "tpu": the tensors are moved.
    loaded = {name: tensor.to("tpu") for name, tensor in safetensors.load_file(path).items()}
    assert all(torch.equal(loaded[name].cpu(), tensor.cpu()) for name, tensor in tensors.items())
    assert safetensors.load(safetensors.save(loaded)).keys() == tensors.keys()


def test_loading_onto_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="device 7"):
        torch.load(save(torch.ones(2)), map_location="tpu:7")


def test_another_index():
    code = """
import io, torch
file = io.BytesIO()
torch.save(torch.arange(3., device="tpu:1"), file)
for location in (None, "tpu:0", {"tpu:1": "tpu:0"}, "tpu"):
    file.seek(0)
    print(torch.load(file, map_location=location).device)
"""
    assert run(code, TORCH_PJRT_NUM_DEVICES="2").stdout.split() == ["tpu:1", "tpu:0", "tpu:0", "tpu:0"]
