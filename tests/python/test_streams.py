"""Streams and events: names for one order of work, and points in it."""

import threading
import time

import pytest
import torch
from processes import run


def test_current_and_default():
    default = torch.tpu.default_stream()
    assert torch.tpu.current_stream() == default == torch.accelerator.current_stream()
    assert default.device == torch.device("tpu:0")
    assert isinstance(default, torch.tpu.Stream) and isinstance(default, torch.Stream)
    assert not isinstance(3, torch.tpu.Stream) and not isinstance(torch.tpu.Event(), torch.tpu.Stream)


def test_stream_context():
    default, stream = torch.tpu.current_stream(), torch.tpu.Stream()
    assert stream != default
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == stream
        with torch.tpu.stream(default):
            assert torch.tpu.current_stream() == default
        assert torch.tpu.current_stream() == stream
    assert torch.tpu.current_stream() == default
    with pytest.raises(ZeroDivisionError), torch.tpu.stream(stream):
        _ = 1 / 0
    assert torch.tpu.current_stream() == default
    with stream:
        assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(stream)
    assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(default)
    torch.tpu.set_stream(None)
    assert torch.tpu.current_stream() == default


def test_stream_constructors():
    assert torch.Stream(device="tpu").device == torch.device("tpu:0"), "an index of -1 becomes the current one"
    assert torch.tpu.Stream(0).device == torch.tpu.Stream("tpu:0", priority=-1).device == torch.device("tpu:0")
    stream = torch.tpu.Stream()
    same = torch.tpu.Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )
    assert same == stream and hash(same) == hash(stream)
    assert len({torch.tpu.Stream().stream_id for _ in range(8)}) == 8


def test_stream_that_does_not_exist():
    current = torch.tpu.current_stream()
    wrong = torch.tpu.Stream(stream_id=10_000, device_index=0, device_type=current.device_type)
    with pytest.raises(RuntimeError, match="10000"):
        torch.tpu.set_stream(wrong)
    assert torch.tpu.current_stream() == current


def test_the_current_stream_belongs_to_its_thread():
    seen = []
    with torch.tpu.stream(torch.tpu.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_stream().stream_id))
        thread.start()
        thread.join()
    assert seen == [0]


def test_streams_order_their_work():
    side = torch.tpu.Stream()
    x = torch.ones(100, device="tpu")
    side.wait_stream(torch.tpu.current_stream())
    with torch.tpu.stream(side):
        y = x * 3
        y.record_stream(side)
    torch.tpu.current_stream().wait_stream(side)
    event = side.record_event()
    torch.tpu.current_stream().wait_event(event)
    event.wait()
    side.synchronize()
    assert side.query() and (y + 1).tolist() == [4.0] * 100


def test_event_states():
    event = torch.tpu.Event()
    assert event.query(), "an event that was never recorded holds nothing up"
    x = torch.ones(600, 600, device="tpu")
    for _ in range(5):
        x = x @ x / 600
    event.record()
    event.synchronize()
    assert event.query()
    assert x.device == event.device
    assert isinstance(event, torch.tpu.Event) and isinstance(event, torch.Event)
    event.record(torch.tpu.Stream())
    torch.tpu.synchronize()
    assert event.query()


def test_elapsed_time_is_that_of_the_work():
    def measure(n: int) -> tuple[float, float]:
        x = torch.ones(700, 700, device="tpu")
        x @ x
        torch.tpu.synchronize()
        start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
        before = time.perf_counter()
        start.record()
        for _ in range(n):
            x = x @ x / 700
        end.record()
        end.synchronize()
        return start.elapsed_time(end), (time.perf_counter() - before) * 1000

    measure(1)
    short, _ = measure(1)
    long, by_the_clock = measure(30)
    assert 0 <= short < long <= by_the_clock + 1
    assert long > 5 * by_the_clock / 10, "most of the time is between the two events"


def test_elapsed_time_needs_recorded_events_with_timing():
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(end)
    plain = torch.tpu.Event()
    plain.record()
    start.record()
    torch.tpu.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(plain)


def test_events_are_not_shared_between_processes():
    with pytest.raises(NotImplementedError):
        torch.tpu.Event(interprocess=True)


def test_synchronize_lets_other_threads_run():
    """Waiting holds no lock of Python's."""
    ticks = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    x = torch.ones(1500, 1500, device="tpu")
    begin = time.perf_counter()
    for _ in range(6):
        x = x @ x / 1500
        torch.tpu.synchronize()
    end = time.perf_counter()
    stop.set()
    thread.join()
    during = [t for t in ticks if begin < t < end]
    assert len(during) > (end - begin) * 1000 / 50


def test_backward_runs_on_the_stream_of_forward():
    seen = []

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.tpu.current_stream().stream_id)
            return grad

    side = torch.tpu.Stream()
    x = torch.ones(3, device="tpu", requires_grad=True)
    with torch.tpu.stream(side):
        y = Note.apply(x)
    y.sum().backward()
    assert seen == [side.stream_id]
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_stream_of_another_device_makes_it_current():
    code = """
import torch
stream = torch.tpu.Stream("tpu:1")
with torch.tpu.stream(stream):
    print(torch.tpu.current_device(), torch.ones(1, device="tpu").device, torch.tpu.current_stream(1) == stream)
print(torch.tpu.current_device(), torch.tpu.current_stream(1).stream_id)
event = torch.tpu.Event()
event.record(torch.tpu.current_stream(1))
event.synchronize()
"""
    out = run(code, TORCH_PJRT_NUM_DEVICES="2").stdout.splitlines()
    assert out == ["1 tpu:1 True", "0 0"]
