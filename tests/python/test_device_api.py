"""torch.tpu and torch.accelerator: devices, properties, settings, modes, AMP."""

import threading

import pytest
import torch
from processes import run

# Names of torch.cuda that programs and libraries reach for, all of which a device of this kind can have.
NAMES = [
    "Event", "OutOfMemoryError", "Stream", "StreamContext", "_get_generator", "_initialized", "_is_in_bad_fork",
    "_lazy_call", "_lazy_init", "_utils", "amp", "current_device", "current_stream", "default_generators",
    "default_stream", "device", "device_count", "device_of", "empty_cache", "get_amp_supported_dtype",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing",
    "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
    "mem_get_info", "memory", "memory_allocated", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "random", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_name_is_there(name):
    assert getattr(torch.tpu, name) is not None
    with pytest.raises(AttributeError):
        getattr(torch.tpu, name + "_")


def test_submodules_import():
    import torch.tpu.amp
    import torch.tpu.memory
    import torch.tpu.random
    import torch.tpu.streams

    assert torch.tpu.memory.memory_stats is torch.tpu.memory_stats
    assert torch.tpu.random.get_rng_state is torch.tpu.get_rng_state


def test_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.tpu.device_count() >= 1
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index("tpu:0")
    torch.accelerator.synchronize()
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0
    dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.float64, torch.complex64, torch.bool} <= dtypes
    assert torch.qint8 not in dtypes


def test_properties():
    properties = torch.tpu.get_device_properties()
    assert (
        properties == torch.tpu.get_device_properties("tpu:0") == torch.tpu.get_device_properties(torch.device("tpu"))
    )
    assert properties.name == torch.tpu.get_device_name(0)
    assert properties.type in ("cpu", "tpu")
    free, total = torch.tpu.mem_get_info()
    assert properties.total_memory == total > free > 2**20


@pytest.mark.parametrize("call", [torch.tpu.get_device_properties, torch.tpu.get_device_name, torch.tpu.set_device])
def test_device_that_does_not_exist(call):
    with pytest.raises(RuntimeError, match="there is no device tpu:99"):
        call(99)


@pytest.mark.parametrize("make", [lambda: torch.ones(1, device="tpu:99"), lambda: torch.ones(1).to("tpu:99")])
def test_tensor_on_a_device_that_does_not_exist(make):
    with pytest.raises(RuntimeError, match="tpu:99"):
        make()


def test_device_arguments():
    assert torch.tpu._utils._get_device_index("tpu:3") == 3
    assert torch.tpu._utils._get_device_index(None, optional=True) == 0
    assert torch.tpu._utils._get_device_index("cpu", allow_cpu=True) == -1
    for wrong, error in (("cpu", ValueError), ("tpu", ValueError), (None, ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            torch.tpu._utils._get_device_index(wrong)


SEVERAL_DEVICES = """
import threading, torch
assert torch.tpu.device_count() == torch.accelerator.device_count() == 3
torch.tpu.set_device(1)
assert torch.tpu.current_device() == torch.accelerator.current_device_index() == 1
assert torch.ones(1, device="tpu").device.index == 1
with torch.tpu.device(2):
    assert torch.ones(1, device="tpu").device.index == 2
    with torch.tpu.device_of(torch.ones(1, device="tpu:0")):
        assert torch.tpu.current_device() == 0
    with torch.tpu.device_of(torch.ones(1)):
        assert torch.tpu.current_device() == 2
    with torch.tpu.device(-1), torch.tpu.device(None):
        assert torch.tpu.current_device() == 2
assert torch.tpu.current_device() == 1
seen = []
thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_device()))
thread.start(); thread.join()
assert seen == [0], "the current device belongs to its thread"
x = torch.ones(2, device="tpu:2", requires_grad=True)
(x * 3).sum().backward()                      # the last device has a queue of its own in autograd
assert x.grad.device.index == 2 and x.grad.tolist() == [3.0, 3.0]
y = x.detach().to("tpu:0")
assert y.device.index == 0 and y.tolist() == [1.0, 1.0]
try:
    torch.ones(1, device="tpu:0") + torch.ones(1, device="tpu:1")
except RuntimeError as error:
    assert "tpu:0" in str(error) and "tpu:1" in str(error)
else:
    raise AssertionError("operands on two devices")
torch.tpu.synchronize(2)
streams = [torch.tpu.current_stream(i).device_index for i in range(3)]
assert streams == [0, 1, 2]
for generator, index in zip(torch.tpu.default_generators, range(3), strict=True):
    assert generator.device == torch.device("tpu", index)
torch.manual_seed(7)
assert len({str(s.tolist()) for s in torch.tpu.get_rng_state_all()}) == 1
torch.rand(1, device="tpu:2")
states = torch.tpu.get_rng_state_all()
assert states[2].tolist() != states[0].tolist() == states[1].tolist()
assert torch.tpu.memory_allocated(2) > 0 == torch.tpu.memory_allocated(1)
print("done")
"""


def test_several_devices():
    assert run(SEVERAL_DEVICES, TORCH_PJRT_NUM_DEVICES="3").stdout == "done\n"


def test_device_of_a_tensor_method():
    x = torch.ones(2).tpu()
    assert x.is_tpu and x.device == torch.device("tpu:0")
    assert not torch.ones(2).is_tpu
    assert torch.nn.Linear(2, 2).tpu().weight.is_tpu
    assert x.untyped_storage().is_tpu


def test_use_from_many_threads():
    results: list[float] = []

    def work(seed: int) -> None:
        x = torch.full((16,), float(seed), device="tpu")
        for _ in range(20):
            x = x + 1
        results.append(x.sum().item())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [16.0 * (seed + 20) for seed in range(8)]


# ---- settings and modes ----


def test_config_lists_every_setting():
    from torch_pjrt import _C

    names = {name for name, *_ in _C.settings()}
    assert {"plugin", "num_devices", "eager_mode", "fallback", "log_level"} <= names == set(dir(torch.tpu.config))
    for name, environment, _, _, documentation in _C.settings():
        assert environment == f"TORCH_PJRT_{name.upper()}"
        assert name in repr(torch.tpu.config) and documentation in repr(torch.tpu.config)


def test_config_changes_and_checks():
    before = torch.tpu.config.fallback
    torch.tpu.config.fallback = "silent"
    assert torch.tpu.config.fallback == "silent"
    with pytest.raises(ValueError, match="warn"):
        torch.tpu.config.fallback = "loud"
    assert torch.tpu.config.fallback == "silent"
    torch.tpu.config.fallback = before
    with pytest.raises(AttributeError, match="no_such"):
        _ = torch.tpu.config.no_such
    with pytest.raises(AttributeError, match="no_such"):
        torch.tpu.config.no_such = 1


def test_config_has_types():
    assert isinstance(torch.tpu.config.num_devices, int)
    assert torch.tpu.config.check_index in (True, False)
    before = torch.tpu.config.check_index
    torch.tpu.config.check_index = not before
    assert torch.tpu.config.check_index is (not before)
    torch.tpu.config.check_index = before


def test_settings_come_from_the_environment():
    code = "import torch; print(torch.tpu.config.fallback, torch.tpu.config.num_devices, torch.tpu.device_count())"
    out = run(code, TORCH_PJRT_FALLBACK="error", TORCH_PJRT_NUM_DEVICES="2").stdout
    assert out.split() == ["error", "2", "2"]


@pytest.mark.strict
def test_eager_modes():
    assert torch.tpu.eager_mode() == "strict"
    with torch.tpu.set_eager_mode("debug"):
        assert torch.tpu.eager_mode() == torch.tpu.config.eager_mode == "debug"
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2.0, 2.0]
    assert torch.tpu.eager_mode() == "strict"
    torch.tpu.config.eager_mode = "fused"
    assert torch.tpu.eager_mode() == "fused"
    torch.tpu.set_eager_mode("strict")
    with pytest.raises(ValueError):
        torch.tpu.set_eager_mode("quick")
    assert torch.tpu.eager_mode() == "strict"


@pytest.mark.strict
def test_compile_stats_count():
    x = torch.ones(3, 5, 7, device="tpu")
    x + 2
    before = torch.tpu.compile_stats()
    for _ in range(5):
        x + 2
    after = torch.tpu.compile_stats()
    assert after["programs"] == before["programs"]
    assert after["hits"] - before["hits"] == after["launches"] - before["launches"] == 5
    torch.ones(11, 13, device="tpu") + 2
    later = torch.tpu.compile_stats()
    assert later["programs"] > after["programs"] and later["seconds"] > after["seconds"]


# ---- AMP ----


def test_autocast_policies():
    a = torch.randn(4, 4, device="tpu")
    half = a.bfloat16()
    with torch.autocast("tpu"):
        assert (a @ a).dtype == torch.bfloat16
        assert torch.nn.functional.linear(a, a).dtype == torch.bfloat16
        assert torch.exp(half).dtype == torch.float32
        assert torch.nn.functional.softmax(half, -1).dtype == torch.float32
        assert half.sum().dtype == torch.float32
        assert half.sum(dtype=torch.bfloat16).dtype == torch.bfloat16
        assert half.norm().dtype == half.norm(dim=1).dtype == torch.float32
        assert torch.addcmul(a, half, a).dtype == torch.float32
        assert torch.addcmul(half, half, half).dtype == torch.bfloat16
        assert (a.double() @ a.double()).dtype == torch.float64
        assert (a + half).dtype == torch.float32
        with torch.autocast("tpu", enabled=False):
            assert (a @ a).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            torch.nn.functional.binary_cross_entropy(a.sigmoid(), a.sigmoid())
    assert (a @ a).dtype == torch.float32
    with torch.autocast("tpu", dtype=torch.float16):
        assert (a @ a).dtype == torch.float16
    with torch.tpu.amp.autocast():
        assert (a @ a).dtype == torch.bfloat16


def test_every_autocast_op_of_the_cpu_list_is_registered():
    """The lists are taken from PyTorch's header; this sees that they arrived, by the dispatcher's own word."""
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastPrivateUse1"))
    for op in ("matmul", "linear", "conv2d", "scaled_dot_product_attention", "layer_norm", "nll_loss", "logsumexp"):
        assert f"aten::{op}" in registered
    assert {"aten::norm.Scalar", "aten::sum.dim_IntList", "aten::pow.Tensor_Scalar"} <= registered
    assert len(registered) > 100


def test_autocast_keeps_gradients():
    w = torch.randn(4, 4, device="tpu", requires_grad=True)
    with torch.autocast("tpu"):
        loss = (torch.randn(2, 4, device="tpu") @ w).float().pow(2).mean()
    loss.backward()
    assert w.grad is not None and w.grad.dtype == torch.float32


def test_grad_scaler_skips_steps_with_infinities():
    w = torch.nn.Parameter(torch.ones(2, device="tpu"))
    optimizer = torch.optim.SGD([w], lr=0.5)
    scaler = torch.tpu.amp.GradScaler(init_scale=4.0, growth_interval=1)
    scaler.scale((w * 2).sum()).backward()
    assert w.grad.tolist() == [8.0, 8.0]
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0, 0.0] and scaler.get_scale() == 8.0
    optimizer.zero_grad()
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0, 0.0] and scaler.get_scale() == 4.0


def test_custom_autograd_functions_under_amp():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.tpu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype == torch.float32
            return x * 2

        @staticmethod
        @torch.tpu.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, device="tpu", dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("tpu"):
        Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_bf16_is_supported():
    assert torch.tpu.is_bf16_supported()
    assert torch.tpu.get_amp_supported_dtype()[0] == torch.bfloat16


# ---- modules ----


@pytest.mark.parametrize("swap", [False, True])
def test_module_to_keeps_parameters(swap):
    layer, other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    other.weight = layer.weight
    model = torch.nn.Sequential(layer, other)
    weight = layer.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        model.to("tpu")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight is other.weight and weight.is_tpu
    assert optimizer.param_groups[0]["params"][0] is weight
    before = weight.detach().cpu()
    model(torch.ones(1, 3, device="tpu")).sum().backward()
    optimizer.step()
    assert not torch.equal(before, weight.detach().cpu())
    model.to("cpu")
    assert layer.weight is weight is other.weight and not weight.is_tpu


def test_data_can_be_set_from_another_device():
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.data = parameter.data.to("tpu")
    assert parameter.is_tpu and parameter.tolist() == [1.0, 1.0, 1.0]
