"""What Dynamo is told of the device. Imported when Dynamo has been, not before."""

import torch
from torch._dynamo import trace_rules
from torch._dynamo.backends import registry
from torch._dynamo.device_interface import DeviceInterface, init_device_reg, register_interface_for_device
from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type

from torch_pjrt import _loader, tpu
from torch_pjrt.compile._backend import backend


class TpuInterface(DeviceInterface):
    """`torch.tpu` in the terms of Dynamo."""

    device = tpu.device
    Event = tpu.Event
    Stream = tpu.Stream
    current_device = staticmethod(tpu.current_device)
    set_device = staticmethod(tpu.set_device)
    maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)  # type: ignore[assignment]
    exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)  # type: ignore[assignment]
    device_count = staticmethod(tpu.device_count)
    is_available = staticmethod(tpu.is_available)
    stream = staticmethod(tpu.stream)
    current_stream = staticmethod(tpu.current_stream)
    set_stream = staticmethod(tpu.set_stream)
    synchronize = staticmethod(tpu.synchronize)
    get_device_properties = staticmethod(tpu.get_device_properties)
    get_compute_capability = staticmethod(tpu.get_device_name)
    memory_allocated = staticmethod(tpu.memory_allocated)
    is_bf16_supported = staticmethod(tpu.is_bf16_supported)

    class Worker:
        """Asked in processes that compile for another one. There are none here: they answer for their own."""

        current_device = staticmethod(tpu.current_device)
        set_device = staticmethod(tpu.set_device)
        get_device_properties = staticmethod(tpu.get_device_properties)

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_triton_capable(device: torch.types.Device = None) -> bool:
        return False


def register() -> None:
    """Make the device and the backend known, and the backend the default one where there is such a device."""
    init_device_reg()  # called later, it would put PyTorch's own interface for this name, which knows little, over ours
    register_interface_for_device(_loader.BACKEND, TpuInterface)
    register_graphsafe_rng_device_type(_loader.BACKEND)
    trace_rules.add(
        "torch_pjrt"
    )  # torch.tpu is called, as torch.cuda is: generators and streams have no place in a graph
    if _loader.BACKEND not in registry._COMPILER_FNS:
        registry.register_backend(backend, _loader.BACKEND)
    if tpu.is_available() and registry.get_default_backend() == "inductor":
        registry.set_default_backend(_loader.BACKEND)
