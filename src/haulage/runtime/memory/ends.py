"""Allocators over Haulage's own memory, for others to hand calls on to."""

from typing import TypeVar

from haulage.backends.base import DEVICE
from haulage.runtime import finalize
from haulage.runtime.device import Device, current_device, find
from haulage.runtime.memory import allocating, heap
from haulage.runtime.memory import pool as pools

__all__ = ["Driver", "Pool"]

_Kept = TypeVar("_Kept")


class Driver:
    """An `Allocator` that asks the device's driver each time.

    Args:
        device: a `Device` or its name; None: the one that is current at each call.

    Raises:
        OutOfMemory: by `allocate`: the device has no room.
    """

    def __init__(self, device: Device | str | None = None) -> None:
        self._device = None if device is None else find(device)
        self._given: dict[int, tuple[Device, int]] = {}

    def allocate(self, nbytes: int) -> int:
        """The address of new memory."""
        device = self._device or current_device()
        device.activate()
        address, host_ptr = device.backend.alloc(nbytes, DEVICE, 0)
        self._given[address] = device, host_ptr
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back, which no work may use.

        Raises:
            ValueError: it is none that this has given and not got back.
        """
        device, host_ptr = _taken(self._given, address)
        device.activate()
        device.backend.free(address, host_ptr, DEVICE)


class Pool:
    """An `Allocator` that gives memory as Haulage does where no allocator is set.

    Args:
        device: a `Device` or its name; None: the one that is current at each call.

    Raises:
        OutOfMemory: by `allocate`: the device has no room.
    """

    def __init__(self, device: Device | str | None = None) -> None:
        self._device = None if device is None else find(device)
        self._given: dict[int, pools.Pool] = {}
        self._driver = Driver(device)

    def allocate(self, nbytes: int) -> int:
        """The address of new memory."""
        device = self._device or current_device()
        if not allocating.is_pooling():
            return self._driver.allocate(nbytes)
        pool = allocating.pool_of(device)
        device.activate()
        try:
            address, _ = pool.heap.take(pool, nbytes)
        except heap.Busy:
            return self._driver.allocate(nbytes)
        self._given[address] = pool
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back.

        Raises:
            ValueError: it is none that this has given and not got back.
        """
        pool = self._given.pop(address, None)
        if pool is None:
            self._driver.deallocate(address, nbytes)
        else:
            _back(pool, address, nbytes)


def _back(pool: pools.Pool, address: int, nbytes: int) -> None:
    pool.heap.device.activate()
    try:
        pool.heap.give(pool, address, nbytes)
    except heap.Busy:
        finalize.later(_back, pool, address, nbytes)


def _taken(given: dict[int, _Kept], address: int) -> _Kept:
    kept = given.pop(address, None)
    if kept is None:
        raise ValueError(
            f"deallocate({address:#x}): expected an address that allocate has given and that has "
            "not been given back"
        )
    return kept
