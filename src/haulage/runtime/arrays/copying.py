"""What arrays and records on a device have in common: copies from, to and on the device."""

from typing import Any, Literal, Self

import numpy as np

from haulage._core.copies import download, set_all, upload
from haulage.errors import CaptureError, DeviceMismatch, ShapeMismatch
from haulage.runtime import memory
from haulage.runtime.arrays.keys import ARRAY, RECORD
from haulage.runtime.buffers import host_copy, transfer
from haulage.runtime.buffers.coherent import is_coherent, overwritten_in
from haulage.runtime.buffers.copy import BETWEEN, Copy
from haulage.runtime.buffers.span import fill
from haulage.runtime.buffers.strided import Strided
from haulage.runtime.devices import ordering
from haulage.runtime.devices.registry import find
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.numpy_arrays import converted, host_array
from haulage.runtime.process import runtime
from haulage.runtime.protocols import offered


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
        done = download(self, ary, stream)
        if done is not None:
            return done
        if ary is None:
            order: Literal["C", "F"] = "F" if self.layout == "F" else "C"
            target = memory.on_host(np.empty, self.shape, self.dtype, order)
            shape, strides, steps = self.shape, self.strides, target.strides
        else:
            if type(ary) is not np.ndarray and is_coherent(ary):
                return self._copy_to_coherent(ary, stream)
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
        made = Copy.to_host(chosen, target, steps, self, strides, shape, ary is None)
        transfer.perform(made)
        return target

    def _copy_to_coherent(self, array: Any, stream: StreamLike) -> Any:
        self._fit(array)  # before anything moves
        chosen = self._stream(stream)
        if chosen.handle in self.device.capturing:
            raise CaptureError(
                "copy_to_host(ary): a graph would write to a SmartArray unseen; copy outside of "
                "the graph, or into a pinned array"
            )
        with overwritten_in(None, array, "copy_to_host") as host:
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
        if upload(self, ary, stream):
            return
        self._check_writeable()
        chosen = self._stream(stream)
        if type(ary) is not np.ndarray:
            if is_coherent(ary):
                self._fit(ary)  # before anything moves
            ary = readable(ary, chosen)
            if isinstance(ary, Strided):
                shape, strides, steps = self._fit(ary)
                self._write_device(ary, shape, strides, steps, chosen)
                return
            ary = host_array(ary)
        shape, strides, steps = self._fit(ary)
        self._write_host(ary, shape, strides, steps, chosen)

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

    @property
    def _code_key(self) -> tuple[Any, ...]:
        """What decides how a kernel is compiled for it; see `launch.kinds.key_of`."""
        dtype = self.dtype
        # Fields of packed records, and memory of others, can lie anywhere.
        aligned = self.device_pointer % dtype.alignment == 0 and (
            self.layout != "A" or dtypes.is_aligned(dtype, 0, self.shape, self.strides)
        )
        if self._haulage_record_:
            return (RECORD, dtype, self.readonly, aligned)
        return (ARRAY, dtype, len(self.shape), self.layout, self.readonly, aligned)

    def get_ipc_handle(self) -> Any:
        """An `IpcArrayHandle`, to be pickled, by which other processes open this very memory.

        This process must keep the array alive meanwhile; see `runtime.exchange.ipc`.

        Raises:
            ValueError: it stands on memory that is not the device's own.
            Unsupported: the device cannot share memory between processes.
        """
        return runtime.current.new_ipc_handle(self)

    def fill(self, value: Any, stream: StreamLike = 0) -> None:
        """Set every element to `value`, converted to the dtype as NumPy's assignment does.

        With stream 0 (and no stream bound) it is done when this returns.

        Raises:
            ValueError: the array is read-only or closed, or `value` is no single element.
        """
        if set_all(self, value, stream):
            return
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
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        steps: tuple[int, ...],
        stream: Stream,
        is_recorded: bool = True,
    ) -> None:
        """Copy from the host; one value to all elements is no transfer to be recorded."""
        self.block.use(stream)
        copy = Copy.to_device(stream, self, strides, host, steps, shape)
        transfer.perform(copy if is_recorded else copy._replace(block=None))

    def _write_device(
        self,
        source: Strided,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        steps: tuple[int, ...],
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
        transfer.enqueue(Copy.within(stream, self, strides, source, steps, shape))
        if not stream.handle:
            stream.finish()

    def _write_from_other(
        self,
        source: Strided,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        steps: tuple[int, ...],
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
        if steps != dense:
            between = _room(theirs, shape, dense, self.dtype)
            between._write_device(source, shape, dense, steps, theirs)
            source = between
        if strides == dense and dtypes.parts(self.dtype) is None:
            self._write_bytes(source, theirs, stream)
        else:
            between = _room(stream, shape, dense, self.dtype)
            between._write_bytes(source, theirs, stream)
            self._write_device(between, shape, strides, dense, stream)

    def _write_bytes(self, source: Strided, after: Stream, stream: Stream) -> None:
        """Copy all bytes from an array on another device, after the work in `after`, a stream of
        that device; both have no gaps."""
        self.block.use(stream)
        source.block.use(stream)
        ordering.after(stream, after)
        ends = self.device_pointer, source.device_pointer
        copy = Copy.of_bytes(BETWEEN, stream, *ends, self.nbytes)
        transfer.enqueue(copy)
        if runtime.current.watchers:
            host_copy.record_between(source.device, copy)
        if not stream.handle:
            stream.finish()

    def _can_fill(self) -> bool:
        """Whether `_fill` can write one value to all elements."""
        return (
            self.layout != "A"
            and 1 <= self.dtype.itemsize <= 16
            and dtypes.parts(self.dtype) is None
        )

    def _fill(self, value: np.ndarray, stream: Stream, wait: bool = True) -> None:
        self.block.use(stream)
        if self.size:
            fill(stream, self.device_pointer, value.tobytes(), self.size)
        if wait and not stream.handle:
            stream.synchronize()

    def _overlaps(self, other: Strided) -> bool:
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
        self, other: np.ndarray | Strided
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(shape, own strides, strides of `other`) for a copy between them.

        Axes of length 1 are left out where only they differ.
        """
        if other.dtype is not self.dtype:
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
    made = DeviceNDArrayBase.__new__(DeviceNDArrayBase)
    low, high = layout.extent(shape, strides, dtype.itemsize)
    block = memory.allocate(stream.device, high - low, stream=stream)
    made._set(block, block.device_ptr, shape, strides, dtype, 0, False)
    return made


def readable(value: Any, stream: Stream) -> Any:
    """`value`, or for another library's array the memory that copies in `stream` read; for a
    SmartArray its elements on the stream's device."""
    if isinstance(value, (Strided, np.ndarray, np.generic, int, float, complex)):
        return value
    return offered.as_source(Strided, value, stream) if offered.is_foreign(value) else value
