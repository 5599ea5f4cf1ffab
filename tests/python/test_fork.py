"""Processes: a forked child cannot use its parent's device and says so; loaders with workers work."""

import pytest
import torch
from processes import run

FORK = """
import os, sys, traceback, torch
from torch_pjrt import _C
{before}
child = os.fork()
if child == 0:
    status = 1
    try:
        {in_child}
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
print("parent", (torch.ones(2, device="tpu") + 1).tolist())
"""


def fork(before: str, in_child: str) -> list[str]:
    code = FORK.replace("{before}", before).replace("{in_child}", in_child.replace("\n", "\n        "))
    return run(code).stdout.splitlines()


USED = "x = torch.ones(2, device='tpu')"


USES = ["torch.ones(1, device='tpu')", "x + 1", "x.cpu()", "torch.tpu.synchronize()", "torch.tpu.init()"]


@pytest.mark.parametrize("use", USES)
def test_child_of_a_user_gets_a_clear_error(use):
    lines = fork(USED, f"try:\n    {use}\nexcept RuntimeError as error:\n    print(error)")
    assert "fork" in lines[0] and "spawn" in lines[0]
    assert lines[-1] == "parent [2.0, 2.0]"


def test_child_may_ask():
    lines = fork(
        USED,
        "print(torch.tpu._is_in_bad_fork(), torch.tpu.is_available(), torch.tpu.is_initialized(), x.shape, x.device)\n"
        "torch.manual_seed(3)\n"
        "print(torch.ones(2).sum().item())\n"
        "del x",
    )
    assert lines[:2] == ["True False False torch.Size([2]) tpu:0", "2.0"]


def test_child_uses_the_device_when_its_parent_had_not():
    lines = fork("", "print((torch.ones(2, device='tpu') * 3).tolist(), _C.started())")
    assert lines == ["[3.0, 3.0] True", "parent [2.0, 2.0]"]


def test_children_of_children():
    in_child = "import os\nassert os.fork() == 0 or os.wait()[1] == 0\nprint(torch.tpu._is_in_bad_fork())"
    lines = fork(USED, in_child)
    assert lines[:-1] == ["True", "True"]


LOADER = """
import torch
{before}
class Squares(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i): return torch.tensor([float(i) ** 2])
if __name__ == "__main__":
    options = dict(batch_size=4, num_workers=2, pin_memory={pin}, timeout=60, {options})
    loader = torch.utils.data.DataLoader(Squares(), **options)
    for epoch in range(2):
        batches = [(batch.is_pinned(), batch.to("tpu", non_blocking=True)) for batch in loader]
    print(sum(batch.sum().item() for _, batch in batches), [pinned for pinned, _ in batches])
"""


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("before", ["", "torch.ones(1, device='tpu')"], ids=["fresh", "used"])
@pytest.mark.parametrize("options", ["", "persistent_workers=True"], ids=["plain", "persistent"])
def test_loader_with_workers(pin, before, options):
    code = LOADER.replace("{before}", before).replace("{pin}", str(pin)).replace("{options}", options)
    assert run(code).stdout == f"506.0 {[pin] * 3}\n"


def test_spawned_process_uses_the_device(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch, torch.multiprocessing as mp
def work(rank, results):
    results.put((torch.ones(2, device="tpu") * rank).sum().item())
if __name__ == "__main__":
    torch.ones(1, device="tpu")
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.spawn(work, args=(results,), nprocs=2)
    print(sorted(results.get() for _ in range(2)))
""")
    assert run(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')").stdout == "[0.0, 2.0]\n"


def test_process_ends_cleanly_with_work_in_flight():
    code = """
import torch, threading
x = torch.ones(800, 800, device="tpu")
y = [x @ x for _ in range(5)]
keep = torch.Generator(device="tpu")
"""
    finished = run(code)
    assert (finished.stdout, finished.stderr) == ("", "")


def test_this_process_is_no_bad_fork():
    torch.ones(1, device="tpu")
    assert not torch.tpu._is_in_bad_fork() and torch.tpu.is_initialized() and torch.tpu.is_available()
