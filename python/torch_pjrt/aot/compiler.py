"""Compiling StableHLO for a TPU that is not there, in a process of libtpu's own."""

import functools
import hashlib
import importlib.util
import json
import os
import re
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch_pjrt.aot import hlo
from torch_pjrt.aot._process import Answer, Service
from torch_pjrt.aot._store import Store, default_path
from torch_pjrt.aot.errors import CompileError, CompilerCrash, DoesNotFit, Unavailable
from torch_pjrt.aot.target import Target

STORE_BYTES = 2 << 30
TIMEOUT = 1800.0
# An unbounded size ends libtpu's process, or never comes back.
_UNBOUNDED = re.compile(rb"tensor<[^<>]*\?[^<>]*>")
_LOCATIONS = b"\n#loc"


@dataclass(frozen=True)
class Options:
    """How a program is compiled. `device_ids`: replicas times partitions of `Compiler.device_ids`, None: the first
    ones; `portable`: for any one device, as the programs of eager mode are. `overrides`: XLA's options by name."""

    n_replicas: int = 1
    n_partitions: int = 1
    use_spmd: bool = False
    use_shardy: bool = False
    device_ids: tuple[int, ...] | None = None
    portable: bool = False
    optimization_level: int = 0
    overrides: tuple[tuple[str, str | bool | int | float], ...] = ()


@dataclass(frozen=True)
class Memory:
    """Bytes on each device. -1 where the compiler does not say. `alias_bytes`: of outputs that lie in donated
    arguments; `peak_bytes`: all that the device holds at once while the program runs, arguments and outputs too."""

    code_bytes: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Cost:
    """The compiler's estimate for each device. Negative where it has none."""

    flops: float
    bytes_accessed: float
    optimal_seconds: float


@dataclass(frozen=True)
class Compiled:
    """A compiled program. It cannot run here, but it can be measured."""

    target: Target
    memory: Memory
    cost: Cost
    seconds: float  # that the compiler took, when it compiled it
    kept: bool  # it was compiled before, and taken from the store
    serialized: bytes | None = field(default=None, repr=False)  # to be loaded on such a TPU
    optimized: bytes | None = field(default=None, repr=False)  # XLA's HloModuleProtoWithConfig

    def program(self) -> hlo.Module:
        """The optimized program; `str` of it is text. ValueError where it was not asked for."""
        if self.optimized is None:
            raise ValueError("the program was compiled without optimized=True")
        return hlo.Module.parse(self.optimized)


def find_libtpu() -> Path:
    """TPU_LIBRARY_PATH, or that of the installed package. Unavailable where there is none."""
    named = os.environ.get("TPU_LIBRARY_PATH")
    if named:
        if not os.path.exists(named):
            raise Unavailable(f"TPU_LIBRARY_PATH names {named}, which is not there")
        return Path(named)
    spec = importlib.util.find_spec("libtpu")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / "libtpu.so"
        if path.exists():
            return path
    raise Unavailable("compiling for TPUs needs libtpu: pip install libtpu, or set TPU_LIBRARY_PATH")


@functools.cache
def _service(libtpu: Path, n_threads: int) -> Service:
    """One child for all targets."""
    return Service(libtpu, n_threads)


@functools.cache
def _store(path: Path) -> Store:
    return Store(path, STORE_BYTES)


class Compiler:
    """Compiles for one target. Thread-safe.

    `libtpu`: the library, default `find_libtpu()`. `n_threads`: programs that are compiled at a time, by default one
    for each processor. `timeout`: seconds that one program may take. `store`: the file that keeps results, None for
    none; by default it lies in the folder of compiled programs (TORCH_PJRT_CACHE_DIR).

    ValueError for a target that does not exist, Unavailable where libtpu cannot be loaded.
    """

    def __init__(
        self,
        target: str | Target,
        *,
        libtpu: Path | str | None = None,
        n_threads: int | None = None,
        timeout: float = TIMEOUT,
        store: Path | str | None = "",
    ) -> None:
        self.target = target if isinstance(target, Target) else Target.parse(target)
        self.libtpu = find_libtpu() if libtpu is None else Path(libtpu)
        self.timeout = timeout
        self._service = _service(self.libtpu, n_threads or min(len(os.sched_getaffinity(0)), 16))
        path = default_path() if store == "" else store
        self._store = None if path is None else _store(Path(path))
        self._lock = threading.Lock()
        self._known: dict[bytes, dict[str, Any]] = {}
        self._pending: dict[tuple[bytes, bool, bool], Future[Compiled]] = {}
        about = self._describe()
        self.version: str = about["version"]  # libtpu's build, of several lines
        self.api_version: str = about["api_version"]
        self.device_kind: str = about["kind"]
        self.device_ids: tuple[int, ...] = tuple(about["device_ids"])
        self.memory_bytes: int = about["memory_bytes"]  # that programs can use, on each device
        flags = os.environ.get("LIBTPU_INIT_ARGS", "")
        self._key = f"{self.version}\n{self.api_version}\n{self.target.name}\n{flags}\n".encode()

    def _describe(self) -> dict[str, Any]:
        request = {"what": "describe", "topology": self.target.name}
        answer, _ = self._service.submit(request, b"", self.timeout).result()
        if "error" in answer:
            raise ValueError(f"libtpu has no TPU {self.target.name}: {answer['error']['message']}")
        return answer

    def compile(
        self,
        module: str | bytes,
        options: Options | None = None,
        *,
        serialized: bool = False,
        optimized: bool = False,
    ) -> Compiled:
        """Compile a StableHLO module, MLIR text or bytes. `serialized` and `optimized` ask for the program's bytes.

        DoesNotFit where it needs more memory than there is, CompilerCrash and CompilerTimeout where the compiler fails,
        CompileError for whatever else it refuses; ValueError for options that do not fit the target.
        """
        return self.submit(module, options, serialized=serialized, optimized=optimized).result()

    def submit(
        self,
        module: str | bytes,
        options: Options | None = None,
        *,
        serialized: bool = False,
        optimized: bool = False,
    ) -> "Future[Compiled]":
        """Like `compile`, for several at a time: a future. Equal programs that are being compiled share one."""
        code = module.encode() if isinstance(module, str) else module
        if found := _UNBOUNDED.search(code):
            raise ValueError(f"a size must be known when a program is compiled: {found[0].decode(errors='replace')}")
        options = options or Options()
        wanted = asdict(options)
        key = self._digest(code, wanted)
        with self._lock:
            if (known := self._find(key, serialized, optimized)) is not None:
                return known
            pending = (key, serialized, optimized)
            if pending in self._pending:
                return self._pending[pending]
            result: Future[Compiled] = Future()
            result.set_running_or_notify_cancel()
            self._pending[pending] = result
        header = {
            "what": "compile",
            "topology": self.target.name,
            "options": wanted,
            "serialized": serialized,
            "optimized": optimized,
        }

        def finish(answered: "Future[Answer]") -> None:
            try:
                compiled = self._take(key, answered, serialized, optimized)
            except Exception as error:
                outcome = functools.partial(result.set_exception, error)
            else:
                outcome = functools.partial(result.set_result, compiled)
            with self._lock:
                del self._pending[pending]
            outcome()

        self._service.submit(header, code, self.timeout).add_done_callback(finish)
        return result

    def _digest(self, code: bytes, options: dict[str, Any]) -> bytes:
        """Of all that decides the result. Locations come last in a module, and decide nothing."""
        end = code.find(_LOCATIONS)
        digest = hashlib.sha256(self._key)
        digest.update(json.dumps(options, sort_keys=True).encode() + b"\n")
        digest.update(code if end < 0 else code[: end + 1])
        return digest.digest()

    def _find(self, key: bytes, serialized: bool, optimized: bool) -> "Future[Compiled] | None":
        record, serialized_kept, optimized_kept = self._known.get(key), None, None
        if record is None or ((serialized or optimized) and "error" not in record):
            kept = None if self._store is None else self._store.get(key)
            if kept is None:
                return None
            record, serialized_kept, optimized_kept = kept
            self._known[key] = record
        missing = (serialized and serialized_kept is None) or (optimized and optimized_kept is None)
        if "error" not in record and missing:
            return None
        found: Future[Compiled] = Future()
        try:
            found.set_result(self._compiled(record, True, serialized_kept, optimized_kept))
        except CompileError as error:
            found.set_exception(error)
        return found

    def _take(self, key: bytes, answered: "Future[Answer]", serialized: bool, optimized: bool) -> Compiled:
        try:
            record, body = answered.result()
        except CompilerCrash as error:
            if not error.by_itself:
                raise
            record, body = {"error": {"code": "crash", "message": str(error)}}, b""
        record.pop("id", None)
        n_serialized = record.pop("n_serialized", 0)
        blobs = body[:n_serialized] if serialized else None, body[n_serialized:] if optimized else None
        if record.get("error", {}).get("code") in ("value", "type"):
            raise ValueError(record["error"]["message"])
        self._known[key] = record
        if self._store is not None:
            self._store.put(key, record, *blobs)
        return self._compiled(record, False, *blobs)

    def _compiled(
        self, record: dict[str, Any], kept: bool, serialized: bytes | None, optimized: bytes | None
    ) -> Compiled:
        if "error" in record:
            kinds = {"crash": CompilerCrash, "out of memory": DoesNotFit}
            raise kinds.get(record["error"]["code"], CompileError)(record["error"]["message"])
        memory, cost = Memory(**record["memory"]), Cost(**record["cost"])
        return Compiled(self.target, memory, cost, record["seconds"], kept, serialized, optimized)
