"""The caller's side of the process that libtpu runs in (_child.py): starts it, hands requests out, survives its end.

One thread owns all state and handles events one after the other. At most as many requests are with the child as it has
threads, so that what is with it is what it works on: when it dies, one of those did it. They are tried again one by
one, and the one that kills the child alone is told so.
"""

import atexit
import collections
import contextlib
import functools
import os
import queue
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_pjrt.aot import _child
from torch_pjrt.aot.errors import CompilerCrash, CompilerTimeout, Unavailable

Answer = tuple[dict[str, Any], bytes]

# libtpu looks for the machine that it runs on before it compiles for another: without these it asks a metadata server
# for minutes, lets one process at a time load it, and logs what it missed.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_LOG_DIR": "disabled",
}
# What describes the TPU of this machine, and flags of other compilers: libtpu ends its process at an unknown one.
_FOREIGN = re.compile(r"TPU_|CLOUD_TPU|MEGASCALE_|XLA_FLAGS$")
START_SECONDS = 60.0
REQUESTS_OF_ONE_CHILD = 2000  # each leaves some memory behind
LAST_WORDS = 8192  # bytes of its standard error that are kept


def child_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
    return kept | ENVIRONMENT


@dataclass(eq=False)
class Request:
    header: dict[str, Any]
    body: bytes
    timeout: float
    future: "Future[Answer]" = field(default_factory=Future)
    deadline: float = 0.0
    overdue: bool = False
    n_kills: int = 0  # how often the child was killed from outside under it


class Child:
    """A running _child.py, and the threads that read what it writes."""

    def __init__(
        self, libtpu: Path, n_threads: int, on_answer: Callable[..., None], on_end: Callable[..., None]
    ) -> None:
        core = Path(__file__).parent.with_name("libtpj.so")
        command = [sys.executable, "-I", _child.__file__, str(core), str(libtpu), str(n_threads)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is for the caller
        )
        # An abort must not leave half a gigabyte of core file.
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(self.process.pid, resource.RLIMIT_CORE, (0, 0))
        self.n_served = 0
        self.is_asked_to_end = False
        self.ready: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._words = b""
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()
        threading.Thread(target=self._read_answers, args=(on_answer, on_end), daemon=True).start()

    def _read_answers(self, on_answer: Callable[..., None], on_end: Callable[..., None]) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            first = _child.read(self.process.stdout)
            self.ready.put(first[0] if first else None)
            while first and (message := _child.read(self.process.stdout)) is not None:
                on_answer(self, *message)
        self.ready.put(None)
        on_end(self)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 4096):
            self._words = (self._words + chunk)[-LAST_WORDS:]

    def last_words(self) -> str:
        """What it printed last, for an error message: from the fatal line on, without the stack."""
        self._errors.join(timeout=2)
        lines = [line.rstrip() for line in self._words.decode(errors="replace").splitlines() if line.strip()]
        lines = [line for line in lines if not re.match(r"\s*@|\s*PC: @|\*\*\* ", line)]
        for i, line in enumerate(lines):
            if re.match(r"F\d{4} ", line) or "Check failed" in line or "terminate called" in line:
                return "\n".join(lines[i : i + 4])
        return "\n".join(lines[-4:])

    def send(self, header: dict[str, Any], body: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # a child that is gone: its end is an event
            _child.write(self.process.stdin, header, body)

    def end(self, kill: bool = False) -> None:
        """Ask it to end, or end it."""
        self.is_asked_to_end = True
        if kill:
            self.process.kill()
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()

    def was_killed(self) -> bool:
        """From outside: perhaps for want of memory, perhaps by somebody who had nothing against the program."""
        return -self.process.wait(timeout=30) in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def exit_text(self) -> str:
        """How it ended, in words."""
        code = self.process.wait(timeout=30)
        if code >= 0:
            return f"ended with status {code}"
        name = signal.Signals(-code).name if -code in {int(s) for s in signal.Signals} else str(-code)
        return f"was ended by {name}" + (": perhaps this machine is out of memory" if code == -signal.SIGKILL else "")


class Service:
    """Runs requests in a child, which is started at the first request and again when it dies. Thread-safe."""

    def __init__(self, libtpu: Path, n_threads: int) -> None:
        self.libtpu = libtpu
        self.n_threads = n_threads
        self._reset()
        self._is_exiting = False
        atexit.register(self._exit)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._waiting: collections.deque[Request] = collections.deque()
        self._suspects: collections.deque[Request] = collections.deque()  # one of them killed a child
        self._running: dict[int, Request] = {}
        self._child: Child | None = None
        self._n_requests = 0

    def submit(self, header: dict[str, Any], body: bytes, timeout: float) -> "Future[Answer]":
        if self._pid != os.getpid():  # forked: the thread and the child are the parent's
            self._reset()
        request = Request(header, body, timeout)
        self._events.put(functools.partial(self._waiting.append, request))
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="torch_pjrt compiler", daemon=True)
                self._thread.start()
        return request.future

    def close(self) -> None:
        """End the child. A later request starts another."""
        if self._pid != os.getpid() or self._thread is None:
            return
        child = self._child
        if child is not None:
            child.end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=2)
            child.end(kill=True)

    def _exit(self) -> None:
        self._is_exiting = True  # starts no child any more
        self.close()

    # ---- below: the owning thread ----

    def _run(self) -> None:
        while True:
            deadline = min((request.deadline for request in self._running.values()), default=None)
            timeout = None if deadline is None else max(deadline - time.monotonic(), 0)
            try:
                self._events.get(timeout=timeout)()
            except queue.Empty:
                self._end_overdue()
            self._hand_out()

    def _next(self) -> Request | None:
        if self._suspects:
            return None if self._running else self._suspects.popleft()
        if self._running and all(request.overdue for request in self._running.values()):
            return None  # the child is being ended
        if not self._waiting or len(self._running) >= self.n_threads:
            return None
        return self._waiting.popleft()

    def _hand_out(self) -> None:
        while (request := self._next()) is not None:
            if not request.future.running() and not request.future.set_running_or_notify_cancel():
                continue
            try:
                child = self._working_child()
            except (Unavailable, OSError) as error:
                request.future.set_exception(error)
                continue
            self._n_requests += 1
            child.n_served += 1
            request.deadline = time.monotonic() + request.timeout
            self._running[self._n_requests] = request
            child.send(request.header | {"id": self._n_requests}, request.body)

    def _working_child(self) -> Child:
        if self._child is not None and self._child.n_served >= REQUESTS_OF_ONE_CHILD and not self._running:
            self._child.end()
            self._child = None
        if self._child is None:
            self._child = self._started_child()
        return self._child

    def _started_child(self) -> Child:
        def on_answer(*answer: Any) -> None:
            self._events.put(functools.partial(self._take_answer, *answer))

        def on_end(child: Child) -> None:
            self._events.put(functools.partial(self._take_end, child))

        child = Child(self.libtpu, self.n_threads, on_answer, on_end)
        try:
            first = child.ready.get(timeout=START_SECONDS)
        except queue.Empty:
            child.end(kill=True)
            raise Unavailable(f"{self.libtpu} did not load in {START_SECONDS:.0f} s") from None
        if first is not None and first["ready"]:
            return child
        child.end(kill=first is None)
        reason = first["error"]["message"] if first else f"the process {child.exit_text()}\n{child.last_words()}"
        raise Unavailable(f"{self.libtpu} cannot be loaded: {reason.strip()}")

    def _take_answer(self, child: Child, header: dict[str, Any], body: bytes) -> None:
        if child is self._child and (request := self._running.pop(header["id"], None)) is not None:
            request.future.set_result((header, body))

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for request in self._running.values():
            if request.deadline <= now:
                request.overdue = True
                request.deadline = now + 30  # the end of the child comes before
        if self._child is not None:
            self._child.end(kill=True)

    def _take_end(self, child: Child) -> None:
        if child is not self._child:
            return
        self._child = None
        lost, self._running = list(self._running.values()), {}
        overdue = [request for request in lost if request.overdue]
        others = [request for request in lost if not request.overdue]
        for request in overdue:
            request.future.set_exception(
                CompilerTimeout(f"the compiler did not answer in {request.timeout:.0f} s and was ended")
            )
        if overdue or (child.is_asked_to_end and not self._is_exiting):
            self._waiting.extendleft(reversed(others))  # they did nothing: another child serves them
        elif len(others) == 1 and not (others[0].n_kills < 1 and child.was_killed()):
            text = f"the compiler's process {child.exit_text()}\n{child.last_words()}"
            others[0].future.set_exception(CompilerCrash(text.strip(), by_itself=not child.was_killed()))
        else:
            for request in others:
                request.n_kills += child.was_killed()
            self._suspects.extend(others)
        child.end(kill=True)
        child.process.wait()
