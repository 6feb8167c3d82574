"""The memory of devices: how much is held, and by whom.

haulage.memory.stats()   bytes in use, by device and kind of memory

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

from haulage.runtime.memory import Usage, stats
from haulage.runtime.memory.adaptors import Counts, Failing, Limit, Log, Statistics
from haulage.runtime.memory.allocators import get_allocator, set_allocator, using_allocator
from haulage.runtime.memory.calls import Allocator
from haulage.runtime.memory.ends import Driver, Pool

__all__ = [
    "Allocator",
    "Counts",
    "Driver",
    "Failing",
    "Limit",
    "Log",
    "Pool",
    "Statistics",
    "Usage",
    "get_allocator",
    "set_allocator",
    "stats",
    "using_allocator",
]
