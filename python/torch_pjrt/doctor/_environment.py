"""Environment variables: those that hurt, those that libtpu needs, and the settings."""

import os
from collections.abc import Iterator, Mapping

from torch_pjrt.doctor import ERROR, NOTE, OK, WARNING, Finding

# Of a TPU host that asks no metadata server, libtpu wants to know all of these.
DESCRIBING = ("TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")


def hurting(environment: Mapping[str, str]) -> Iterator[Finding]:
    """One finding for each variable that stands in the way."""

    def warn(name: str, text: str, advice: str) -> Finding:
        return Finding("environment", WARNING, f"{name}={environment[name]}: {text}", advice, {"variable": name})

    if environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
        name, text = "TORCH_DEVICE_BACKEND_AUTOLOAD", "import torch does not bring the device"
        yield Finding("environment", ERROR, f"{name}=0: {text}", f"unset {name}", {"variable": name})
    if "XLA_FLAGS" in environment:
        advice = "unset XLA_FLAGS; flags for libtpu go into LIBTPU_INIT_ARGS"
        yield warn("XLA_FLAGS", "a plugin ends the process at a flag that it does not know", advice)
    if (path := environment.get("TPU_LIBRARY_PATH")) and not os.path.exists(path):
        yield warn("TPU_LIBRARY_PATH", "there is no such file", "unset TPU_LIBRARY_PATH, or correct it")
    for name in ("PJRT_DEVICE", "XRT_TPU_CONFIG", "XLA_USE_BF16"):
        if name in environment:
            yield warn(
                name, "of torch_xla, and without effect here", f"unset {name}; for bfloat16 use autocast, or .to()"
            )
    if "libtcmalloc" in environment.get("LD_PRELOAD", ""):
        yield warn(
            "LD_PRELOAD", "the settings of malloc that CPU plugins profit from have no effect", "unset LD_PRELOAD"
        )
    given = [name for name in DESCRIBING if name in environment]
    if environment.get("TPU_SKIP_MDS_QUERY") and 0 < len(given) < len(DESCRIBING):
        absent = ", ".join(name for name in DESCRIBING if name not in environment)
        yield warn(
            "TPU_SKIP_MDS_QUERY",
            f"libtpu does not ask for the slice, and is not told: no {absent}",
            f"set {absent} too",
        )


def check_environment() -> Iterator[Finding]:
    found = list(hurting(os.environ))
    yield from found
    names = [name for name in sorted(os.environ) if name.startswith(("TORCH_PJRT_", "TPU_", "LIBTPU_", "MEGASCALE_"))]
    facts = {name: os.environ[name] for name in names}
    if names:
        text = "\n".join(f"{name}={value}" for name, value in facts.items())
        yield Finding("environment", NOTE, text, facts=facts)
    elif not found:
        yield Finding("environment", OK, "no variable of the device or of libtpu is set", facts=facts)
