"""libtpu and the device itself, each in a child that may hang or die."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch_pjrt.aot import CompileError, Compiler, Unavailable, find_libtpu
from torch_pjrt.doctor import ERROR, NOTE, OK, WARNING, Finding
from torch_pjrt.doctor._machine import has_tpu, version_of

DOCTOR_TARGET = "v6e"
PRODUCT = """module { func.func @main(%a: tensor<256x256xbf16>) -> tensor<256x256xbf16> {
%b = stablehlo.dot %a, %a : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
return %b : tensor<256x256xbf16> } }"""


def check_libtpu(seconds: float) -> Iterator[Finding]:
    yield from libtpu_findings(seconds, has_tpu())


def libtpu_findings(seconds: float, tpu: bool) -> Iterator[Finding]:
    """`tpu`: there is one, which needs libtpu; without one, only planning and compiling for TPUs do."""
    try:
        path = find_libtpu()
    except Unavailable as error:
        advice = "pip install libtpu: a TPU needs it, and so do torch_pjrt plan and compile"
        yield Finding("libtpu", ERROR if tpu else NOTE, str(error), advice, {"installed": False})
        return
    facts: dict[str, Any] = {"installed": True, "path": str(path), "version": version_of("libtpu")}
    try:
        began = time.monotonic()
        compiler = Compiler(DOCTOR_TARGET, libtpu=path, timeout=seconds, store=None, n_threads=1)
        compiler.compile(PRODUCT)
        took = time.monotonic() - began
    except (Unavailable, CompileError, ValueError) as error:
        advice = "pip install --force-reinstall libtpu"
        yield Finding("libtpu", ERROR if tpu else WARNING, f"{path}: {error}", advice, facts)
        return
    build = " ".join(compiler.version.split("\n")[1:]) or compiler.version
    text = (
        f"{facts['version'] or '?'}, PJRT API {compiler.api_version}, {build}\n"
        f"{path}\ncompiles for TPUs that are not there: {took:.1f} s for the first program"
    )
    facts |= {"api_version": compiler.api_version, "build": compiler.version, "seconds": took}
    yield Finding("libtpu", OK, text, facts=facts)


# ---- the device -----------------------------------------------------------------------------------------------------


class Probe:
    """_probe.py in a process of its own. It writes a JSON line at the end of each stage: what it hangs in is known."""

    def __init__(self, seconds: float) -> None:
        self.stages: dict[str, Any] = {}
        self.stage = "start"
        self.timed_out = False
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("_probe.py"))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        timer = threading.Timer(seconds, self._end, (process,))
        timer.start()
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        assert process.stderr is not None
        self.errors = process.stderr.read()
        self.status = process.wait()
        timer.cancel()
        reader.join(timeout=5)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        """With what it started, which may hold the pipes open."""
        self.timed_out = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                row = json.loads(line)
                self.stage = row["next"]
                self.stages[row["stage"]] = row["facts"]
            except (ValueError, KeyError, TypeError):
                continue

    def last_words(self) -> str:
        return "\n".join([line for line in self.errors.splitlines() if line.strip()][-4:])


ADVICE_OF_A_HANG = (
    "On a TPU, libtpu asks a metadata server what slice this is, and waits for minutes where there is none:\n"
    "TPU_SKIP_MDS_QUERY=1, TPU_ACCELERATOR_TYPE, TPU_WORKER_ID and TPU_WORKER_HOSTNAMES (localhost) tell it instead.\n"
    "On several hosts, all of them have to start the program."
)
ADVICE_WITHOUT_A_TPU = (
    "No TPU is to be seen here, and libtpu waits for one: unset TORCH_PJRT_PLUGIN for a CPU plugin,\n"
    "or pass the TPU's device files on to this container."
)


def check_device(seconds: float) -> Iterator[Finding]:
    probe = Probe(seconds)
    yield from findings_of(probe, seconds, has_tpu())


def plugin_finding(plugin: dict[str, Any], tpu: bool) -> Finding:
    text = f"{plugin['path'] or 'none'}\n{plugin['reason']}"
    if plugin["inert"]:
        advice = "unset TORCH_PJRT_PLUGIN" if plugin["off"] else "TORCH_PJRT_PLUGIN=/path chooses this device."
        return Finding("plugin", ERROR, text, advice, plugin)
    if not plugin["path"]:
        return Finding("plugin", ERROR, text, "pip install fastatomstruct-xla-cpu, or libtpu on a TPU.", plugin)
    if tpu and plugin["hardware"] == "cpu":
        return Finding("plugin", ERROR, f"{text}\nthere is a TPU, which is not used", "pip install libtpu", plugin)
    return Finding("plugin", OK, text, facts=plugin)


def findings_of(probe: Probe, seconds: float, tpu: bool) -> Iterator[Finding]:
    """`tpu`: the system shows one."""
    stages = probe.stages
    if (plugin := stages.get("plugin")) is not None:
        yield plugin_finding(plugin, tpu)
    if (device := stages.get("device")) is not None:
        names = "\n".join(
            f"tpu:{i}: {one['name']}, {one['memory'] / 2**30:.1f} GiB" for i, one in enumerate(device["devices"])
        )
        text = f"PJRT API {device['api_version']}, {device['platform']}, ready in {device['seconds']:.1f} s\n{names}"
        yield Finding("device", OK, text, facts=device)
    if (test := stages.get("selftest")) is not None:
        yield self_test(test)
    if probe.timed_out:
        text = f"nothing came of {seconds:.0f} s of waiting for: {probe.stage}"
        waits = not tpu and plugin is not None and Path(plugin["path"]).name == "libtpu.so"
        advice = ADVICE_WITHOUT_A_TPU if waits else ADVICE_OF_A_HANG
        yield Finding("device", ERROR, text, advice, {"stage": probe.stage})
    elif probe.status != 0:
        how = f"signal {-probe.status}" if probe.status < 0 else f"status {probe.status}"
        text = f"{probe.stage} ended the process with {how}\n{probe.last_words()}"
        yield Finding("device", ERROR, text, "The message above says what is missing.", {"stage": probe.stage})


def self_test(test: dict[str, Any]) -> Finding:
    text = (
        f"{test['checked']} results agree with the CPU's; the first of an operator takes {test['first_ms']:.0f} ms, "
        f"later ones {test['launch_us']:.0f} us"
    )
    if test["wrong"]:
        text = f"differs from the CPU: {', '.join(test['wrong'])}"
        return Finding("self-test", ERROR, text, "Report it, with this output: results cannot be trusted.", test)
    if test["fallbacks"]:
        text += f"; on the CPU ran {', '.join(test['fallbacks'])}"
        return Finding("self-test", WARNING, text, "Report it: these operators have rows.", test)
    return Finding("self-test", OK, text, facts=test)
