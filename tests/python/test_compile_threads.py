"""Programs compile beside the caller: what waits for them, in which order, and how waiting ends."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from processes import run

DEVICE = "tpu"


def test_calls_that_wait_keep_their_order():
    """Views, writes, random numbers and reads of programs that are all new, against the CPU."""

    def compute(device):
        x = torch.arange(119, dtype=torch.float32, device=device).reshape(7, 17)
        for i in range(6):
            x[i] += x[i + 1] * (i + 1)
            x.t()[3 + i].sub_(1)
            x = torch.cat([x, x[:1] * 0.5])
        return x, x.sum(0), x.argmax(1)

    for on_device, on_cpu in zip(compute(DEVICE), compute("cpu"), strict=True):
        assert torch.equal(on_device.cpu(), on_cpu)


def test_results_that_die_and_out_tensors():
    x = torch.ones(23, 29, device=DEVICE)
    for i in range(5):
        _ = x * (i + 2) + x[:, :1]  # dropped while it waits
    out = torch.empty(23, 29, device=DEVICE)
    torch.add(x, x[0], out=out)
    x.mul_(3)
    assert out.sum().item() == 2 * 23 * 29 and x.sum().item() == 3 * 23 * 29


@pytest.mark.parametrize("threads", ["0", "1", "3"])
def test_any_number_of_threads(threads):
    script = """
import torch
x = torch.arange(12.0, device="tpu")
for i in range(1, 6):
    x = torch.cat([x, x[:i] * 2]).sin()
print(repr(x.sum().item()), torch.tpu.compile_stats()["programs"])
"""
    finished = run(script, TORCH_PJRT_COMPILE_THREADS=threads, TORCH_PJRT_CACHE_DIR="none")
    alone = run(script, TORCH_PJRT_COMPILE_THREADS="0", TORCH_PJRT_CACHE_DIR="none")
    assert finished.stdout == alone.stdout


def test_two_threads_train_two_models():
    """Each gets what it would get alone."""

    def train(seed, device):
        generator = torch.Generator().manual_seed(seed)
        width = 5 + seed
        weight = torch.randn(width, 3, generator=generator).to(device).requires_grad_()
        bias = torch.zeros(3, device=device, requires_grad=True)
        inputs, targets = torch.randn(8, width, generator=generator).to(device), torch.arange(8).remainder(3).to(device)
        optimizer = torch.optim.AdamW([weight, bias], lr=0.05)
        for _ in range(25):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(inputs @ weight + bias, targets)
            loss.backward()
            optimizer.step()
        return loss.item()

    losses = {}
    threads = [
        threading.Thread(target=lambda seed=seed: losses.update({seed: train(seed, DEVICE)})) for seed in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    for seed in range(2):
        assert losses[seed] == pytest.approx(train(seed, "cpu"), rel=1e-4)


INTERRUPTED = """
import signal, sys, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
x = torch.ones(256, 256, device="tpu")
assert (x + 1).sum().item() == 2 * 65536
try:
    print("ready", flush=True)
    {wait}
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert (x + 1).sum().item() == 2 * 65536
print("usable")
"""


@pytest.mark.parametrize(
    "wait",
    [
        # programs that are never done: a new one each time
        "i = 0\n    while True: i += 1; torch.ones(i, 3, device='tpu').softmax(0).sum().item()",
        # the device, for seconds
        "y = x\n    for _ in range(20000): y = (y @ x) * 1e-3\n    y.sum().item()",
    ],
    ids=["compilation", "device"],
)
def test_interruption(wait):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_PJRT_")}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(wait=wait)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"TORCH_PJRT_CACHE_DIR": "none"},
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=100)
    finally:
        process.kill()
    assert (process.returncode, output) == (0, "interrupted\nusable\n"), errors


@pytest.mark.parametrize("work", ["compiling", "computing"])
def test_exit_with_work_in_flight(work):
    """At once, with status 0 and nothing on stderr."""
    script = f"""
import time, torch
x = torch.ones(256, 256, device="tpu")
(x + 1).cpu()
if "{work}" == "compiling":
    for i in range(40):
        y = torch.ones(i + 1, 3, device="tpu").softmax(0)
else:
    for _ in range(2000):
        y = x @ x
print(time.monotonic())
"""
    finished = run(script, TORCH_PJRT_CACHE_DIR="none")
    assert time.monotonic() - float(finished.stdout) < 20, "what has not begun is not waited for"
    assert finished.stderr == ""
