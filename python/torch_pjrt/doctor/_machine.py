"""The machine, its memory, the packages, TPUs by what the system shows of them, and the folder of programs."""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from torch_pjrt import _cache, _discovery
from torch_pjrt.doctor import ERROR, NOTE, OK, WARNING, Finding

GIB = 2**30
PACKAGE = Path(__file__).resolve().parents[1]
NATIVE = ("libtpj.so", "libtpj_glue.so", "_C.abi3.so")
TORCH = ((2, 12), (2, 15))  # from the first on, before the second
MAPPINGS = 65530  # Linux's default, and enough


def check_machine() -> Iterator[Finding]:
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    text = f"{system}, {n} processors, Python {platform.python_version()}"
    facts = {"system": platform.system(), "machine": platform.machine(), "processors": n}
    if platform.system() != "Linux":
        yield Finding("machine", ERROR, text, "TPUs and the CPU plugins need Linux.", facts)
    elif platform.machine() != "x86_64":
        advice = (
            "libtpu and the CPU plugins are known for x86-64; others need TORCH_PJRT_PLUGIN with a plugin of yours."
        )
        yield Finding("machine", WARNING, text, advice, facts)
    else:
        yield Finding("machine", OK, text, facts=facts)


def read_meminfo(text: str) -> dict[str, int]:
    """Bytes by name."""
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}


def check_memory() -> Iterator[Finding]:
    try:
        sizes = read_meminfo(Path("/proc/meminfo").read_text())
        total, free = sizes["MemTotal"], sizes["MemAvailable"]
    except (OSError, KeyError):
        return
    text = f"{free / GIB:.1f} of {total / GIB:.1f} GiB are available"
    facts = {"total_bytes": total, "available_bytes": free}
    if free < GIB:
        yield Finding("memory", WARNING, text, "Compiling takes some hundred MB: end what else uses memory.", facts)
    else:
        yield Finding("memory", OK, text, facts=facts)
    with contextlib.suppress(OSError, ValueError):
        mappings = int(Path("/proc/sys/vm/max_map_count").read_text())
        if mappings < MAPPINGS:
            text = f"a process may have {mappings} memory mappings; a program of a CPU plugin takes three"
            yield Finding("mappings", WARNING, text, f"sysctl vm.max_map_count={MAPPINGS}", {"mappings": mappings})


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def built_for() -> str | None:
    """The minor version of torch that the glue says it was built for."""
    with contextlib.suppress(OSError):
        found = re.search(rb"torch_pjrt glue for torch ([\d.]+);", (PACKAGE / "libtpj_glue.so").read_bytes())
        return found[1].decode() if found else None
    return None


def missing_files() -> list[str]:
    return [name for name in NATIVE if not (PACKAGE / name).exists()]


def check_packages() -> Iterator[Finding]:
    missing = missing_files()
    version = version_of("torch_pjrt")
    if missing:
        text = f"{version or '?'}, without {', '.join(missing)}"
        yield Finding("torch_pjrt", ERROR, text, "Install it again, or in a copy of the source: make native.")
    else:
        yield Finding("torch_pjrt", OK, f"{version or '?'} in {PACKAGE}", facts={"version": version})
    yield from check_torch(version_of("torch"), built_for())
    for package in ("torch_tpu", "torch_xla"):
        if (other := version_of(package)) is not None:
            text = f"{other} is installed too; torch has one place for a device that is not its own"
            yield Finding(
                package, WARNING, text, f"Use one of both: pip uninstall {package}, or TORCH_PJRT_PLUGIN=none."
            )


def check_torch(version: str | None, built: str | None) -> Iterator[Finding]:
    if version is None:
        yield Finding("torch", ERROR, "not installed", "pip install torch")
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    facts = {"version": version, "built_for": built}
    if not TORCH[0] <= numbers < TORCH[1]:
        names = [".".join(map(str, pair)) for pair in TORCH]
        advice = f'pip install "torch>={names[0]},<{names[1]}", then install torch_pjrt again.'
        yield Finding("torch", ERROR, f"{version} is none that torch_pjrt knows", advice, facts)
    elif built is not None and built != ".".join(map(str, numbers)):
        advice = "Install torch_pjrt again, or in a copy of the source: make native."
        yield Finding("torch", ERROR, f"{version}, and torch_pjrt is built for {built}", advice, facts)
    else:
        yield Finding("torch", OK, version, facts=facts)


# ---- TPUs -----------------------------------------------------------------------------------------------------------


def tpu_files(root: Path = Path("/")) -> list[Path]:
    """The device files by which libtpu reaches a TPU."""
    accel = [path for path in sorted(root.glob("dev/accel*")) if re.fullmatch(r"accel\d+", path.name)]
    vfio = [path for path in sorted(root.glob("dev/vfio/*")) if path.name.isdigit()]
    return accel or vfio


def users_of(files: list[Path], proc: Path = Path("/proc")) -> dict[int, str]:
    """Processes that have one of the files open, as far as this user may see them."""
    wanted = {str(path) for path in files}
    found = {}
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(link) in wanted for link in (folder / "fd").iterdir()):
                found[int(folder.name)] = (folder / "comm").read_text().strip()
    found.pop(os.getpid(), None)
    return found


def has_tpu(root: Path = Path("/")) -> bool:
    """Whether the system shows a TPU. The core says so: the same answer chooses the plugin."""
    return bool(_discovery._core().tpj_discover_tpu(None if root == Path("/") else os.fsencode(root)))


def check_tpu(root: Path = Path("/"), proc: Path = Path("/proc")) -> Iterator[Finding]:
    if not has_tpu(root):
        text = "none: sysfs shows no TPU, and there is no /dev/accel0"
        advice = (
            "Nothing, where a CPU plugin is wanted. In a container, pass the device files on:\n"
            "docker run --privileged, or --device /dev/vfio/vfio --device /dev/vfio/0 and so on."
        )
        yield Finding("TPU", NOTE, text, advice, {"present": False})
        return
    files = tpu_files(root)
    facts = {"present": True, "files": [str(path) for path in files]}
    barred = [str(path) for path in files if not os.access(path, os.R_OK | os.W_OK)]
    if not files:
        advice = "Pass the device files on to this container, or load the driver (a TPU VM image has it)."
        yield Finding(
            "TPU", ERROR, "sysfs shows a TPU, and there is neither /dev/accel* nor /dev/vfio/*", advice, facts
        )
    elif barred:
        advice = "Run as root, or give this user the group of the files."
        yield Finding("TPU", ERROR, f"this user may not open {', '.join(barred)}", advice, facts)
    elif users := users_of(files, proc):
        named = ", ".join(f"{name} ({pid})" for pid, name in users.items())
        advice = "A chip serves one process at a time: end that one, or share the chips with TPU_VISIBLE_CHIPS."
        yield Finding("TPU", WARNING, f"{len(files)} device files, in use by {named}", advice, facts | {"users": users})
    else:
        yield Finding("TPU", OK, f"{len(files)} device files: {', '.join(map(str, files))}", facts=facts)


# ---- the folder of programs -----------------------------------------------------------------------------------------


def cache_folder() -> Path | None:
    folder = os.environ.get("TORCH_PJRT_CACHE_DIR", "")
    if folder == "none" or os.environ.get("TORCH_PJRT_CACHE_BYTES") == "0":
        return None
    if folder:
        return Path(folder)
    home = os.environ.get("XDG_CACHE_HOME") or (
        os.path.join(os.environ["HOME"], ".cache") if "HOME" in os.environ else ""
    )
    return Path(home, "torch_pjrt") if home else None


def check_cache() -> Iterator[Finding]:
    folder = cache_folder()
    if folder is None:
        text = "compiled programs are not kept: every process compiles anew"
        yield Finding("cache", WARNING, text, "Unset TORCH_PJRT_CACHE_DIR and TORCH_PJRT_CACHE_BYTES, or set HOME.")
        return
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    facts: dict[str, object] = {"folder": str(folder), "free_bytes": free}
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        advice = "Name a folder that this user may write to: TORCH_PJRT_CACHE_DIR=/path"
        yield Finding("cache", WARNING, f"{folder} cannot be written: nothing is kept", advice, facts)
        return
    sizes = [path.stat().st_size for path in _cache.files(folder)] if folder.is_dir() else []
    text = f"{folder}: {len(sizes)} programs, {_cache.shown_bytes(sum(sizes))}; {_cache.shown_bytes(free)} free"
    facts |= {"programs": len(sizes), "bytes": sum(sizes)}
    if free < GIB:
        yield Finding("cache", WARNING, text, "Make room, or name another folder: TORCH_PJRT_CACHE_DIR=/path", facts)
    else:
        yield Finding("cache", OK, text, facts=facts)
