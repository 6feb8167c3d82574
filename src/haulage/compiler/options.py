"""What a user can ask of a compilation, and Numba's flags for it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """How a function is compiled; part of every key that compiled code is found by.

    `fastmath`: False, True (all of LLVM's fast-math flags) or a frozenset of flag names. As on
    CUDA, products and sums are contracted into fused operations unless told otherwise.
    """

    fastmath: bool | frozenset[str] = False


def numba_flags(options: Options) -> Any:
    """Numba's flags: no CPython wrapper, no reference counts, NumPy's rules for float errors."""
    from numba.core.compiler import Flags
    from numba.core.cpu_options import FastMathOptions

    flags = Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.enable_ssa = True
    flags.error_model = "numpy"
    wanted: Any = options.fastmath
    if wanted is not True:
        wanted = {"contract", *(wanted or ())}
    flags.fastmath = FastMathOptions(wanted)
    return flags
