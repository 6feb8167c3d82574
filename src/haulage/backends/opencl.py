"""Devices of OpenCL: of drivers that take SPIR-V and have Intel's unified shared memory."""

import functools
from collections.abc import Callable
from typing import NoReturn

from haulage.backends.base import ADVICE, Backend, Probe
from haulage.backends.gpu_driver.backend import GPUBackend, started
from haulage.backends.gpu_driver.channel import Channels
from haulage.backends.gpu_driver.ending import Ending
from haulage.backends.gpu_driver.giving import Giving
from haulage.backends.opencl_driver import figures, looking
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.code import Code, write
from haulage.backends.opencl_driver.contexts import Contexts
from haulage.backends.opencl_driver.copies import Copies
from haulage.backends.opencl_driver.graphs import Graphs
from haulage.backends.opencl_driver.launches import Launches
from haulage.backends.opencl_driver.memory import Memory
from haulage.backends.opencl_driver.streams import Streams
from haulage.errors import Unsupported


class OpenCLBackend(GPUBackend):
    """OpenCL, by ctypes on its loader. Devices that cannot be used have no number; GPUs come first.

    Raises:
        DeviceError: there is no loader.
    """

    name = "opencl"

    _calls: Calls
    _code: Code
    _memory: Memory
    _streams: Streams
    _launches: Launches
    _copies: Copies

    def __init__(self) -> None:
        # Not the parts of the others, which are made of CUDA's calls.
        calls = self._calls = Calls()
        self._properties = functools.cache(
            lambda device: figures.properties(calls, calls.devices[device])
        )
        contexts = self._contexts = Contexts(calls)
        self._give = Giving(calls, contexts)
        self._memory = Memory(calls, contexts)
        self._streams = Streams(calls, contexts)
        self._channels = Channels(calls, self._memory.coherent, write)
        self._code = code = Code(calls, self._channels, contexts)
        self._launches = Launches(calls, contexts, self._memory, code, self._streams)
        self._graphs = graphs = Graphs(calls, self._streams)
        self._copies = Copies(
            *(contexts, self._memory, code, self._streams, self._launches, graphs),
            lambda device: self.properties(device).multiprocessors,
        )
        self._ending = Ending(calls, contexts, self._streams)
        started(self)

    # ---- devices ------------------------------------------------------------------------------

    @classmethod
    def probe(cls) -> Probe:
        """The loader, its platforms and their devices, and why one cannot be used."""
        return looking.probe()

    def count(self) -> int:
        """Those that can be used, of all platforms."""
        return len(self._calls.devices)

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        self._streams.synchronize_device()
        self._raise_failures(None)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes; of a GPU this process's part alone is known."""
        return self._memory.info()

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """clMemFreeINTEL."""
        self._give(self._memory.free, device_ptr, host_ptr, kind)

    def unregister(self, host_ptr: int) -> None:
        """Nothing: `register` changes nothing."""

    # ---- may ----------------------------------------------------------------------------------

    # What is not asked in compiled code, nor prepared.
    idle_query = Backend.idle_query
    prepare_launch = Backend.prepare_launch
    stream_priorities = Backend.stream_priorities

    def stream_callback(self, stream: int, callback: Callable[[], object]) -> None:
        """Call `callback()` on a thread of Haulage's, in which the device cannot be used."""
        self._streams.callback(stream, callback)

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """One block: OpenCL does not tell what a compute unit runs at one time."""
        return self._code.occupancy(function, threads, shared_bytes)

    def max_cooperative_blocks(
        self, function: int, threads: int, shared_bytes: int, block_bytes: int
    ) -> int:
        """clGetKernelMaxConcurrentWorkGroupCountINTEL; one block where the driver has no such."""
        return self._launches.most_together(function, threads)

    def ipc_export(self, device_ptr: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """Unsupported."""
        self._not_shared("ipc_export")

    def ipc_export_of_others(self, device_ptr: int) -> tuple[bytes, int]:
        """Unsupported."""
        self._not_shared("ipc_export_of_others")

    ipc_withdraw = Backend.ipc_withdraw

    def ipc_import(self, handle: bytes) -> tuple[int, int]:
        """Unsupported."""
        self._not_shared("ipc_import")

    def ipc_close(self, device_ptr: int) -> None:
        """Unsupported."""
        self._not_shared("ipc_close")

    def _not_shared(self, method: str) -> NoReturn:
        raise Unsupported(
            f"the opencl back end has no {method}: OpenCL has no handle by which another process "
            "could open memory; copy to memory of the host that processes share"
        )

    can_access_peer = Backend.can_access_peer
    peer_enable = Backend.peer_enable

    def prefetch(self, device_ptr: int, nbytes: int, device: int, stream: int) -> None:
        """clEnqueueMigrateMemINTEL."""
        self._copies.prefetch(device_ptr, nbytes, device, stream)

    def advise(self, device_ptr: int, nbytes: int, advice: str, device: int) -> None:
        """Nothing: OpenCL has no words for advice, each driver its own numbers."""
        assert advice in ADVICE

    # There are no addresses without memory.
    granularity = Backend.granularity
    reserve = Backend.reserve
    release = Backend.release
    map = Backend.map
    unmap = Backend.unmap

    # ---- the end of the process -----------------------------------------------------------------

    def _finish(self) -> None:
        """Wait for all work: a driver that is unloaded while kernels run ends the process badly."""
        if not self._contexts.forked:
            self._ending.wait()
