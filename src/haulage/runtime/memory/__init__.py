"""Memory of devices: who gives it, who owns it, and when it is given back.

From the bottom: `classes` and `arena` are arithmetic of sizes and addresses; a pool has what is
free of one stream, and together with the counters, the free ranges and what each block has it is in
`haulage._core.memory`; a `heap` has the pools of one kind of memory, and `decay` gives back what
nobody uses; a `block` is what arrays stand on, an `adopted` one where someone else owns the memory.
`allocation` makes blocks, within the `limits`, and climbs the steps of `out_of_memory`.
`base_allocators`, `adaptors` and `allocators` are for programs that bring their own. `reports` and
`statistics` tell who holds memory, and how much.
"""

from haulage.runtime.devices.pending import count as pending_count
from haulage.runtime.devices.pending import flush, hold, reap
from haulage.runtime.memory.adopted import StreamOrderedBlock, adopt, adopt_from_stream
from haulage.runtime.memory.allocation import (
    MemoryInfo,
    Provider,
    allocate,
    allocate_of_driver,
    pin,
    provider,
    set_provider,
)
from haulage.runtime.memory.block import Block, are_own, close_all, holding
from haulage.runtime.memory.out_of_memory import on_host
from haulage.runtime.memory.statistics import Usage, stats

__all__ = [
    "Block",
    "StreamOrderedBlock",
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
    "adopt_from_stream",
    "on_host",
    "pending_count",
    "pin",
    "provider",
    "reap",
    "set_provider",
    "stats",
]
