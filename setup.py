"""The native parts are built by make; this hands them to the wheel.

    pip install --no-build-isolation .      # against the torch that is installed

TPJ_SKIP_NATIVE=1 leaves make out, for an editable install whose native parts are built on their own.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildNative(build_py):
    def run(self) -> None:
        if os.environ.get("TPJ_SKIP_NATIVE", "0") != "1":
            subprocess.run(["make", "-C", str(ROOT), "native", f"PY={sys.executable}"], check=True)
            self.__dict__.pop("data_files", None)  # computed lazily: what make added must be seen
        super().run()


class NativeDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=NativeDistribution,
    cmdclass={"build_py": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
