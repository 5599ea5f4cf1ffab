"""Random numbers: a generator a device, whose state is a seed and an offset (16 bytes)."""

import torch

from torch_pjrt import _C
from torch_pjrt.tpu._lazy import _lazy_call, _lazy_init
from torch_pjrt.tpu._utils import DeviceLike, _get_device_index


def _default_generator(index: int) -> torch.Generator:
    return torch.ops.torch_pjrt._default_generator(index)


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generator of each device, in order. As an attribute: `torch.tpu.default_generators`."""
    _lazy_init()
    return tuple(_default_generator(index) for index in range(_C.device_count()))


def _get_generator(device: torch.device) -> torch.Generator:
    _lazy_init()
    return _default_generator(_get_device_index(device, optional=True))


def get_rng_state(device: DeviceLike = "tpu") -> torch.Tensor:
    """The state of a device's generator: 16 bytes on the CPU, seed and offset."""
    _lazy_init()
    return _default_generator(_get_device_index(device, optional=True)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "tpu") -> None:
    """Go on from a state that `get_rng_state` gave."""
    with torch._C._DisableFuncTorch():
        state = new_state.clone(memory_format=torch.contiguous_format)

    def apply() -> None:
        _default_generator(_get_device_index(device, optional=True)).set_state(state)

    _lazy_call(apply)


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Go on from states that `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device. Before the device is used, this waits for its first use."""
    seed = int(seed)
    _lazy_call(lambda: _seed(seed, [torch._C._accelerator_getDeviceIndex()]))


def manual_seed_all(seed: int) -> None:
    """Seed all devices; `torch.manual_seed` does it too. Before the device is used, this waits for its first use."""
    seed = int(seed)
    _lazy_call(lambda: _seed(seed, list(range(_C.device_count()))))


def _seed(seed: int, devices: list[int]) -> None:
    for index in devices:
        _default_generator(index).manual_seed(seed)


def seed() -> None:
    """Seed the current device with a number that cannot be foreseen."""
    _lazy_call(lambda: _seed_unforeseen([torch._C._accelerator_getDeviceIndex()]))


def seed_all() -> None:
    """Seed all devices with one number that cannot be foreseen."""
    _lazy_call(lambda: _seed_unforeseen(list(range(_C.device_count()))))


def _seed_unforeseen(devices: list[int]) -> None:
    if devices:
        _seed(_default_generator(devices[0]).seed(), devices[1:])


def initial_seed() -> int:
    """The seed of the current device."""
    _lazy_init()
    return _default_generator(torch._C._accelerator_getDeviceIndex()).initial_seed()
