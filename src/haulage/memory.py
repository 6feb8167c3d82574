"""The memory of devices: how much is held, by whom, how much may be, and who gives it.

    print(haulage.memory.report())      who holds it: file and line, largest first
    haulage.memory.stats()              bytes in use, reserved, peak, allocations
    haulage.memory.reset_peak()         count the peak from now on
    haulage.memory.snapshot()           all blocks, for json.dump
    with haulage.memory.leaks(): ...    fails if what is allocated inside outlives it
    haulage.memory.track(frames=8)      keep more than the line of who asks for memory
    haulage.memory.limit(2**30)         no more than that in use; None: no limit
    haulage.memory.trim()               give what no array has back to the driver
    haulage.memory.on_out_of_memory(f)  `f(device, nbytes)` may make room

Who gives the memory (an allocator is any object with `allocate` and `deallocate`):

    haulage.memory.set_allocator(a)     `a` gives the memory of the device; None: Haulage again
    haulage.memory.using_allocator(a)   the same inside of a `with`
    haulage.memory.get_allocator()      the one that was set
    haulage.memory.Pool(), Driver()     allocators: Haulage's own memory, and the driver's
    haulage.memory.Limit(a, nbytes)     gives no more than that at a time; hands calls on to `a`
    haulage.memory.Log(a, file)         writes each call down
    haulage.memory.Statistics(a)        counts
    haulage.memory.Failing(a, nth=3)    fails, to test what a program does then
"""

from typing import NoReturn as _NoReturn

from haulage.runtime.memory.adaptors import Counts, Failing, Limit, Log, Statistics
from haulage.runtime.memory.allocators import get_allocator, set_allocator, using_allocator
from haulage.runtime.memory.base_allocators import Allocator, Driver, Pool
from haulage.runtime.memory.limits import limit
from haulage.runtime.memory.out_of_memory import Registration, on_out_of_memory
from haulage.runtime.memory.reports import Holding, Report, leaks, report
from haulage.runtime.memory.statistics import Stats, Usage, reset_peak, snapshot, stats, trim
from haulage.runtime.process.call_sites import Site, track
from haulage.spelling import did_you_mean as _did_you_mean

__all__ = [
    "Allocator",
    "Counts",
    "Driver",
    "Failing",
    "Holding",
    "Limit",
    "Log",
    "Pool",
    "Registration",
    "Report",
    "Site",
    "Statistics",
    "Stats",
    "Usage",
    "get_allocator",
    "leaks",
    "limit",
    "on_out_of_memory",
    "report",
    "reset_peak",
    "set_allocator",
    "snapshot",
    "stats",
    "track",
    "trim",
    "using_allocator",
]


def __getattr__(name: str) -> _NoReturn:
    meant = "" if name.startswith("_") else _did_you_mean(name, __all__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}", name=name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
