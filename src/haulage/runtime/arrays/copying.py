"""What arrays and records on a device have in common: copies from, to and on the device."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from haulage.errors import CaptureError, DeviceMismatch, ShapeMismatch
from haulage.runtime import memory, observing, ordering
from haulage.runtime.arrays import fields, layout, movers, transfer
from haulage.runtime.arrays.address import address_of
from haulage.runtime.arrays.strided import Strided
from haulage.runtime.device import find
from haulage.runtime.stream import Stream
from haulage.runtime.stream_arguments import StreamLike
from haulage.runtime.transfers import host_copy

if TYPE_CHECKING:
    from haulage.runtime.exchange.ipc import IpcArrayHandle


class DeviceNDArrayBase(Strided):
    """Strided memory on a device that can be copied, filled and closed."""

    __slots__ = ()

    # How the compiler, which knows no runtime, tells captured arrays and records of the device.
    _haulage_record_ = False

    # ---- copies -----------------------------------------------------------------------------

    def copy_to_host(self, ary: Any = None, stream: StreamLike = 0) -> Any:
        """Copy to the host, into `ary` or into a new array, which is returned.

        `ary` is a NumPy array, or a SmartArray, which is then current on the host.

        With stream 0 (and no stream bound) the copy is done when this returns. In a stream it is
        done then as well, unless `ary` is pinned: then once the stream is synchronised.

        Raises:
            TypeError: `ary` is neither of both, or has another dtype.
            ShapeMismatch: `ary` has another shape.
            ValueError: `ary` is read-only, or this array is closed.
        """
        if ary is None:
            order: Literal["C", "F"] = "F" if self.layout == "F" else "C"
            target = memory.on_host(np.empty, self.shape, self.dtype, order)
        else:
            if movers.moves_itself(ary):
                return self._copy_to_mover(ary, stream)
            if not isinstance(ary, np.ndarray):
                raise TypeError(
                    f"copy_to_host into a {type(ary).__name__}: expected a NumPy array; "
                    "device arrays take copies by copy_to_device"
                )
            if not ary.flags.writeable:
                raise ValueError("copy_to_host(ary): the host array is read-only")
            target = ary
        shape, strides, steps = self._fit(target)
        chosen = self._stream(stream)
        self.block.use(chosen)
        transfer.move_host(
            target,
            chosen,
            address_of(target),
            steps,
            self.device_pointer,
            strides,
            shape,
            self.dtype.itemsize,
            fields.parts(self.dtype),
            self.block,
            ary is None,
        )
        return target

    def _copy_to_mover(self, array: Any, stream: StreamLike) -> Any:
        self._fit(array)  # before anything moves
        chosen = self._stream(stream)
        if chosen.handle in self.device.capturing:
            raise CaptureError(
                "copy_to_host(ary): a graph would write to a SmartArray unseen; copy outside of "
                "the graph, or into a pinned array"
            )
        with movers.overwritten_on_host(array, "copy_to_host") as host:
            self.copy_to_host(host, stream)
            # To pinned memory the copy may still be on its way.
            if chosen.handle:
                chosen.finish()
        return array

    def copy_to_device(self, ary: Any, stream: StreamLike = 0, context: Any = None) -> None:
        """Copy a host or device array of the same shape and dtype into this one.

        That can be another library's, with DLPack or the CUDA array interface, or on another device
        of the same driver: then it is copied after the work in its default stream, or the one that
        it is bound to. A SmartArray comes to this device if it is not current here, and stays.

        With stream 0 (and no stream bound) the copy is done when this returns. In a stream it is
        done then as well, unless `ary` is pinned or on the device.

        Args:
            context: a device or its context, where a program of numba.roc says on which the array
                is; None says nothing.

        Raises:
            TypeError: `ary` has another dtype.
            ShapeMismatch: `ary` has another shape.
            ValueError: this array is read-only or closed.
            DeviceMismatch: `ary` is on a device of another driver, or this array is not on that of
                `context`.
        """
        if context is not None:
            self._check_context(context)
        self._check_writeable()
        chosen = self._stream(stream)
        if movers.moves_itself(ary):
            self._fit(ary)  # before anything moves
        ary = opened(ary, chosen)
        if isinstance(ary, DeviceNDArrayBase):
            shape, strides, steps = self._fit(ary)
            self._write_device(ary, shape, strides, steps, chosen)
        else:
            host = transfer.host_array(ary)
            shape, strides, steps = self._fit(host)
            self._write_host(host, shape, strides, steps, chosen)

    def _check_context(self, context: Any) -> None:
        # A context has its device, and is not known here.
        place = find(getattr(context, "device", context))
        if place is not self.device:
            raise DeviceMismatch(
                "device array is associated with a different context: expect that of "
                f"{self.device} but got that of {place}"
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "`copy=False` is not possible: NumPy cannot see a device array without a copy"
            )
        host = self.copy_to_host()
        return host if dtype is None else host.astype(dtype, copy=False)

    def get_ipc_handle(self) -> "IpcArrayHandle":
        """A handle, to be pickled, by which other processes open this very memory.

        This process must keep the array alive meanwhile; see `runtime.exchange.ipc`.

        Raises:
            ValueError: it stands on memory that is not the device's own.
            Unsupported: the device cannot share memory between processes.
        """
        from haulage.runtime.exchange import ipc  # which stands on this file

        return ipc.get_ipc_handle(self)

    def fill(self, value: Any, stream: StreamLike = 0) -> None:
        """Set every element to `value`, converted to the dtype as NumPy's assignment does.

        With stream 0 (and no stream bound) it is done when this returns.

        Raises:
            ValueError: the array is read-only or closed, or `value` is no single element.
        """
        self._check_writeable()
        element = converted(value, self.dtype)
        if element.shape:
            raise ValueError(f"fill: a value of shape {element.shape}; expected a single element")
        chosen = self._stream(stream)
        if self._can_fill():
            self._fill(element, chosen)
        else:
            self._write_host(element, self.shape, self.strides, (0,) * self.ndim, chosen, False)

    def close(self) -> None:
        """Give the memory back now, under all views of it; any later use is a ValueError.

        Where others address the memory too, as after `__dlpack__` on the CPU, it lives on until the
        last of them goes.
        """
        self.block.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _write_host(
        self,
        host: np.ndarray,
        shape: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[int],
        stream: Stream,
        told: bool = True,
    ) -> None:
        """Copy from the host; one value to all elements is no transfer to be `told` of."""
        self.block.use(stream)
        sides = (self.device_pointer, strides, address_of(host), steps)
        work = (host, stream, *sides, shape, self.dtype.itemsize, fields.parts(self.dtype))
        if told:
            transfer.move_host(*work, self.block)
        else:
            transfer.move_untold(*work)

    def _write_device(
        self,
        source: "DeviceNDArrayBase",
        shape: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[int],
        stream: Stream,
    ) -> None:
        if source.device is not self.device:
            self._write_from_other(source, shape, strides, steps, stream)
            return
        if self._overlaps(source):
            dense = layout.dense_strides(source.shape, source.strides, self.dtype.itemsize)
            between = _room(stream, source.shape, dense, self.dtype)
            between._write_device(source, source.shape, dense, source.strides, stream)
            steps = layout.broadcast(between.shape, dense, shape)
            source = between
        self.block.use(stream)
        source.block.use(stream)
        transfer.move(
            stream,
            self.device_pointer,
            strides,
            source.device_pointer,
            steps,
            shape,
            self.dtype.itemsize,
            fields.parts(self.dtype),
        )
        if not stream.handle:
            stream.finish()

    def _write_from_other(
        self,
        source: "DeviceNDArrayBase",
        shape: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[int],
        stream: Stream,
    ) -> None:
        """`_write_device` from another device of the driver, which moves whole runs between them.

        Elements that lie apart are gathered and scattered on the device that they are on.
        """
        if source.device.backend is not self.device.backend:
            raise DeviceMismatch(
                f"cannot copy from {source.device} to {self.device} directly; "
                "go by way of the host: a.copy_to_device(b.copy_to_host())"
            )
        itemsize = self.dtype.itemsize
        dense = layout.dense_strides(shape, strides, itemsize)
        theirs = source._stream(0)
        if tuple(steps) != dense:
            between = _room(theirs, tuple(shape), dense, self.dtype)
            between._write_device(source, shape, dense, steps, theirs)
            source = between
        if tuple(strides) == dense and fields.parts(self.dtype) is None:
            self._write_bytes(source, theirs, stream)
        else:
            between = _room(stream, tuple(shape), dense, self.dtype)
            between._write_bytes(source, theirs, stream)
            self._write_device(between, shape, strides, dense, stream)

    def _write_bytes(self, source: "DeviceNDArrayBase", after: Stream, stream: Stream) -> None:
        """Copy all bytes from an array on another device, after the work in `after`, a stream of
        that device; both have no gaps."""
        self.block.use(stream)
        source.block.use(stream)
        ordering.after(stream, after)
        transfer.move(
            stream, self.device_pointer, (1,), source.device_pointer, (1,), (self.nbytes,), 1
        )
        if observing.watchers:
            ends = (source.device_pointer, self.device_pointer)
            host_copy.tell_between(source.device, stream, *ends, self.nbytes)
        if not stream.handle:
            stream.finish()

    def _can_fill(self) -> bool:
        """Whether `_fill` can write one value to all elements."""
        return (
            self.layout != "A"
            and 1 <= self.dtype.itemsize <= 16
            and fields.parts(self.dtype) is None
        )

    def _fill(self, value: np.ndarray, stream: Stream, wait: bool = True) -> None:
        self.block.use(stream)
        if self.size:
            transfer.fill(stream, self.device_pointer, value.tobytes(), self.size)
        if wait and not stream.handle:
            stream.synchronize()

    def _overlaps(self, other: "DeviceNDArrayBase") -> bool:
        if self.block.generation != other.block.generation:
            return False
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        other_low, other_high = layout.extent(other.shape, other.strides, other.dtype.itemsize)
        return (
            self.device_pointer + low < other.device_pointer + other_high
            and other.device_pointer + other_low < self.device_pointer + high
        )

    def _check_writeable(self) -> None:
        if self.readonly:
            raise ValueError(f"{self!r} is read-only; copy it before writing to it")

    def _check_dtype(self, dtype: np.dtype, name: str = "ary") -> None:
        if dtype != self.dtype:
            raise TypeError(
                f"incompatible dtype: {self.dtype} (device) vs. {dtype} ({name}); convert {name} "
                "first, on the host with astype or on the device with a kernel"
            )

    def _fit(
        self, other: "np.ndarray | DeviceNDArrayBase"
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(shape, own strides, strides of `other`) for a copy between them.

        Axes of length 1 are left out where only they differ.
        """
        self._check_dtype(other.dtype)
        if self.shape == other.shape:
            return self.shape, self.strides, other.strides
        shape, strides = layout.squeeze(self.shape, self.strides)
        other_shape, steps = layout.squeeze(other.shape, other.strides)
        if shape != other_shape:
            raise ShapeMismatch(
                f"incompatible shape: {self.shape} (device) vs. {other.shape} (ary); "
                "they can differ in axes of length 1 only"
            )
        return shape, strides, steps


def _room(
    stream: Stream, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
) -> DeviceNDArrayBase:
    """New memory for elements without gaps, for use in a stream."""
    made = object.__new__(DeviceNDArrayBase)
    low, high = layout.extent(shape, strides, dtype.itemsize)
    block = memory.allocate(stream.device, high - low, stream=stream)
    made._set(block, block.device_ptr, shape, strides, dtype, 0, False)
    return made


def opened(value: Any, stream: Stream) -> Any:
    """`value`, or for another library's array one over its memory that copies in `stream` read;
    for a SmartArray its elements on the stream's device."""
    if isinstance(value, (DeviceNDArrayBase, np.ndarray, np.generic, int, float, complex)):
        return value
    from haulage.runtime.exchange import foreign  # which stands on this file

    return foreign.as_source(value, stream) if foreign.is_foreign(value) else value


def converted(value: Any, dtype: np.dtype) -> np.ndarray:
    """`value` as a host array of `dtype`, converted as NumPy's assignment converts."""
    if not isinstance(value, np.ndarray | np.generic):
        return np.array(value, dtype)
    host = transfer.host_array(value)
    if host.dtype == dtype:
        return host
    made = np.empty(host.shape, dtype)
    made[...] = host
    return made
