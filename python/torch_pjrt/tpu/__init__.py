"""`torch.tpu`: the device for programs that know `torch.cuda`.

Names and meanings are those of `torch.cuda` wherever a TPU has the thing. What belongs to this device alone: `config`
(the settings), `fallbacks()` (ops that ran on the CPU), `compile_stats()`, the eager modes and `fusion_report()`.
"""

from typing import Any

import torch

from torch_pjrt.tpu import _utils as _utils
from torch_pjrt.tpu import amp, memory, random, streams
from torch_pjrt.tpu._lazy import _is_in_bad_fork as _is_in_bad_fork
from torch_pjrt.tpu._lazy import _lazy_call as _lazy_call
from torch_pjrt.tpu._lazy import _lazy_init as _lazy_init
from torch_pjrt.tpu._lazy import init, is_initialized
from torch_pjrt.tpu._modes import debug, eager_mode, set_eager_mode
from torch_pjrt.tpu._settings import config
from torch_pjrt.tpu.device import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from torch_pjrt.tpu.memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from torch_pjrt.tpu.random import _get_generator as _get_generator
from torch_pjrt.tpu.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_pjrt.tpu.report import compile_stats, fallbacks, fusion_report, reset_compile_stats, reset_fallbacks
from torch_pjrt.tpu.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

OutOfMemoryError = torch.OutOfMemoryError

# Reachable as torch.tpu.NAME for `import` as well.
SUBMODULES = ("amp", "memory", "random", "streams")


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be computed with: always."""
    del including_emulation
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("tpu", dtype=...)` takes, the default first."""
    return [torch.bfloat16, torch.float16]


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random.default_generators()
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'torch.tpu' has no attribute {name!r}")


__all__ = [
    "DeviceProperties",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "compile_stats",
    "config",
    "current_device",
    "current_stream",
    "debug",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "fallbacks",
    "fusion_report",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_compile_stats",
    "reset_fallbacks",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]
