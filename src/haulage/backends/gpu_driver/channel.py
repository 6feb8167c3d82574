"""The host's end of the channels by which running kernels tell it faults and messages: see
`haulage.channel`."""

import ctypes
import threading
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np

from haulage.backends.base import KernelStopped
from haulage.backends.gpu_driver.calls import Calls
from haulage.channel import (
    CAPACITY,
    CAPACITY_AT,
    CHANNEL,
    FAULTS_AT,
    MISSING_AT,
    MODULE,
    MODULES,
    NBYTES,
    RING_AT,
    TAIL_AT,
)

_uint64 = Struct("<Q")
_uint32 = Struct("<I")
_number = Struct("<i")


class Channel:
    """The channel of one device, seen from the host."""

    def __init__(self, alloc: Callable[[int], tuple[int, int]]) -> None:
        self.address, host = alloc(NBYTES)
        ctypes.memset(host, 0, NBYTES)
        self.any_fault = ctypes.c_uint32.from_address(host)
        ctypes.c_uint32.from_address(host + CAPACITY_AT).value = CAPACITY
        self._tail = ctypes.c_uint64.from_address(host + TAIL_AT)
        self._missing = ctypes.c_uint64.from_address(host + MISSING_AT)
        self._told_missing = 0
        self._faults = _array(host + FAULTS_AT, np.uint32, MODULES)
        self._ring = _array(host + RING_AT, np.uint64, CAPACITY)
        self._lock = threading.Lock()

    def faults(self) -> list[tuple[int, int]]:
        """(module number, code) of the faults that are there; they are taken away."""
        with self._lock:
            self.any_fault.value = 0
            found = np.flatnonzero(self._faults)
            codes = self._faults[found]
            self._faults[found] = 0
        return list(zip(found.tolist(), codes.tolist(), strict=True))

    def messages(self) -> tuple[list[tuple[int, bytes]], int]:
        """(number, cells) of the messages that are whole, taken away; and how many are missing."""
        taken = []
        with self._lock:
            ring, at = self._ring, self._tail.value
            while header := int(ring[at % CAPACITY]):
                count = header & 0xFFFFFFFF
                places = np.arange(at, at + count, dtype=np.uint64) % CAPACITY
                cells = ring[places]
                (number,) = _number.unpack(_uint32.pack(header >> 32))
                taken.append((number, cells[1:].tobytes()))
                ring[places] = 0
                at += count
                self._tail.value = at
            missing = self._missing.value - self._told_missing
            self._told_missing += missing
        return taken, missing

    def clear_fault(self, number: int) -> None:
        """No fault of that module."""
        self._faults[number] = 0


def _array(address: int, dtype: type, count: int) -> np.ndarray:
    room: Any = (ctypes.c_char * (np.dtype(dtype).itemsize * count)).from_address(address)
    return np.frombuffer(room, dtype)


class Channels:
    """The channels of all devices. Safe to use from any thread.

    `alloc` gives so many bytes of pinned memory, with what devices write there seen by the host
    while they run: its address for devices and that for the host. `write` writes bytes to memory of
    a device, at an address there, waiting for no other work.
    """

    def __init__(
        self,
        calls: Calls,
        alloc: Callable[[int], tuple[int, int]],
        write: Callable[[int, int, bytes], None],
    ) -> None:
        self._last, self._names = calls.last, calls.names
        self._alloc = alloc
        self._write = write
        self._lock = threading.RLock()
        self.by_device: dict[int, Channel] = {}
        # Modules by (device, number); numbers and functions by module.
        self._modules: dict[tuple[int, int], int] = {}
        self._numbers: dict[int, int] = {}
        self._functions: dict[int, list[int]] = {}
        self._stopped: list[KernelStopped] = []
        self._messages: list[tuple[int, bytes]] = []
        self._missing = 0

    def connect(
        self,
        module: int,
        device: int,
        variable: Callable[[int, str], tuple[int, int] | None],
    ) -> None:
        """Tell a module, if it asks, where the channel of its device is, and its number."""
        self._functions[module] = []
        address, number = variable(module, CHANNEL), variable(module, MODULE)
        if address is None and number is None:
            return
        with self._lock:
            channel = self.by_device.get(device)
            if channel is None:
                channel = self.by_device[device] = Channel(self._alloc)
            slots = (slot for slot in range(1, MODULES) if (device, slot) not in self._modules)
            own = next(slots, 0) if number else 0
            if own:
                self._modules[device, own] = module
                self._numbers[module] = own
                channel.clear_fault(own)
        if address:
            self._write(device, address[0], _uint64.pack(channel.address))
        if number:
            self._write(device, number[0], _uint32.pack(own))

    def disconnect(self, module: int, device: int) -> Callable[[], None]:
        """The module is given back; what is returned undoes that, where the driver refuses."""
        with self._lock:
            functions = self._functions.pop(module, [])
            names = {each: self._names.pop(each) for each in functions if each in self._names}
            number = self._numbers.pop(module, 0)
            self._modules.pop((device, number), None)

        def undo() -> None:
            with self._lock:
                self._functions[module] = functions
                self._names.update(names)
                if number:
                    self._numbers[module] = number
                    self._modules[device, number] = module

        return undo

    def note(self, module: int, function: int) -> None:
        """A function of a module is in use."""
        self._functions[module].append(function)

    def raise_fault(self) -> None:
        """Raise KernelStopped for a fault that is there; others are kept for later calls."""
        self._collect()
        if self._stopped:
            raise self._stopped.pop(0)

    def take_faults(self) -> list[BaseException]:
        """All faults that no wait has raised."""
        self._collect()
        taken, self._stopped = self._stopped, []
        return [*taken]

    def _collect(self) -> None:
        for device, channel in self.by_device.items():
            if channel.any_fault.value:
                with self._lock:
                    for number, code in channel.faults():
                        module = self._modules.get((device, number), 0)
                        self._stopped.append(KernelStopped(self._function(module), code))

    def _function(self, module: int) -> int:
        """Which function of a module it was: of several the one that a stream launched last."""
        functions = self._functions.get(module, [])
        for launched in reversed(list(self._last.values())):
            if launched in functions:
                return launched
        return functions[0] if functions else 0

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """The messages with numbers of that sign, and with 1 how many are missing of both."""
        with self._lock:
            for channel in self.by_device.values():
                told, missing = channel.messages()
                self._messages += told
                self._missing += missing
            taken = [message for message in self._messages if message[0] * sign > 0]
            self._messages = [message for message in self._messages if message[0] * sign <= 0]
            missing = 0
            if sign > 0:
                missing, self._missing = self._missing, 0
        return taken, missing
