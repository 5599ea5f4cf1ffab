"""Memory: what is counted, when it is given back, pinned host memory, storages that change size."""

import gc

import pytest
import torch
from processes import run

KIB = 1024


@pytest.fixture(autouse=True)
def settled():
    gc.collect()
    torch.tpu.synchronize()


def test_allocated_follows_tensors():
    before = torch.tpu.memory_allocated()
    x = torch.ones(KIB, device="tpu")
    assert torch.tpu.memory_allocated() - before == 4 * KIB == x.untyped_storage().nbytes()
    y = x + 1
    assert torch.tpu.memory_allocated() - before == 8 * KIB
    view = y[10:20]
    del y
    assert torch.tpu.memory_allocated() - before == 8 * KIB, "a view keeps its storage"
    del view, x
    assert torch.tpu.memory_allocated() == before
    assert torch.accelerator.memory_allocated() == before


def test_memory_comes_back_after_training_steps():
    model = torch.nn.Linear(32, 32).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> int:
        model(torch.ones(4, 32, device="tpu")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return torch.tpu.memory_allocated()

    step()
    sizes = [step() for _ in range(4)]
    assert len(set(sizes)) == 1, sizes


def test_peak():
    torch.tpu.reset_peak_memory_stats()
    base = torch.tpu.memory_allocated()
    assert torch.tpu.max_memory_allocated() == base
    x = torch.empty(64 * KIB, dtype=torch.uint8, device="tpu")
    del x
    assert torch.tpu.max_memory_allocated() - base == 64 * KIB
    assert torch.accelerator.max_memory_allocated() - base == 64 * KIB
    torch.tpu.reset_max_memory_allocated()
    assert torch.tpu.max_memory_allocated() == base


def test_statistics_have_the_names_of_cuda():
    stats = torch.tpu.memory_stats()
    for key in (
        "allocated_bytes",
        "reserved_bytes",
        "active_bytes",
        "requested_bytes",
        "allocation",
        "active",
        "segment",
    ):
        for part in ("current", "peak", "allocated", "freed"):
            assert isinstance(stats[f"{key}.all.{part}"], int)
    assert {"num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free"} <= stats.keys()
    nested = torch.tpu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated()
    assert torch.tpu.memory_reserved() == stats["reserved_bytes.all.current"] >= torch.tpu.memory_allocated()
    assert torch.tpu.max_memory_reserved() >= torch.tpu.memory_reserved()


def test_accumulated_statistics():
    torch.tpu.reset_accumulated_memory_stats()
    before = torch.tpu.memory_stats()
    for _ in range(3):
        torch.empty(KIB, dtype=torch.uint8, device="tpu")
    after = torch.tpu.memory_stats()
    assert after["allocated_bytes.all.allocated"] - before["allocated_bytes.all.allocated"] == 3 * KIB
    assert after["allocated_bytes.all.freed"] - before["allocated_bytes.all.freed"] == 3 * KIB
    assert after["num_device_alloc"] - before["num_device_alloc"] == 3


def test_summary_and_snapshot():
    x = torch.ones(2 * KIB, device="tpu")
    summary = torch.tpu.memory_summary()
    assert "tpu:0" in summary and "KiB" in summary
    assert len(torch.tpu.memory_summary(abbreviated=True)) < len(summary)
    (segment,) = torch.tpu.memory_snapshot(0)
    assert segment["device"] == 0 and segment["allocated_size"] == torch.tpu.memory_allocated() >= x.nbytes


def test_free_and_total():
    free, total = torch.tpu.mem_get_info()
    assert 0 < free < total
    assert torch.accelerator.get_memory_info()[1] == total
    torch.tpu.empty_cache()
    torch.accelerator.empty_cache()
    torch.tpu.ipc_collect()


def test_before_the_first_use_there_is_nothing():
    code = """
import torch
from torch_pjrt import _C
print(torch.tpu.memory_allocated(), torch.tpu.memory_stats(), torch.tpu.memory_snapshot())
print(len(torch.accelerator.memory_stats()))
torch.tpu.empty_cache()
print(_C.started())
"""
    assert run(code).stdout.splitlines() == ["0 {} []", "0", "False"]


@pytest.mark.parametrize("mode", ["strict", "debug", "fused"])
@pytest.mark.parametrize("make", [torch.ones, torch.randn, lambda n, **to: torch.zeros(1, **to).expand(n) + 1])
def test_too_much_memory_is_an_error_of_the_call(make, mode):
    free = torch.tpu.memory_allocated()
    with torch.tpu.set_eager_mode(mode), pytest.raises(torch.OutOfMemoryError, match=r"has 4503599627370496 bytes"):
        make(2**50, device="tpu")
    gc.collect()
    assert torch.tpu.memory_allocated() == free
    assert (torch.ones(3, device="tpu") + 1).tolist() == [2.0, 2.0, 2.0]


# ---- addresses ----


def test_data_pointers():
    x, y = torch.ones(8, device="tpu"), torch.ones(8, device="tpu")
    assert x.data_ptr() != y.data_ptr()
    assert x.data_ptr() == x.view(2, 4).data_ptr() == x.detach().data_ptr()
    assert x[3:].data_ptr() == x.data_ptr() + 12
    before = x.data_ptr()
    x.add_(1)
    x.zero_()
    assert x.data_ptr() == before
    assert x.data_ptr() % 64 == 0
    assert len({torch.ones(8, device="tpu").data_ptr() for _ in range(10)}) >= 1
    alive = [torch.ones(1, device="tpu") for _ in range(100)]
    assert len({t.data_ptr() for t in alive}) == 100


# ---- storages ----


def test_storage_resize_keeps_the_bytes():
    x = torch.arange(4.0, device="tpu")
    storage = x.untyped_storage()
    storage.resize_(32)
    assert storage.nbytes() == 32
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    before = torch.tpu.memory_allocated()
    storage.resize_(0)
    assert torch.tpu.memory_allocated() == before - 32
    storage.resize_(16)
    x.copy_(torch.ones(4))
    assert x.tolist() == [1.0] * 4


def test_tensor_resize_and_set():
    x = torch.arange(6.0, device="tpu")
    x.resize_(2, 2)
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    x.resize_(3, 4)
    assert x.flatten()[:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    y = torch.ones(3, device="tpu")
    x.set_(y)
    y[0] = 5
    assert x.tolist() == [5.0, 1.0, 1.0]
    x.set_()
    assert x.numel() == 0


def test_setting_data_severs_aliases():
    x = torch.zeros(10, device="tpu")
    view = x.view(2, 5)
    x.data = x.data + 1
    assert view.tolist() == [[0.0] * 5] * 2
    x.data.add_(1)
    assert x.tolist() == [2.0] * 10


# ---- pinned memory ----


def test_pinned_memory():
    x = torch.arange(2000.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned()
    assert torch.equal(pinned, x)
    assert pinned.data_ptr() % 4096 == 0
    assert pinned[1999:].is_pinned(), "every address inside counts"
    assert pinned.pin_memory().data_ptr() == pinned.data_ptr()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.zeros(0, pin_memory=True).numel() == 0
    assert not torch.ones(3, device="tpu").is_pinned()


def test_pinned_memory_that_was_freed_is_forgotten():
    addresses = []
    for _ in range(50):
        pinned = torch.empty(100_000, pin_memory=True)
        addresses.append(pinned.data_ptr())
        del pinned
    ordinary = [torch.empty(100_000) for _ in range(50)]
    assert not any(t.is_pinned() for t in ordinary)


@pytest.mark.parametrize("pin", [False, True])
def test_copies_that_do_not_block(pin):
    source = torch.arange(5000.0)
    if pin:
        source = source.pin_memory()
    x = source.to("tpu", non_blocking=True)
    source.fill_(-1)  # the copy has read it
    assert torch.equal(x.cpu(), torch.arange(5000.0))
    target = torch.empty(5000, pin_memory=pin)
    event = torch.tpu.Event()
    for i in range(100):
        target.copy_(x + i, non_blocking=True)
        event.record()
        event.synchronize()
        assert torch.equal(target, torch.arange(5000.0) + i)


def test_programs_leave_before_the_kernel_runs_out_of_mappings():
    """Each program of a CPU plugin holds about three mappings; at vm.max_map_count the plugin's code generator crashes."""
    code = """
import mmap, pathlib
import torch

most = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
count = lambda: pathlib.Path("/proc/self/maps").read_text().count("\\n")
torch.ones(3, device="tpu").exp().cpu()
bound = most // 4 * 3
held = []
for k in range(bound - count() - 60):  # neighbours of different protection are not merged into one mapping
    held.append(mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | (mmap.PROT_WRITE if k % 2 else 0)))
assert bound - 100 < count() < bound
for n in range(7, 257):
    assert torch.ones(n, device="tpu").exp().cpu().shape == (n,)
assert torch.tpu.compile_stats()["programs"] > 450
assert count() < bound + 700, (count(), bound)  # 1,440 without eviction
"""
    run(code)


def cpu_peak(work) -> int:
    """The most bytes that PyTorch's CPU allocator held during `work()`, from its own reports to the profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    events = profile.profiler.kineto_results.events()
    held = peak = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_training_needs_what_the_cpu_needs(mode, optimizer):
    def train(device: str) -> None:
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
        model = torch.nn.Sequential(torch.nn.Embedding(40, 64), layer, torch.nn.Linear(64, 40)).to(device)
        steps = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)
        tokens = torch.randint(0, 40, (8, 33)).to(device)
        for _ in range(3):
            steps.zero_grad(set_to_none=True)
            logits = model(tokens[:, :-1])
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            steps.step()

    needed = cpu_peak(lambda: train("cpu"))
    base = torch.tpu.memory_allocated()
    torch.tpu.reset_peak_memory_stats()
    with torch.tpu.set_eager_mode(mode):
        train("tpu")
    gc.collect()
    torch.tpu.synchronize()
    assert needed > 1e6, "the profiler reports memory"
    assert torch.tpu.max_memory_allocated() - base <= 1.1 * needed
    assert torch.tpu.memory_allocated() == base
