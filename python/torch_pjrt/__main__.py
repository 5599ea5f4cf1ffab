"""The command `torch_pjrt`."""

import argparse
import os
import platform
import sys

from torch_pjrt import _cache, doctor
from torch_pjrt.plan import _commands


def info() -> int:
    """Print the device, the plugin, versions and settings."""
    import torch

    from torch_pjrt import __version__, _discovery, _loader

    print(f"torch_pjrt {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    plugin = _discovery.discover()
    if not _loader.loaded:
        print(f"device      not loaded: {plugin.reason if plugin.inert else 'TORCH_DEVICE_BACKEND_AUTOLOAD is 0'}")
        return 1
    print(f"plugin      {plugin.path or 'none'} ({plugin.reason})")
    try:
        _print_devices()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        print(f"device      not usable: {error}")
        return 1
    finally:
        _print_settings()
    return 0


def _print_devices() -> None:
    from torch_pjrt import _C, tpu

    tpu.init()
    client = _C.client_info()
    print(f"PJRT        API {client['api_version']}, {client['platform']} {client['platform_version']}".rstrip())
    for index in range(tpu.device_count()):
        properties = tpu.get_device_properties(index)
        print(f"tpu:{index:<8}{properties.name}, {properties.total_memory / 2**30:.1f} GiB")


def _print_settings() -> None:
    from torch_pjrt import _C

    print("settings    (* is not the default)")
    for name, env, default, _, _ in _C.settings():
        value = _C.get_setting(name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        print(f"  {env:<34} {text or '-'}{'' if text == default else ' *'}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="torch_pjrt", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help=info.__doc__).set_defaults(run=lambda _: info())
    _cache.add_command(commands)
    _commands.add_commands(commands)
    doctor.add_command(commands)
    args = parser.parse_args()
    try:
        return args.run(args)
    except BrokenPipeError:  # `torch_pjrt cache ls | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError) as error:
        print(f"torch_pjrt: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
