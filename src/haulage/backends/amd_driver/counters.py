"""Counters in memory of devices, by which the blocks of a cooperative launch wait for one another.

A kernel with a barrier of its grid gets the address of one as its last argument. Launches that run
at one time need counters of their own; those of one stream come one after the other and leave its
counter as the next one takes it, so a stream has one. A launch that is recorded has its own, for as
long as there is the graph, which can be launched in any stream.
"""

import threading
from collections.abc import Callable

from haulage.backends.amd_driver.graphs import Graphs
from haulage.backends.base import DEVICE
from haulage.backends.gpu_driver.memory import Memory
from haulage.interruption import on_error

# Bytes of a line of a device's cache, so that they do not disturb each other; and of as many as are
# made at one time.
_COUNTER = 128
_PAGE = 64 << 10
# The handle by which each thread means a stream of its own.
_PER_THREAD = 2


class Counters:
    """Gives them out. Their memory is kept to the end of the process. Safe to use from any thread.

    `write` writes to memory of a device, waiting for no other work.
    """

    def __init__(
        self, memory: Memory, write: Callable[[int, int, bytes], None], graphs: Graphs
    ) -> None:
        self._memory = memory
        self._write = write
        self._graphs = graphs
        self._lock = threading.Lock()
        self._free: dict[int, list[int]] = {}
        # The runtime gives a stream's handle to another one when all work of the first is done.
        self._of_stream: dict[tuple[int, int, int], int] = {}

    def of(self, device: int, stream: int) -> int:
        """The address of the counter for a launch in a stream of `device`, which is current."""
        if self._graphs.is_recording(stream):
            with self._lock:
                found = self._new(device)
            self._graphs.keep(stream, lambda: self._free[device].append(found))
            return found
        key = device, stream, threading.get_ident() if stream == _PER_THREAD else 0
        with self._lock:
            known = self._of_stream.get(key)
            if known is None:
                known = self._of_stream[key] = self._new(device)
            return known

    def _new(self, device: int) -> int:
        free = self._free.setdefault(device, [])
        if not free:
            page, host = self._memory.alloc(_PAGE, DEVICE, 0)
            with on_error(self._memory.free, page, host, DEVICE):
                self._write(device, page, bytes(_PAGE))
            free += range(page + _PAGE - _COUNTER, page - 1, -_COUNTER)
        return free.pop()
