"""Which passes the CPU compiler has, and how a process is told to leave some of them out.

This is all that the benchmarks know of them: `known` and `with_passes_off`.
"""

import importlib
from collections.abc import Iterable

MODULE = "haulage.compiler.simt.passes"
# Beside the passes: ways to run a block's threads, which take much else away.
WAYS = {"scalar": "threads one after the other in each piece: nothing is widened or interchanged"}


def known() -> dict[str, str]:
    """A sentence for each pass by name; none if the compiler has no list of them."""
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as missing:
        if missing.name != MODULE:
            raise
        return {}
    return {each.name: each.summary for each in module.PASSES}


def with_passes_off(names: Iterable[str]) -> dict[str, str]:
    """Environment variables of a process whose kernels are compiled without these passes."""
    off = [name for name in names if name not in WAYS]
    ways = [name for name in names if name in WAYS]
    variables = {"HAULAGE_CPU_PASSES": ",".join(f"-{name}" for name in off)} if off else {}
    if ways:
        variables["HAULAGE_CPU_THREADS"] = ways[-1]
    return variables
