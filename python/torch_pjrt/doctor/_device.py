"""libtpu and the device itself, each in a child that may hang or die."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch_pjrt.aot import CompileError, Compiler, Unavailable, find_libtpu
from torch_pjrt.doctor import ERROR, NOTE, OK, WARNING, Finding
from torch_pjrt.doctor._machine import version_of

DOCTOR_TARGET = "v6e"
PRODUCT = """module { func.func @main(%a: tensor<256x256xbf16>) -> tensor<256x256xbf16> {
%b = stablehlo.dot %a, %a : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
return %b : tensor<256x256xbf16> } }"""


def check_libtpu(seconds: float) -> Iterator[Finding]:
    try:
        path = find_libtpu()
    except Unavailable as error:
        advice = "pip install libtpu: a TPU needs it, and so do torch_pjrt plan and compile"
        yield Finding("libtpu", NOTE, str(error).split(":")[0] + ": not installed", advice, {"installed": False})
        return
    facts: dict[str, Any] = {"installed": True, "path": str(path), "version": version_of("libtpu")}
    try:
        began = time.monotonic()
        compiler = Compiler(DOCTOR_TARGET, libtpu=path, timeout=seconds, store=None, n_threads=1)
        compiler.compile(PRODUCT)
        took = time.monotonic() - began
    except (Unavailable, CompileError, ValueError) as error:
        yield Finding("libtpu", ERROR, f"{path}: {error}", "pip install --force-reinstall libtpu", facts)
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
        self.timed_out = True
        process.kill()

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


def check_device(seconds: float) -> Iterator[Finding]:
    probe = Probe(seconds)
    yield from findings_of(probe, seconds)


def findings_of(probe: Probe, seconds: float) -> Iterator[Finding]:
    stages = probe.stages
    if (plugin := stages.get("plugin")) is not None:
        text = f"{plugin['path'] or 'none'}\n{plugin['reason']}"
        if plugin["inert"] or not plugin["path"]:
            yield Finding("plugin", ERROR, text, "pip install fastatomstruct-xla-cpu, or libtpu on a TPU.", plugin)
        else:
            yield Finding("plugin", OK, text, facts=plugin)
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
        yield Finding("device", ERROR, text, ADVICE_OF_A_HANG, {"stage": probe.stage})
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
