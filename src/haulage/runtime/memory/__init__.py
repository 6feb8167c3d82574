"""Memory of devices: who gives it, who owns it, and when it is given back."""

from haulage.runtime.memory.block import (
    Block,
    MemoryInfo,
    Provider,
    Usage,
    adopt,
    allocate,
    allocate_of_driver,
    are_own,
    close_all,
    flush,
    hold,
    pending,
    provider,
    reap,
    set_provider,
    stats,
)

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
    "pending",
    "provider",
    "reap",
    "set_provider",
    "stats",
]
