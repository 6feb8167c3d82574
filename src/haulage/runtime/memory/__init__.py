"""Memory of devices: who gives it, who owns it, and when it is given back.

From the bottom: `classes` and `extents` and `arena`, arithmetic of sizes and addresses; `pool`,
what is free of one stream, and its count; `heap`, the pools of one kind of memory; `decay`, what
goes back of it as nobody used it; `pending`, what waits for streams; `block`, and `lent` for that
of others; `allocating`, with `limits` and `out_of_memory`; `owners`, `holders`, `statistics` and
`leaks` tell of it.
"""

from haulage.runtime.memory.allocating import (
    MemoryInfo,
    Provider,
    allocate,
    allocate_of_driver,
    pin,
    provider,
    set_provider,
)
from haulage.runtime.memory.block import Block, adopt, are_own, close_all, holding
from haulage.runtime.memory.lent import Lent, lend
from haulage.runtime.memory.out_of_memory import on_host
from haulage.runtime.memory.pending import count as pending_count
from haulage.runtime.memory.pending import flush, hold, reap
from haulage.runtime.memory.statistics import Usage, stats

__all__ = [
    "Block",
    "Lent",
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
    "lend",
    "on_host",
    "pending_count",
    "pin",
    "provider",
    "reap",
    "set_provider",
    "stats",
]
