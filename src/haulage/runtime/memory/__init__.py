"""Memory of devices: who gives it, who owns it, and when it is given back.

From the bottom: `classes` and `extents` and `arena`, arithmetic of sizes and addresses; `heap`, the
pools of streams; `pending`, what waits for streams; `block`; `allocating`, with `limits` and
`out_of_memory`; `owners`, `holders`, `statistics` and `leaks` tell of it.
"""

from haulage.runtime.memory.allocating import (
    MemoryInfo,
    Provider,
    allocate,
    allocate_of_driver,
    provider,
    set_provider,
)
from haulage.runtime.memory.block import Block, adopt, are_own, close_all, holding
from haulage.runtime.memory.pending import count as pending_count
from haulage.runtime.memory.pending import flush, hold, reap
from haulage.runtime.memory.statistics import Usage, stats

__all__ = [
    "Block",
    "MemoryInfo",
    "Provider",
    "Usage",
    "adopt",
    "allocate",
    "allocate_of_driver",
    "are_own",
    "close_all",
    "flush",
    "hold",
    "holding",
    "pending_count",
    "provider",
    "reap",
    "set_provider",
    "stats",
]
