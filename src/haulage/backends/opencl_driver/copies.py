"""Copies and fills: by OpenCL's functions for unified shared memory, or by kernels."""

import ctypes
import threading
from collections.abc import Callable

from haulage.backends.gpu_driver import copies
from haulage.backends.gpu_driver.copies import Rows, shortest
from haulage.backends.gpu_driver.kernels import Kernels
from haulage.backends.gpu_driver.regions import Region
from haulage.backends.opencl_driver import own_kernels
from haulage.backends.opencl_driver.code import Code
from haulage.backends.opencl_driver.contexts import Contexts
from haulage.backends.opencl_driver.devices import PROCESSOR
from haulage.backends.opencl_driver.graphs import Graphs
from haulage.backends.opencl_driver.launches import Launches
from haulage.backends.opencl_driver.memory import Memory
from haulage.backends.opencl_driver.streams import Streams

_PATTERNS = (1, 2, 4, 8, 16)
_TO_HOST = 1


class Copies(copies.Copies):
    """Copies on the calling thread's device. Safe to use from any thread."""

    _contexts: Contexts
    _streams: Streams

    def __init__(
        self,
        contexts: Contexts,
        memory: Memory,
        code: Code,
        streams: Streams,
        launches: Launches,
        graphs: Graphs,
        units: Callable[[int], int],
    ) -> None:
        # Not what the others share, which calls CUDA's functions.
        self._contexts, self._memory, self._streams = contexts, memory, streams
        self._graphs = graphs
        self._kernels = Kernels(
            *(contexts, launches),
            lambda device: code.compile(own_kernels.TEXT, own_kernels.KERNELS, device),
            *(code.function, units),
        )
        self._buffer_lock, self._buffer = threading.Lock(), (0, 0)

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the driver finds the direction by the addresses."""
        if not nbytes:
            return
        name = "clEnqueueMemcpyINTEL"
        call = self._contexts.here().functions[name]

        def command(queue: int, count: int, waits: int | None, event: int) -> int:
            return call(queue, 0, dst, src, nbytes, count, waits, event)

        self._streams.enqueue(stream, name, command, (dst, src, nbytes))

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Write a value again and again."""
        value, count = shortest(value, count)
        if not count:
            return
        size = len(value)
        if size not in _PATTERNS or dst % size:
            self._kernels.fill(dst, value, count, stream)
            return
        name = "clEnqueueMemFillINTEL"
        call = self._contexts.here().functions[name]
        pattern = ctypes.create_string_buffer(value, size)

        def command(queue: int, waiting: int, waits: int | None, event: int) -> int:
            at = ctypes.addressof(pattern)
            return call(queue, dst, at, size, size * count, waiting, waits, event)

        self._streams.enqueue(stream, name, command, (dst, size * count))

    def prefetch(self, address: int, nbytes: int, device: int, stream: int) -> None:
        """Move shared memory to the device, or to the host; on a processor it is at both."""
        name, here = "clEnqueueMigrateMemINTEL", self._contexts.here()
        if here.kind == PROCESSOR:
            return
        call, flags = here.functions[name], _TO_HOST if device < 0 else 0

        def command(queue: int, count: int, waits: int | None, event: int) -> int:
            return call(queue, address, nbytes, flags, count, waits, event)

        self._streams.enqueue(stream, name, command, (address, nbytes))

    def _by_rows(self, what: Region, to: bool, of: bool, stream: int) -> bool:
        return False  # there are no such copies between addresses

    def _rows(self, rows: Rows, stream: int) -> bool:
        return False

    def _planes(self, rows: Rows, planes: int, heights: tuple[int, int], stream: int) -> bool:
        return False
