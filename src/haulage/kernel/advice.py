"""What programs written for numba.cuda are warned of, in Numba's categories and by its switches.

Only programs that import `numba.cuda` are: who imports `haulage.cuda` may never load Numba.
"""

import sys
from math import prod
from typing import Any

from haulage.errors import warn
from haulage.runtime.devices import registry
from haulage.runtime.launch.loaded import Configuration


def is_wanted() -> bool:
    """Whether this program knows Haulage by the name of numba.cuda."""
    ours = sys.modules.get("haulage.cuda")
    return ours is not None and sys.modules.get("numba.cuda") is ours


def setting(name: str) -> Any:
    """A setting of Numba, which its variables and programs change; None where it is not loaded."""
    return getattr(sys.modules.get("numba.core.config"), name, None)


def of_options(hints: dict[str, Any], debug: bool) -> None:
    """Warn of options of `jit` that numba.cuda warns of; to be called by what `jit` calls."""
    if not debug or not is_wanted():
        return
    optimised = hints.get("opt")
    if optimised is None:
        optimised = setting("OPT") != 0
    if optimised:
        _warn(
            "NumbaInvalidConfigWarning",
            "debug=True with opt=True (the default) is not supported by CUDA; programs for "
            "NVIDIA's GPUs say opt=False with debug=True. On the CPU device both work together",
        )
    if hints.get("lineinfo"):
        _warn(
            "NumbaInvalidConfigWarning",
            "debug and lineinfo are mutually exclusive in numba.cuda: debug=True has the lines too",
        )


def of_few_blocks(configuration: Configuration) -> None:
    """Warn of a grid with fewer blocks than the current device runs at one time."""
    if not setting("CUDA_LOW_OCCUPANCY_WARNINGS") or setting("DISABLE_PERFORMANCE_WARNINGS"):
        return
    here = registry.current_device()
    blocks, at_once = prod(configuration.grid), here.properties.multiprocessors
    if blocks < at_once and is_wanted():
        _warn(
            "NumbaPerformanceWarning",
            f"Grid size {blocks} will likely result in under-utilization of {here} due to low "
            f"occupancy: it runs {at_once} blocks at a time",
        )


def _warn(category: str, message: str) -> None:
    """Warn in a category of Numba's, at the line of the program that called Haulage."""
    from haulage import numba_bridge

    warn(message, numba_bridge.warning_category(category))
