"""The process that libtpu runs in: reads requests, compiles, answers. Started as a file; imports nothing but the
standard library.

    python _child.py LIBTPJ LIBTPU N_THREADS

libtpu reads its environment when it is loaded, cannot be forked, and ends its process where others return an error:
hence a process of its own. Messages both ways are a header (JSON) and bytes, see `read` and `write`; the parent's side
is _process.py. Standard input and output carry them; what libtpu prints goes to standard error. The end of the input
ends the process, whatever is being compiled.
"""

import ctypes
import json
import os
import queue
import struct
import sys
import threading
import time
from typing import IO, Any

LENGTHS = struct.Struct("<QQ")  # of the header and of the bytes
CODES = (
    "ok", "runtime", "type", "value", "index", "linalg", "not implemented", "out of memory", "unavailable", "device",
    "internal", "interrupted",
)  # fmt: skip


def read(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None at the end of the input."""
    lengths = file.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    n_header, n_body = LENGTHS.unpack(lengths)
    header, body = file.read(n_header), file.read(n_body)
    if len(header) < n_header or len(body) < n_body:
        return None
    return json.loads(header), body


def write(file: IO[bytes], header: dict[str, Any], body: bytes = b"") -> None:
    encoded = json.dumps(header).encode()
    file.write(LENGTHS.pack(len(encoded), len(body)) + encoded + body)
    file.flush()


class Option(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("string_value", ctypes.c_char_p),
        ("int_value", ctypes.c_int64),
        ("double_value", ctypes.c_double),
    )


class CompileOptions(ctypes.Structure):
    _fields_ = (
        ("n_replicas", ctypes.c_int),
        ("n_partitions", ctypes.c_int),
        ("use_spmd", ctypes.c_bool),
        ("use_shardy", ctypes.c_bool),
        ("device_ids", ctypes.POINTER(ctypes.c_int64)),
        ("portable", ctypes.c_bool),
        ("optimization_level", ctypes.c_int),
        ("options", ctypes.POINTER(Option)),
        ("n_options", ctypes.c_int),
    )


class Memory(ctypes.Structure):
    _fields_ = tuple(
        (f"{name}_bytes", ctypes.c_int64) for name in ("code", "argument", "output", "alias", "temp", "peak")
    )


class Cost(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_double) for name in ("flops", "bytes_accessed", "optimal_seconds"))


class Failure(Exception):
    """An error of the core: a code and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Core:
    """libtpj.so, as far as it compiles for topologies. Every call that can fail raises Failure."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.libc = ctypes.CDLL(None)
        self.libc.free.argtypes = [ctypes.c_void_p]
        for name, result, *arguments in (
            ("tpj_status_code", ctypes.c_int, ctypes.c_void_p),
            ("tpj_status_message", ctypes.c_char_p, ctypes.c_void_p),
            ("tpj_status_destroy", None, ctypes.c_void_p),
            ("tpj_plugin_open", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool, ctypes.c_void_p),
            ("tpj_plugin_api_version", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            ("tpj_topology_create", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
            ("tpj_topology_n_devices", ctypes.c_int, ctypes.c_void_p),
            ("tpj_topology_device_id", ctypes.c_int, ctypes.c_void_p, ctypes.c_int),
            ("tpj_topology_version", ctypes.c_char_p, ctypes.c_void_p),
            ("tpj_topology_device_kind", ctypes.c_char_p, ctypes.c_void_p),
            ("tpj_topology_memory_bytes", ctypes.c_int64, ctypes.c_void_p),
            ("tpj_topology_compile", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
             ctypes.c_void_p, ctypes.c_void_p),
            ("tpj_compiled_destroy", None, ctypes.c_void_p),
            ("tpj_compiled_memory_stats", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            ("tpj_compiled_cost_stats", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            ("tpj_compiled_serialize", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            ("tpj_compiled_optimized_program", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
        ):  # fmt: skip
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.lib, name)(*arguments)
        if not status:
            return
        code = CODES[self.lib.tpj_status_code(status)]
        message = self.lib.tpj_status_message(status).decode(errors="replace")
        self.lib.tpj_status_destroy(status)
        raise Failure(code, message)

    def bytes_of(self, name: str, compiled: ctypes.c_void_p) -> bytes:
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call(name, compiled, ctypes.byref(data), ctypes.byref(size))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            self.libc.free(data)


def compile_options(given: dict[str, Any]) -> CompileOptions:
    """From the JSON form of `compiler.Options`. The struct keeps what it points to alive."""
    kinds = {str: 0, bool: 1, int: 2, float: 3}
    overrides = (Option * len(given["overrides"]))()
    for option, (name, value) in zip(overrides, given["overrides"], strict=True):
        option.name, option.kind = name.encode(), kinds[type(value)]
        if isinstance(value, str):
            option.string_value = value.encode()
        elif isinstance(value, float):
            option.double_value = value
        else:
            option.int_value = value
    ids = given["device_ids"]
    return CompileOptions(
        n_replicas=given["n_replicas"],
        n_partitions=given["n_partitions"],
        use_spmd=given["use_spmd"],
        use_shardy=given["use_shardy"],
        device_ids=None if ids is None else (ctypes.c_int64 * len(ids))(*ids),
        portable=given["portable"],
        optimization_level=given["optimization_level"],
        options=overrides,
        n_options=len(overrides),
    )


class Worker:
    """Answers requests. Several threads may: the core and libtpu are thread-safe."""

    def __init__(self, core: Core, libtpu: str) -> None:
        self.core = core
        self.plugin = ctypes.c_void_p()
        core.call("tpj_plugin_open", os.fsencode(libtpu), True, ctypes.byref(self.plugin))
        self.topologies: dict[str, ctypes.c_void_p] = {}
        self.lock = threading.Lock()

    def api_version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.core.lib.tpj_plugin_api_version(self.plugin, ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def topology(self, name: str) -> ctypes.c_void_p:
        with self.lock:
            if name not in self.topologies:
                made = ctypes.c_void_p()
                self.core.call("tpj_topology_create", self.plugin, name.encode(), ctypes.byref(made))
                self.topologies[name] = made
            return self.topologies[name]

    def describe(self, header: dict[str, Any]) -> dict[str, Any]:
        topology, lib = self.topology(header["topology"]), self.core.lib
        return {
            "api_version": self.api_version(),
            "version": lib.tpj_topology_version(topology).decode(errors="replace"),
            "kind": lib.tpj_topology_device_kind(topology).decode(errors="replace"),
            "memory_bytes": lib.tpj_topology_memory_bytes(topology),
            "device_ids": [
                lib.tpj_topology_device_id(topology, n) for n in range(lib.tpj_topology_n_devices(topology))
            ],
        }

    def compile(self, header: dict[str, Any], module: bytes) -> tuple[dict[str, Any], bytes]:
        topology, compiled = self.topology(header["topology"]), ctypes.c_void_p()
        options = compile_options(header["options"])
        start = time.perf_counter()
        self.core.call(
            "tpj_topology_compile", topology, module, len(module), ctypes.byref(options), ctypes.byref(compiled)
        )
        seconds = time.perf_counter() - start
        try:
            memory, cost = Memory(), Cost()
            self.core.call("tpj_compiled_memory_stats", compiled, ctypes.byref(memory))
            self.core.call("tpj_compiled_cost_stats", compiled, ctypes.byref(cost))
            serialized = optimized = b""
            if header["serialized"]:
                serialized = self.core.bytes_of("tpj_compiled_serialize", compiled)
            if header["optimized"]:
                optimized = self.core.bytes_of("tpj_compiled_optimized_program", compiled)
        finally:
            self.core.lib.tpj_compiled_destroy(compiled)
        answer = {
            "seconds": seconds,
            "memory": {field[0]: getattr(memory, field[0]) for field in Memory._fields_},
            "cost": {field[0]: getattr(cost, field[0]) for field in Cost._fields_},
            "n_serialized": len(serialized),
        }
        return answer, serialized + optimized

    def answer(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            if header["what"] == "describe":
                answer, result = self.describe(header), b""
            else:
                answer, result = self.compile(header, body)
        except Failure as error:
            answer, result = {"error": {"code": error.code, "message": str(error)}}, b""
        answer["id"] = header["id"]
        return answer, result


def main() -> None:
    libtpj, libtpu, n_threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        worker = Worker(Core(libtpj), libtpu)
    except Failure as error:
        write(answers, {"ready": False, "error": {"code": error.code, "message": str(error)}})
        os._exit(1)
    write(answers, {"ready": True, "api_version": worker.api_version()})

    waiting: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
    lock = threading.Lock()

    def work() -> None:
        while True:
            answer, result = worker.answer(*waiting.get())
            with lock:
                write(answers, answer, result)

    for _ in range(n_threads):
        threading.Thread(target=work, daemon=True).start()
    while (message := read(requests)) is not None:
        waiting.put(message)
    os._exit(0)  # without libtpu's destructors: they wait for what runs


if __name__ == "__main__":
    main()
