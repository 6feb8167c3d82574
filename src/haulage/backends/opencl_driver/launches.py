"""Starting kernels."""

import ctypes
import threading
from typing import Any

from haulage.backends.gpu_driver import launches
from haulage.backends.gpu_driver.launches import Dims, Launch
from haulage.backends.opencl_driver import spirv
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.code import Code, Kernel
from haulage.backends.opencl_driver.contexts import Contexts
from haulage.backends.opencl_driver.devices import PROCESSOR
from haulage.backends.opencl_driver.memory import Memory
from haulage.backends.opencl_driver.streams import Streams
from haulage.errors import DeviceError

_NAME = "clEnqueueNDRangeKernel"
_Sizes = ctypes.c_size_t * 3


class Launches(launches.Launches):
    """Starts kernels. Safe to use from any thread."""

    def __init__(
        self, calls: Calls, contexts: Contexts, memory: Memory, code: Code, streams: Streams
    ) -> None:
        super().__init__(calls, contexts)
        self._opencl = contexts
        self._memory = memory
        self._code = code
        self._streams = streams
        self._set = calls.function("clSetKernelArg")
        self._enqueue = calls.function(_NAME)
        self._lock = threading.Lock()
        self._counters: dict[int, int] = {}  # of grids, by the stream

    def start(self, device: int, launch: Launch, stream: int) -> None:
        """Start a kernel in a stream, with the block of its arguments."""
        function, grid, block, shared_bytes, args = launch
        kernel = self._code.kernels[function]
        room = ctypes.create_string_buffer(args, len(args) or 1)
        start = ctypes.addressof(room)
        given: list[tuple[int, int | None]] = [
            (size, start + at) for at, size in kernel.parameters.given
        ]
        kept: list[Any] = [room]
        for name, size in kernel.parameters.added:
            if not size:
                given.append((max(shared_bytes, 1), None))
                continue
            value = self._added(kernel, name, block, shared_bytes, stream)
            cell = ctypes.create_string_buffer(value.to_bytes(size, "little"), size)
            kept.append(cell)
            given.append((size, ctypes.addressof(cell)))
        threads = (block[0] * block[1] * block[2], 1, 1) if kernel.parameters.is_row else block
        local = _Sizes(*threads)
        everywhere = _Sizes(*(g * b for g, b in zip(grid, threads, strict=True)))
        sizes = ctypes.addressof(everywhere), ctypes.addressof(local)
        kept += [local, everywhere]
        set_argument, enqueue = self._set, self._enqueue

        def command(
            queue: int, count: int, waits: int | None, event: int, kept: list[Any] = kept
        ) -> int:
            with kernel.lock:
                for index, (size, at) in enumerate(given):
                    status: int = set_argument(function, index, size, at)
                    if status:
                        return status
                status = enqueue(queue, function, 3, None, *sizes, count, waits, event)
                return status

        try:
            self._streams.enqueue(stream, _NAME, command)
        except DeviceError as error:
            if error.code is None:
                raise
            asked = self._asked(_NAME, launch, stream)
            raise self._calls.refused(asked, error.code) from None
        self._calls.last[stream] = function

    def start_cooperative(self, launch: Launch, stream: int) -> None:
        """The same: that its blocks are there at one time has been asked for with the kernel."""
        self.start(self._contexts.device(), launch, stream)

    def most_together(self, function: int, threads: int) -> int:
        """How many blocks of that size the current device runs at one time; 1 where its driver
        does not say.

        On processors Intel's driver tells a number that holds for its own barrier between blocks:
        those that look at a counter in turns wait for one that has not begun.
        """
        device, name = self._opencl.here(), "clGetKernelMaxConcurrentWorkGroupCountINTEL"
        ask = device.functions.get(name)
        if ask is None or device.kind == PROCESSOR:
            return 1
        queue, count = self._streams.find(0).queue, ctypes.c_size_t()
        first, local = _Sizes(0, 0, 0), _Sizes(threads, 1, 1)
        at = (ctypes.addressof(each) for each in (first, local, count))
        status = ask(queue, function, 3, *at)
        if status:
            raise self._calls.failed(name, (function, threads), status)
        return count.value

    def _added(self, kernel: Kernel, name: str, block: Dims, shared: int, stream: int) -> int:
        """The value of an argument that is not the program's."""
        if name == spirv.CHANNEL:
            return kernel.module.address.value
        if name == spirv.MODULE:
            return kernel.module.number.value
        if name == spirv.GRID_COUNTER:
            return self._counter(stream)
        return {spirv.BLOCK_X: block[0], spirv.BLOCK_Y: block[1]}.get(name, shared)

    def _counter(self, stream: int) -> int:
        """32 bits for the barriers of grids, of which a stream runs one at a time."""
        with self._lock:
            of = self._streams.find(stream)
            counter = self._counters.get(of.handle)
            if counter is None:
                counter, host = self._memory.coherent(4)
                ctypes.memset(host, 0, 4)
                self._counters[of.handle] = counter
            return counter
