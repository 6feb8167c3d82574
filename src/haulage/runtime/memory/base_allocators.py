"""What an allocator is, how it is called, and the two that stand over Haulage's own memory.

Other allocators hand their calls on to these; what is handed on to is the `upstream`, as in RMM.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from haulage._core import memory as core
from haulage.backends.base import DEVICE
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, find
from haulage.runtime.memory import allocation, heap
from haulage.runtime.process import finalize

__all__ = ["Allocator", "Calls", "Driver", "Pool", "base_of", "name_of"]


class Allocator(Protocol):
    """What gives memory of a device: any object with these two methods.

    The device is the current one when they are called, and they are called by one thread at a time.
    Where a method has a parameter `stream` without a default, the default stream of the device is
    given for it: memory is used by any stream from then on, and it comes back when all are done.
    """

    def allocate(self, nbytes: int, /) -> int:
        """Give memory.

        Args:
            nbytes: how much; never 0.

        Returns:
            Its address, a multiple of 16, that the device reaches. (An int, or a ctypes integer.)

        Raises:
            MemoryError: there is no room. It is asked once more after Haulage has given back all
                that it can.
        """
        ...

    def deallocate(self, address: int, nbytes: int, /) -> object:
        """Take memory back: what `allocate(nbytes)` gave, once for each, when nothing uses it.

        It is not called for what is in use when the interpreter ends.
        """
        ...


class Calls:
    """The two methods of an allocator, to be called as the protocol has them.

    Raises:
        TypeError: it has no such methods.
    """

    __slots__ = ("allocate", "deallocate")

    def __init__(self, allocator: Any) -> None:
        methods: list[Any] = [getattr(allocator, name, None) for name in ("allocate", "deallocate")]
        if isinstance(allocator, type) or not all(callable(method) for method in methods):
            raise TypeError(
                f"{allocator!r} is no allocator: expected an object with the methods "
                "allocate(nbytes) and deallocate(address, nbytes)"
            )
        self.allocate, self.deallocate = map(_with_stream, methods)


def name_of(allocator: Any) -> str:
    """The name of an allocator in messages: of its class, with those that it hands calls on to."""
    upstream = getattr(allocator, "upstream", None)
    name = type(allocator).__name__
    return name if upstream is None else f"{name}({name_of(upstream)})"


def base_of(allocator: Any) -> Any:
    """The one at the end of those that hand calls on."""
    upstream = getattr(allocator, "upstream", None)
    return allocator if upstream is None else base_of(upstream)


def _with_stream(method: Callable[..., Any]) -> Callable[..., Any]:
    try:
        stream = inspect.signature(method).parameters.get("stream")
    except (TypeError, ValueError):  # one in C that does not tell
        return method
    if stream is None or stream.default is not stream.empty:
        return method
    return partial(_on_default_stream, method)


def _on_default_stream(method: Callable[..., Any], *args: int) -> Any:
    return method(*args, stream=current_device().default_stream)


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
        self._in_use: dict[int, tuple[Device, int]] = {}

    def allocate(self, nbytes: int) -> int:
        """The address of new memory."""
        device = self._device or current_device()
        device.activate()
        address, host_ptr = device.backend.alloc(nbytes, DEVICE, 0)
        self._in_use[address] = device, host_ptr
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back, which no work may use.

        Raises:
            ValueError: it is none that this has given and not got back.
        """
        device, host_ptr = _removed(self._in_use, address)
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
        self._in_use: dict[int, tuple[core.Pool, core.Allocation]] = {}
        self._driver = Driver(device)

    def allocate(self, nbytes: int) -> int:
        """The address of new memory."""
        device = self._device or current_device()
        if not allocation.is_pooling():
            return self._driver.allocate(nbytes)
        pool = allocation.pool_of(device)
        taken = core.Allocation()
        taken.nbytes = nbytes
        device.activate()
        try:
            pool.heap.provide(pool, taken, counted=False)
        except heap.Busy:
            return self._driver.allocate(nbytes)
        address: int = taken.device_ptr
        self._in_use[address] = pool, taken
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back.

        Raises:
            ValueError: it is none that this has given and not got back.
        """
        found = self._in_use.pop(address, None)
        if found is None:
            self._driver.deallocate(address, nbytes)
        else:
            _back(*found)


def _back(pool: core.Pool, taken: core.Allocation) -> None:
    pool.heap.device.activate()
    try:
        pool.heap.give(pool, taken, counted=False)
    except heap.Busy:
        finalize.later(_back, pool, taken)


def _removed(in_use: dict[int, _Kept], address: int) -> _Kept:
    kept = in_use.pop(address, None)
    if kept is None:
        raise ValueError(
            f"deallocate({address:#x}): expected an address that allocate has given and that has "
            "not been given back"
        )
    return kept
