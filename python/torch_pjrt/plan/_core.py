"""The planning device (src/pjrt/plan.h), through ctypes: it has to be chosen before the extension is loaded."""

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PLUGIN = "plan:"
UPLOAD, LAUNCH, READ, COPY, MARK = range(5)
N_TYPES = 32
# PJRT's numbers of element types, as far as plans tell them apart.
TYPE_NAMES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    10: "float16", 11: "float32", 12: "float64", 13: "bfloat16", 14: "complex64", 15: "complex128",
}  # fmt: skip


class _Target(ctypes.Structure):
    _fields_ = (
        ("device_kind", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("n_devices", ctypes.c_int),
        ("memory_bytes", ctypes.c_int64),
        ("execute", ctypes.c_char_p),
    )


class Event(ctypes.Structure):
    """`subject`: of a launch the program's number, of a mark its own, of a read that of the line."""

    what: int
    device: int
    subject: int
    bytes: int
    live: int
    most: int
    nanoseconds: int
    _fields_ = (
        ("what", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("subject", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("live", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("nanoseconds", ctypes.c_int64),
    )


class _Program(ctypes.Structure):
    _fields_ = (
        ("module", ctypes.c_void_p),
        ("options", ctypes.c_void_p),
        ("module_length", ctypes.c_size_t),
        ("options_length", ctypes.c_size_t),
        *((name, ctypes.c_int64) for name in (
            "n_launches", "argument_bytes", "output_bytes", "alias_bytes", "missed_bytes", "nanoseconds",
        )),
    )  # fmt: skip


class _Absent(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("plugin_path", "platform", "version", "device_kind", "options")),
        ("options_length", ctypes.c_size_t),
    )


@dataclass(frozen=True)
class Program:
    """What the device was given, and what became of it."""

    module: str
    options: bytes  # a CompileOptionsProto
    n_launches: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int  # of outputs that lie in donated arguments
    missed_bytes: int  # of arguments that died right after a launch and could have been donated
    nanoseconds: int  # monotonic: when it was made


OnRead = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_bool)
TRUE = 1 << 32


class Core:
    """The recording of this process."""

    def __init__(self) -> None:
        lib = self._lib = ctypes.CDLL(str(Path(__file__).parent.with_name("libtpj.so")))
        for name, result, *arguments in (
            ("tpj_status_message", ctypes.c_char_p, ctypes.c_void_p),
            ("tpj_status_destroy", None, ctypes.c_void_p),
            ("tpj_plan_begin", ctypes.c_void_p, ctypes.c_void_p),
            ("tpj_plan_on_read", None, OnRead),
            ("tpj_plan_mark", None, ctypes.c_int64),
            ("tpj_plan_events", ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p),
            ("tpj_plan_n_programs", ctypes.c_size_t),
            ("tpj_plan_program_get", ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p),
            ("tpj_plan_peak", None, ctypes.c_int, ctypes.c_void_p),
            ("tpj_compile_keep", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
             ctypes.c_char_p, ctypes.c_size_t),
        ):  # fmt: skip
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self._on_read: object = None

    def _check(self, status: int | None) -> None:
        if not status:
            return
        message = self._lib.tpj_status_message(status).decode(errors="replace")
        self._lib.tpj_status_destroy(status)
        raise RuntimeError(message)

    def begin(self, kind: str, version: str, n_devices: int, memory_bytes: int, execute: str | None) -> None:
        """Start a recording. `execute`: the CPU plugin that computes; None: nothing is computed."""
        path = None if execute is None else os.fsencode(execute)
        target = _Target(kind.encode(), version.encode(), n_devices, memory_bytes, path)
        self._check(self._lib.tpj_plan_begin(ctypes.byref(target)))

    def on_read(self, called: Callable[[int, bool], int] | None) -> None:
        """Have `called(n_bytes, is_bool)` called before each read; what it returns is the event's subject. TRUE added
        to it: the bools that are read are true."""
        wrapped = OnRead(called) if called is not None else OnRead()
        self._lib.tpj_plan_on_read(wrapped)
        self._on_read = wrapped

    def mark(self, number: int) -> None:
        self._lib.tpj_plan_mark(number)

    def events(self) -> list[Event]:
        found: list[Event] = []
        chunk = (Event * 65536)()
        while n := self._lib.tpj_plan_events(len(found), len(chunk), chunk):
            found += [Event.from_buffer_copy(event) for event in chunk[:n]]
        return found

    def programs(self) -> list[Program]:
        found, p = [], _Program()
        for index in range(self._lib.tpj_plan_n_programs()):
            self._lib.tpj_plan_program_get(index, ctypes.byref(p))
            module = ctypes.string_at(p.module, p.module_length).decode()
            options = ctypes.string_at(p.options, p.options_length)
            found.append(
                Program(
                    module, options, p.n_launches, p.argument_bytes, p.output_bytes, p.alias_bytes, p.missed_bytes,
                    p.nanoseconds,
                )
            )  # fmt: skip
        return found

    def peak_types(self, device: int) -> dict[str, int]:
        """What the device held when it held most, by element type."""
        held = (ctypes.c_int64 * N_TYPES)()
        self._lib.tpj_plan_peak(device, held)
        return {TYPE_NAMES.get(number, "other"): n for number, n in enumerate(held) if n > 0}

    def keep(
        self, folder: Path, plugin: Path, version: str, kind: str, options: bytes, module: str, data: bytes
    ) -> None:
        """Put a compiled program into a folder of programs, for the client that a TPU has."""
        absent = _Absent(os.fsencode(plugin), b"tpu", version.encode(), kind.encode(), options, len(options))
        code = module.encode()
        self._check(
            self._lib.tpj_compile_keep(os.fsencode(folder), ctypes.byref(absent), code, len(code), data, len(data))
        )
