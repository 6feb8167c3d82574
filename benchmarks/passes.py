"""Which passes the CPU compiler has, and how a process is told to leave some of them out.

This is all that the benchmarks know of them: `known` and `with_passes_off`.
"""

from collections.abc import Iterable

from haulage.compiler.simt.passes import PASSES

# Beside the passes: ways to run a block's threads, which take much else away.
WAYS = {"scalar": "threads one after the other in each region: nothing is vectorised"}


def known() -> dict[str, str]:
    """A sentence for each pass that can be switched off, by name."""
    return {each.name: each.summary for each in PASSES if not each.required}


def with_passes_off(names: Iterable[str]) -> dict[str, str]:
    """Environment variables of a process whose kernels are compiled without these passes."""
    off = [name for name in names if name not in WAYS]
    ways = [name for name in names if name in WAYS]
    variables = {"HAULAGE_CPU_PASSES": ",".join(f"-{name}" for name in off)} if off else {}
    if ways:
        variables["HAULAGE_CPU_THREADS"] = ways[-1]
    return variables
