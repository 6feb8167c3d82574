"""Numba's flags for what a user asked of a compilation."""

from typing import Any

from numba.core.compiler import Flags
from numba.core.cpu_options import FastMathOptions
from numba.core.targetconfig import Option

from haulage.compiler.options import Options
from haulage.targets.base import Target


class KernelFlags(Flags):
    """Numba's, and whether accesses are checked and the ways of threads counted."""

    __slots__ = ()

    watched = Option(type=bool, default=False, doc="Tell the lines and arrays of accesses.")
    counts = Option(type=bool, default=False, doc="Count the ways of threads.")


def numba_flags(options: Options, target: Target) -> Any:
    """Numba's flags: no CPython wrapper, no reference counts, NumPy's rules for float errors
    (Python's in a debug kernel)."""
    flags = KernelFlags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.enable_ssa = True
    flags.watched = bool(options.watched) and target.checks_accesses
    if options.watched or (target.has_line_tables and (options.debug or options.lineinfo)):
        # Of variables LLVM's code generator for PTX cannot tell where functions are inlined: it
        # ends the process. So it is told of lines only.
        flags.debuginfo = flags.dbg_directives_only = True
    flags.error_model = "python" if options.debug else "numpy"
    flags.boundscheck = options.checks_indices
    flags.counts = options.counts
    wanted: Any = options.fastmath
    if wanted is not True:
        wanted = {"contract", *(wanted or ())}
    flags.fastmath = FastMathOptions(wanted)
    return flags
