"""Running a grid whose blocks wait for one another: phase by phase, from barrier to barrier.

A block that waits leaves its state in a frame (`compiler/simt/coroutines/cooperative_grid.py` has
the modes and the layout of a launch). So there may be any number of blocks for each worker thread.
"""

import ctypes
import struct
from math import prod

import numpy as np

from haulage._core.pool import DROP, GAVE_WAY, GO_ON, MODE_AT, RESUME, WAITS
from haulage.backends.base import KernelStopped
from haulage.backends.cpu_driver import crashes
from haulage.backends.cpu_driver.pool import Pool

_ALIGN = 64

# All blocks of a grid are there at one time: so many threads, and this part of the memory.
MOST_THREADS, MEMORY_PART = 1 << 20, 4

_HEADER = struct.Struct("=7I")
_MODE = struct.Struct("=I")
_ROOM = struct.Struct("=3Q")


def stride(shared_bytes: int) -> int:
    """Bytes from one block's dynamic shared memory to the next one's."""
    return -(-shared_bytes // _ALIGN) * _ALIGN


def run(pool: Pool, function: int, launch: bytes) -> None:
    """Run a grid to its end; `launch` is as for other kernels.

    Raises:
        KernelStopped: threads failed, or wait for others that never come.
    """
    header, args = launch[: _HEADER.size], launch[_HEADER.size + _MODE.size :]
    values = _HEADER.unpack(header)
    blocks, each = prod(values[:3]), stride(values[6])
    handles = np.zeros(blocks, np.uint64)
    outcomes = np.zeros(blocks, np.int32)
    dynamic = np.empty(blocks * each + _ALIGN, np.uint8)
    first = -(-dynamic.ctypes.data // _ALIGN) * _ALIGN
    args += b"\0" * (-len(args) % 8)
    offset = len(header) + _MODE.size + len(args)
    room = args + _ROOM.pack(handles.ctypes.data, outcomes.ctypes.data, first)

    buffer = ctypes.create_string_buffer(header + _MODE.pack(offset) + room)

    def phases(mode: int) -> int:
        _MODE.pack_into(buffer, MODE_AT, offset | mode)
        return pool.run_phases(function, ctypes.addressof(buffer), outcomes.ctypes.data, blocks)

    mode = RESUME
    try:
        while True:
            fault = phases(mode)
            if pool.closing:
                return
            if fault:
                raise crashes.stopped(function, fault)
            if (outcomes >= GAVE_WAY).any():
                mode = GO_ON
                continue
            waiting = outcomes >= WAITS
            if not waiting.any():
                return
            if not waiting.all():
                raise KernelStopped(function, int(outcomes.max()) - WAITS)
            mode = RESUME
    finally:
        if handles.any():
            # What is dropped does not wait.
            outcomes[:] = 0
            phases(DROP)
