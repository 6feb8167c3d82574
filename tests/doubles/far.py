"""A device with memory of its own, as GPUs have, where no GPU is: the processor at addresses that
no host program can use.

Each address of the device is a real one plus `FAR`, which no processor lets a program read. So what
takes a device's address for one of the host, or the other way round, ends in an error here as it
would on a GPU. Copies find their direction by the addresses; those from and to pageable memory of
the host are done when the call returns, as CUDA's are. Kernels are those of the processor: words
of their argument blocks that are addresses of the device become real ones. Captures have the rules
of `doubles.captures`.
"""

import bisect
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from doubles.captures import StrictCaptures
from doubles.processor import NeverOpposed
from haulage import platforms
from haulage.backends.base import DEVICE, Backend, Probe, Properties
from haulage.backends.cpu_driver import copies
from haulage.backends.cpu_driver.adversary import Garbage
from haulage.errors import DeviceError, OutOfMemory
from haulage.platforms import PLATFORMS
from haulage.runtime.devices import registry
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import Driver, Protocols
from haulage.runtime.geometry import layout
from haulage.runtime.process import runtime
from haulage.runtime.protocols.dlpack_structs import CUDA, CUDA_HOST, CUDA_MANAGED

FAR = 0x5A00 << 48
TOTAL = 1 << 30
KIND = "far"


class Ranges:
    """Ranges of addresses that do not overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, nbytes: int) -> None:
        """Add `nbytes` bytes from `start` on, of which none may be there."""
        at = bisect.bisect(self._starts, start)
        before = self._stops[at - 1] if at else 0
        after = self._starts[at] if at < len(self._starts) else start + nbytes
        if start < before or start + nbytes > after:
            raise AssertionError(f"two ranges at {start:#x}")
        self._starts.insert(at, start)
        self._stops.insert(at, start + nbytes)

    def remove(self, start: int) -> int:
        """Take the range away that starts there; how many bytes it had (0: there is none)."""
        at = bisect.bisect_left(self._starts, start)
        if at == len(self._starts) or self._starts[at] != start:
            return 0
        del self._starts[at]
        return self._stops.pop(at) - start

    def cut(self, start: int, stop: int) -> None:
        """Take the bytes from `start` to `stop` away; all of them are there."""
        at = bisect.bisect(self._starts, start) - 1
        while at < len(self._starts) and self._starts[at] < stop:
            first, last = self._starts.pop(at), self._stops.pop(at)
            for low, high in ((first, start), (stop, last)):
                if low < high:
                    self._starts.insert(at, low)
                    self._stops.insert(at, high)
                    at += 1

    def cover(self, start: int, stop: int) -> bool:
        """Whether all bytes from `start` to `stop` are in ranges."""
        at = bisect.bisect(self._starts, start) - 1
        while 0 <= at < len(self._starts) and self._starts[at] <= start < self._stops[at]:
            start = self._stops[at]
            at += 1
            if start >= stop:
                return True
        return start >= stop


class FarBackend(StrictCaptures, NeverOpposed):
    """The driver. There is one device, number 0, with `total` bytes of memory; its addresses are
    the real ones plus `far`, which is `FAR` or more."""

    name = KIND

    def __init__(self, total: int = TOTAL, far: int = FAR) -> None:
        super().__init__()
        self._total = total
        self._far = far
        self._used = 0
        self._guard = threading.Lock()
        self._reached = Ranges()  # by addresses of the device
        self._pinned = Ranges()  # by addresses of the host
        self._garbage_of_device = Garbage(1)

    @classmethod
    def probe(cls) -> Probe:
        """It is always there."""
        return Probe(True, ("a test",), "the processor, with far addresses")

    def properties(self, device: int) -> Properties:
        """The processor's, with memory of its own."""
        found = super().properties(device)
        return dataclasses.replace(
            found,
            name="far device",
            uuid=f"{self._far >> 48:x}-{found.uuid}",
            total_memory=self._total,
            host_memory_is_device_memory=False,
            stages_copies=True,
            figures={**found.figures, "INTEGRATED": 0, "PAGEABLE_MEMORY_ACCESS": 0},
        )

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of its memory."""
        return self._total - self._used, self._total

    # ---- memory -------------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """Memory of the device, which the host cannot address, or of the host, which both can."""
        with self._guard:
            if kind == DEVICE:
                self._check_room(nbytes)
            real = self._memory.alloc(nbytes, kind)
            self._reached.add(real + self._far, nbytes)
            if kind != DEVICE:
                self._pinned.add(real, nbytes)
                return real + self._far, real
            self._used += nbytes
        self._garbage_of_device.into_new(real, nbytes)
        return real + self._far, 0

    def _check_room(self, nbytes: int) -> None:
        free = self._total - self._used
        if nbytes > free:
            raise OutOfMemory(
                f"the far device has no room for {nbytes:,} bytes: {free:,} of "
                f"{self._total:,} bytes are free"
            )

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give memory back.

        Raises:
            DeviceError: it is not what `alloc` gave.
        """
        real = device_ptr - self._far
        expected = 0 if kind == DEVICE else real
        with self._guard:
            nbytes = self._memory.size(real)
            if host_ptr != expected or not nbytes:
                raise DeviceError(f"free({device_ptr:#x}, {host_ptr:#x}, {kind!r}): never given")
            if kind == DEVICE:
                self._garbage_of_device.into_freed(real, nbytes)
            self._memory.free(real, kind)
            self._reached.remove(device_ptr)
            if kind == DEVICE:
                self._used -= nbytes
            else:
                self._pinned.remove(real)

    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        """Pin host memory."""
        if host_ptr >= FAR:
            raise DeviceError(f"register({host_ptr:#x}): no memory of the host")
        with self._guard:
            self._memory.register(host_ptr, nbytes)
            self._pinned.add(host_ptr, nbytes)
            self._reached.add(host_ptr + self._far, nbytes)
        return host_ptr + self._far

    def unregister(self, host_ptr: int) -> None:
        """Undo `register`."""
        with self._guard:
            self._memory.unregister(host_ptr)
            self._pinned.remove(host_ptr)
            self._reached.remove(host_ptr + self._far)

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy between host and device, either way, or within one of them."""
        to, waits = self._real(dst, dst + nbytes)
        of, waits_too = self._real(src, src + nbytes)
        self._submit(stream, waits or waits_too, copies.copy, to, of, nbytes)

    def copy_nd(
        self,
        dst: int,
        dst_strides: Sequence[int],
        src: int,
        src_strides: Sequence[int],
        shape: Sequence[int],
        itemsize: int,
        stream: int,
    ) -> None:
        """Copy an n-d region."""
        low, high = layout.extent(shape, dst_strides, itemsize)
        to, waits = self._real(dst + low, dst + high)
        first, last = layout.extent(shape, src_strides, itemsize)
        of, waits_too = self._real(src + first, src + last)
        given = (to - low, dst_strides, of - first, src_strides, shape, itemsize)
        self._submit(stream, waits or waits_too, copies.copy_nd, *given)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Fill memory of the device."""
        to, _ = self._real(dst, dst + count * len(value))
        if dst < FAR:
            raise DeviceError(f"fill({dst:#x}): no memory of the device")
        self._submit(stream, False, copies.fill, to, value, count)

    def _real(self, start: int, stop: int) -> tuple[int, bool]:
        """(the real address of some bytes, whether they are pageable memory of the host)."""
        if start < FAR:
            return start, not self._pinned.cover(start, stop)
        self._check(start, stop)
        return start - self._far, False

    def _check(self, start: int, stop: int) -> None:
        with self._guard:
            if not self._reached.cover(start, stop):
                raise DeviceError(f"the far device has no memory from {start:#x} to {stop:#x}")

    def _submit(self, stream: int, waits: bool, function: Callable[..., None], *given: Any) -> None:
        self.check_work(function.__name__, stream)
        if not waits:
            self._streams.submit(stream, function, *given)
            return
        done = threading.Event()

        def run() -> None:
            try:
                function(*given)
            finally:
                done.set()

        self._streams.submit(stream, run)
        while not done.wait(0.05):
            pass

    # ---- code ---------------------------------------------------------------------------------

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Run a kernel on the processor."""
        super().launch(function, grid, block, shared_bytes, stream, _real_words(args, self._far))

    def prepare_launch(
        self,
        device: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """As `launch`."""
        header, start = super().prepare_launch(device, function, grid, block, shared_bytes)

        def start_checked(stream: int, args: bytes) -> None:
            self.check_work("launch", stream)
            start(stream, _real_words(args, self._far))

        return header, start_checked

    def check_address(self, address: int, nbytes: int) -> None:
        """See that it is memory of the device."""
        if nbytes:
            self._check(address, address + nbytes)

    def launch_cooperative(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """As `launch`."""
        super().launch_cooperative(
            function, grid, block, shared_bytes, stream, _real_words(args, self._far)
        )

    def ipc_export(self, device_ptr: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """It has none."""
        return Backend.ipc_export(self, device_ptr, nbytes, unit, unit_nbytes)

    def ipc_import(self, handle: bytes) -> tuple[int, int]:
        """It has none."""
        return Backend.ipc_import(self, handle)

    def reserve(self, nbytes: int) -> int:
        """Addresses of the device."""
        return super().reserve(nbytes) + self._far

    def release(self, address: int, nbytes: int) -> None:
        """Give them back."""
        super().release(address - self._far, nbytes)

    def map(self, address: int, nbytes: int) -> None:
        """Put memory of the device behind them."""
        with self._guard:
            self._check_room(nbytes)
            super().map(address - self._far, nbytes)
            self._reached.add(address, nbytes)
            self._used += nbytes
        self._garbage_of_device.into_new(address - self._far, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        """Take it away."""
        self._check(address, address + nbytes)
        with self._guard:
            super().unmap(address - self._far, nbytes)
            self._reached.cut(address, address + nbytes)
            self._used -= nbytes

    # ---- for tests ----------------------------------------------------------------------------

    def written(self, address: int, data: np.ndarray) -> None:
        """Write to memory of the device behind everybody's back."""
        copies.copy(address - self._far, data.ctypes.data, data.nbytes)


def _real_words(args: bytes, far: int) -> bytes:
    """An argument block with real addresses for those of the device."""
    whole = len(args) & -8
    words = np.frombuffer(args[:whole], np.uint64).copy()
    words[words >> 48 == far >> 48] -= np.uint64(far)
    return words.tobytes() + args[whole:]


@functools.cache
def far_device() -> Device:
    """The one far device of the process."""
    return Device(KIND, FarBackend(), 0)


@contextmanager
def registered(device: Device, *others: Device) -> Iterator[Device]:
    """While this holds, `device` is found among the others, and kernels can be made for it; so are
    `others` of the same driver."""
    driver = Driver(
        device.kind,
        FarBackend.probe,
        lambda: device.backend,
        protocols=Protocols(CUDA, CUDA_HOST, CUDA_MANAGED),
    )
    registry.register(driver)
    runtime.current.found[device.kind] = (device, *others)
    PLATFORMS[device.kind] = dataclasses.replace(PLATFORMS["cpu"], name=device.kind)
    try:
        yield device
    finally:
        for table in (runtime.current.drivers, runtime.current.found, platforms.PLATFORMS):
            table.pop(device.kind, None)
