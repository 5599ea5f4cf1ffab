"""Compiling for TPUs that are not there: libtpu compiles for any of them on any machine.

    compiler = Compiler("v6e:2x4")
    compiled = compiler.compile(module)     # StableHLO text
    compiled.memory.peak_bytes, compiled.cost.flops

libtpu runs in a process of its own, which this package starts and restarts. Nothing here needs torch.
"""

from torch_pjrt.aot import hlo
from torch_pjrt.aot.chips import CHIPS, Chip
from torch_pjrt.aot.compiler import Compiled, Compiler, Cost, Memory, Options, find_libtpu
from torch_pjrt.aot.errors import CompileError, CompilerCrash, CompilerTimeout, DoesNotFit, Unavailable
from torch_pjrt.aot.target import Target

__all__ = [
    "CHIPS",
    "Chip",
    "CompileError",
    "Compiled",
    "Compiler",
    "CompilerCrash",
    "CompilerTimeout",
    "Cost",
    "DoesNotFit",
    "Memory",
    "Options",
    "Target",
    "Unavailable",
    "find_libtpu",
    "hlo",
]
