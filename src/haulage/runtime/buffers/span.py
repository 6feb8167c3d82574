"""A part of a block of device memory, and the memory that an array is given to stand on."""

import ctypes
import sys
from typing import Any

from haulage.checks import whole_number
from haulage.runtime.devices.capture import check_takes_work
from haulage.runtime.devices.device import Handle
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, for_work
from haulage.runtime.memory import Block
from haulage.runtime.process import observing, runtime


class Span:
    """A part of a block: what `DeviceNDArray.gpu_data` gives.

    Two are equal if they are the same bytes. The memory lives as long as one of them does.

    Attributes:
        block: the block of memory.
        device_pointer: address of the first byte.
        size: number of bytes.
    """

    __slots__ = ("__weakref__", "block", "device_pointer", "size")

    # By which numba's programs tell memory of the device.
    __cuda_memory__ = True

    def __init__(self, block: Block, device_pointer: int, size: int) -> None:
        self.block = block
        self.device_pointer = Handle(device_pointer)
        self.size = size

    @property
    def device_ctypes_pointer(self) -> ctypes.c_size_t:
        """The address as a ctypes integer."""
        return ctypes.c_size_t(self.device_pointer)

    @property
    def device_pointer_value(self) -> int:
        """The address."""
        return self.device_pointer

    @property
    def handle(self) -> Handle:
        """The address, by another name of numba's."""
        return self.device_pointer

    @property
    def owner(self) -> "Span":
        """The whole block that it is a part of."""
        return Span(self.block, self.block.device_ptr, self.block.nbytes)

    @property
    def refct(self) -> int:
        """How many arrays, views and pieces of memory keep the block alive, itself counted."""
        # What `getrefcount` is called with is one more.
        return sys.getrefcount(self.block) - 1

    def own(self) -> "Span":
        """Itself: it keeps the memory alive already."""
        return self

    def view(self, start: int, stop: int | None = None) -> "Span":
        """The bytes from `start` up to `stop` (None: to the end) of it.

        Raises:
            ValueError: they are not all in it.
        """
        start = whole_number(start, "start")
        end = self.size if stop is None else whole_number(stop, "stop")
        if not 0 <= start <= end <= self.size:
            raise ValueError(f"bytes {start} to {end} of {self.size}: expected a part of them")
        return Span(self.block, self.device_pointer + start, end - start)

    def memset(self, byte: int, count: int | None = None, stream: StreamLike = 0) -> None:
        """Set the first `count` bytes (None: all) to `byte` in `stream`.

        With stream 0 it is done when this returns.

        Raises:
            ValueError: `byte` is not one of 0 to 255, there are not as many bytes, or the memory
                is closed.
        """
        byte = whole_number(byte, "memset: byte", 0, 255)
        part = self.view(0, count)
        chosen = for_work(stream, self.block.device)
        self.block.use(chosen)
        if part.size:
            fill(chosen, part.device_pointer, bytes([byte]), part.size)
        if not chosen.handle:
            chosen.finish()

    def free(self) -> None:
        """Give the whole block back now, as `close()` of an array does."""
        host_checker = runtime.current.host_checker
        if host_checker is not None and self.block.closed:
            host_checker.freed_again(self.block)
        self.block.close()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Span):
            return NotImplemented
        return (self.block, self.device_pointer, self.size) == (
            other.block,
            other.device_pointer,
            other.size,
        )

    def __hash__(self) -> int:
        return hash((self.device_pointer, self.size))

    def __repr__(self) -> str:
        return f"<{self.size} bytes at {self.device_pointer:#x} of {self.block!r}>"


def block_of_gpu_data(
    gpu_data: Block | Span | None, writeback: Any = None
) -> tuple[Block, int, int] | None:
    """(block, device address, bytes) of the memory that an array was given to stand on, if any.

    `writeback` stood before `gpu_data` in numba up to 0.53, where it had no meaning any more; so
    memory given in its place counts.

    Raises:
        TypeError: something else was given.
    """
    if gpu_data is None:
        gpu_data = writeback
    elif writeback is not None:
        raise TypeError(f"writeback {writeback!r} is not supported; leave it out")
    if gpu_data is None:
        return None
    if isinstance(gpu_data, Block):
        return gpu_data, gpu_data.device_ptr, gpu_data.nbytes
    if not isinstance(gpu_data, Span):
        # What a context gives for memory that the host addresses too is an array of bytes.
        gpu_data = getattr(gpu_data, "gpu_data", gpu_data)
    if isinstance(gpu_data, Span):
        return gpu_data.block, gpu_data.device_pointer, gpu_data.size
    raise TypeError(f"gpu_data {gpu_data!r}: expected memory of a device array, as its gpu_data")


def fill(stream: Stream, target: int, value: bytes, count: int) -> None:
    """Write `value`, a whole element of 1 to 16 bytes, `count` times from `target` on."""
    backend = stream.device.backend
    if stream.device.capturing:
        check_takes_work(stream)
    stream.device.activate()
    watching = runtime.current.observer
    if watching is None:
        backend.fill(target, value, count, stream.handle)
    else:
        work = (backend.fill, target, value, count, stream.handle)
        nbytes = count * len(value)
        watching.around(stream.device, stream.handle, observing.FILL, "", nbytes, *work)
