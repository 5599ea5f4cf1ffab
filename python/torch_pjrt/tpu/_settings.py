"""`torch.tpu.config`: the settings, as attributes."""

from typing import Any

from torch_pjrt import _C
from torch_pjrt.tpu import _modes


class Config:
    """The settings of torch_pjrt. Each is also an environment variable TORCH_PJRT_*, read when PyTorch is imported.

    Reading an attribute gives the current value and assigning one changes it: `torch.tpu.config.fallback = "error"`.
    Printing the object shows them all with what they do.
    """

    def __getattr__(self, name: str) -> Any:
        return _C.get_setting(name)

    def __setattr__(self, name: str, value: str | int | bool) -> None:
        if name == "eager_mode":
            _modes.change(str(value))
            return
        _C.set_setting(name, str(int(value)) if isinstance(value, bool) else str(value))

    def __dir__(self) -> list[str]:
        return [name for name, *_ in _C.settings()]

    def __repr__(self) -> str:
        lines = []
        for name, env, default, choices, doc in _C.settings():
            domain = f" ({choices.replace('|', ', ')})" if choices else ""
            lines.append(f"{name} = {_C.get_setting(name)!r}{domain}, default {default!r}, {env}\n    {doc}")
        return "\n".join(lines)


config = Config()
