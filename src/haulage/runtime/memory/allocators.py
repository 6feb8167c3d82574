"""Allocators that programs bring along: which one gives a device's memory, and how it is asked."""

import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, RLock
from typing import Any

from haulage.backends.base import DEVICE
from haulage.errors import DeviceError
from haulage.interruption import on_error
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, find
from haulage.runtime.memory import allocation
from haulage.runtime.memory.adopted import adopt
from haulage.runtime.memory.allocation import Provider, allocate_external, count_external
from haulage.runtime.memory.base_allocators import Allocator, Calls, Driver, Pool, base_of, name_of
from haulage.runtime.memory.block import Block
from haulage.runtime.process import finalize, runtime

__all__ = ["get_allocator", "set_allocator", "set_plugin", "using_allocator"]


class AddressRanges:
    """A set of ranges, in order; safe for threads."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._lock = Lock()

    def add(self, start: int, size: int) -> tuple[int, int] | None:
        """Add `size` (> 0) addresses from `start` on.

        Returns:
            (start, size) of a range that has some of them, and nothing is added; else None.
        """
        with self._lock:
            place = bisect_left(self._starts, start)
            if place < len(self._starts) and self._starts[place] < start + size:
                other = self._starts[place]
                return other, self._sizes[other]
            if place:
                other = self._starts[place - 1]
                if other + self._sizes[other] > start:
                    return other, self._sizes[other]
            insort(self._starts, start)
            self._sizes[start] = size
            return None

    def remove(self, start: int) -> None:
        """Take the range from `start` on away."""
        with self._lock:
            del self._sizes[start]
            del self._starts[bisect_left(self._starts, start)]


# Widest access of a kernel to one element: vector types and complex128 take 16 bytes.
_ALIGNMENT = 16


def set_allocator(allocator: Allocator | None, device: Device | str | None = None) -> None:
    """Let `allocator` give the memory of all arrays that are made on a device from now on.

    What it has given before comes back to it, whatever is set later. It gives memory of the device
    only: pinned, mapped and managed arrays stand on Haulage's own, or on that of a plug-in (see
    `cuda.set_memory_manager`), before which an allocator goes.

    Args:
        allocator: an `Allocator`; None: Haulage's own again.
        device: a `Device` or its name, as 'cpu'; None: the current one.

    Raises:
        TypeError: it has no `allocate` or no `deallocate`.
        DeviceNotFound: the device is not there.
    """
    place = current_device() if device is None else find(device)
    if allocator is None:
        _of.pop(place, None)
    else:
        _of[place] = _DeviceAllocator(allocator, place)
    _install()


def get_allocator(device: Device | str | None = None) -> Allocator | None:
    """The allocator that was set for a device (None: the current one); None if there is none."""
    place = current_device() if device is None else find(device)
    chosen = _of.get(place)
    return None if chosen is None else chosen.allocator


@contextmanager
def using_allocator(
    allocator: Allocator | None, device: Device | str | None = None
) -> Iterator[Allocator | None]:
    """`with using_allocator(a):` is `set_allocator(a)` until its end, for all threads.

    Arrays that were made inside can outlive it.

    Args:
        allocator, device: as for `set_allocator`.
    """
    place = current_device() if device is None else find(device)
    before = get_allocator(place)
    set_allocator(allocator, place)
    try:
        yield allocator
    finally:
        set_allocator(before, place)


def set_plugin(plugin: Provider | None) -> None:
    """Let `plugin` give all memory for which no allocator is set, or Haulage again."""
    global _plugin
    _plugin = plugin
    _install()


def plugin() -> Provider | None:
    """What `set_plugin` was called with last."""
    return _plugin


# ---- how they are asked -----------------------------------------------------------------------


class _DeviceAllocator:
    """The allocator of a device."""

    def __init__(self, allocator: Allocator, device: Device) -> None:
        self.allocator = allocator
        self.device = device
        self.calls = Calls(allocator)
        self.name = name_of(allocator)
        end = type(base_of(allocator))
        self.is_pool = end is Pool
        self.is_driver = end is Driver
        # Of the same allocator for all its devices.
        self.lock = _locks.setdefault(id(allocator), _Lock())

    def block(self, nbytes: int) -> Block:
        return allocate_external(self.device, nbytes, DEVICE, partial(self._block, nbytes))

    def _block(self, nbytes: int) -> Block:
        device = self.device
        address = self._allocate(nbytes)
        host_ptr = address if device.properties.host_memory_is_device_memory else 0
        release = partial(self._release, address, nbytes)
        with on_error(release):
            block = adopt(device, address, host_ptr, nbytes, release)
        return count_external(block, reserves=not (self.is_pool and allocation.is_pooling()))

    def _allocate(self, nbytes: int) -> int:
        ranges = _in_use.setdefault(self.device, AddressRanges())
        with self.lock.held, _Current(self.device):
            self.device.activate()
            try:
                answer = self.calls.allocate(nbytes)
            except Exception as error:
                error.add_note(
                    f"raised by allocate({nbytes}) of the allocator {self.name} for {self.device}"
                )
                raise
            address = self._address(answer, nbytes)
            other = ranges.add(address, nbytes)
            if other is not None:
                raise ValueError(
                    f"{self._gave(answer, nbytes)}, which overlaps the {other[1]} bytes at "
                    f"{other[0]:#x} that are still in use; expected memory that no array stands on"
                )
            if not (self.is_pool or self.is_driver):
                try:
                    self._check(address, nbytes)
                except BaseException:
                    ranges.remove(address)
                    self.calls.deallocate(address, nbytes)
                    raise
        return address

    def _address(self, answer: Any, nbytes: int) -> int:
        number = getattr(answer, "value", answer)
        if isinstance(answer, bool) or not (number is None or hasattr(number, "__index__")):
            raise TypeError(f"{self._gave(answer, nbytes)}; expected an address, an int")
        if answer is None:
            raise TypeError(
                f"{self._gave(answer, nbytes)}; expected an address, or a MemoryError where there "
                "is no room"
            )
        address = 0 if number is None else int(number.__index__())
        if address <= 0:
            raise ValueError(f"{self._gave(answer, nbytes)}; expected the address of some memory")
        return address

    def _check(self, address: int, nbytes: int) -> None:
        if address % _ALIGNMENT:
            raise ValueError(
                f"{self._gave(hex(address), nbytes)}; expected a multiple of {_ALIGNMENT}, as "
                "kernels need it"
            )
        self.device.activate()
        try:
            self.device.backend.check_address(address, nbytes)
        except DeviceError as error:
            raise DeviceError(f"{self._gave(hex(address), nbytes)}: {error}") from error

    def _gave(self, answer: object, nbytes: int) -> str:
        return f"the allocator {self.name} of {self.device} gave {answer} for {nbytes} bytes"

    def _release(self, address: int, nbytes: int) -> None:
        # That the device could not be made active is no reason to keep the memory.
        with self.lock.held, _Current(self.device):
            _in_use[self.device].remove(address)
            name = f"deallocate({address:#x}, {nbytes}) of the allocator {self.name}"
            finalize.call_unraisable(self.device.activate, name=name)
            finalize.call_unraisable(self.calls.deallocate, address, nbytes, name=name)


class _Router:
    """`memory.Provider` where an allocator is set for some device."""

    def allocate(self, device: Device, nbytes: int, kind: str, flags: int) -> Block:
        chosen = _of.get(device) if kind == DEVICE else None
        if chosen is not None:
            return chosen.block(nbytes)
        if _plugin is not None:
            return _plugin.allocate(device, nbytes, kind, flags)
        return allocation.allocate_of_driver(device, nbytes, kind, flags)

    def pin(
        self, device: Device, owner: Any, address: int, nbytes: int
    ) -> tuple[int, Callable[[], object]]:
        if _plugin is not None:
            return _plugin.pin(device, owner, address, nbytes)
        return allocation.pin(device, address, nbytes)

    def export(self, block: Block, pointer: int, nbytes: int) -> Any:
        return None if _plugin is None else _plugin.export(block, pointer, nbytes)

    def reset(self, device: Device) -> None:
        if _plugin is not None:
            _plugin.reset(device)


class _Lock:
    """Allocators are called by one thread at a time, so that simple ones are right."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = RLock()


_locks: "weakref.WeakValueDictionary[int, _Lock]" = weakref.WeakValueDictionary()
_of: dict[Device, _DeviceAllocator] = {}
_in_use: dict[Device, AddressRanges] = {}
_plugin: Provider | None = None
_router = _Router()


def _install() -> None:
    allocation.set_provider(_router if _of else _plugin)


class _Current:
    """`with _Current(device):` makes it the current one."""

    __slots__ = ("_device",)

    def __init__(self, device: Device) -> None:
        self._device = device

    def __enter__(self) -> None:
        runtime.current.enter(self._device)

    def __exit__(self, *exception: object) -> None:
        runtime.current.leave()


def start_anew() -> None:
    """After a fork, in the child: threads that held the locks are not there any more."""
    for lock in tuple(_locks.values()):
        lock.held = RLock()
