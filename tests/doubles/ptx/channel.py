"""The host's end of what threads tell: the channel of a device, and its modules' numbers."""

import ctypes
import itertools
import struct
import threading
from typing import Any

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


class Channel:
    """Memory that kernels write to and the host reads."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(NBYTES)
        struct.pack_into("<I", self._memory, CAPACITY_AT, CAPACITY)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._told: dict[int, list[tuple[int, bytes]]] = {1: [], -1: []}
        self._missing_before = 0

    def introduce(self, module: Any) -> int:
        """Let a module that was loaded tell; its number, 0 if it has nothing to tell."""
        variables = module.translated.variables
        if CHANNEL not in variables:
            return 0
        number = next(self._numbers)
        if number >= MODULES:
            raise AssertionError("more modules than the channel has slots for")
        for name, value, layout in (
            (CHANNEL, ctypes.addressof(self._memory), ctypes.c_uint64),
            (MODULE, number, ctypes.c_uint32),
        ):
            address, nbytes = module.symbol(name)
            if nbytes != ctypes.sizeof(layout):
                raise AssertionError(f"{name} has {nbytes} bytes")
            layout.from_address(address).value = value
        return number

    def fault(self, number: int) -> int:
        """Take the fault of a module; 0 if there is none."""
        at = FAULTS_AT + 4 * number
        (any_fault,) = struct.unpack_from("<I", self._memory, 0)
        (fault,) = struct.unpack_from("<I", self._memory, at)
        if number and fault:
            if not any_fault:
                raise AssertionError("a fault that the channel does not announce")
            struct.pack_into("<I", self._memory, at, 0)
            return int(fault)
        return 0

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """As `Backend.messages`."""
        with self._lock:
            self._read()
            found, self._told[sign] = self._told[sign], []
            if sign < 0:
                return found, 0
            (missing,) = struct.unpack_from("<Q", self._memory, MISSING_AT)
            fewer, self._missing_before = missing - self._missing_before, missing
            return found, fewer

    def _read(self) -> None:
        (tail,) = struct.unpack_from("<Q", self._memory, TAIL_AT)
        while True:
            (header,) = struct.unpack_from("<Q", self._memory, self._cell(tail))
            if not header:
                break
            cells = [
                self._memory[self._cell(tail + n) : self._cell(tail + n) + 8]
                for n in range(header & 0xFFFFFFFF)
            ]
            for n in range(len(cells)):
                struct.pack_into("<Q", self._memory, self._cell(tail + n), 0)
            tail += len(cells)
            (number,) = struct.unpack("<i", struct.pack("<I", header >> 32))
            self._told[1 if number > 0 else -1].append((number, b"".join(cells[1:])))
            struct.pack_into("<Q", self._memory, TAIL_AT, tail)

    @staticmethod
    def _cell(number: int) -> int:
        return RING_AT + 8 * (number % CAPACITY)
