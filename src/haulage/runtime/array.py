"""Arrays on a device: elements and copies of strided device memory."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from haulage.errors import DeviceMismatch
from haulage.runtime import layout, memory, transfer
from haulage.runtime.device import Device, current_device
from haulage.runtime.memory import Block
from haulage.runtime.stream import Stream, StreamLike, device_of, resolve
from haulage.runtime.strided import Span, Strided


class DeviceNDArray(Strided):
    """An n-dimensional array in the memory of a device.

    Basic indexing gives views that share the memory; the memory is given back when the last of
    them goes. The elements can be read and written by kernels and by copies.

    Args:
        shape: a number or a tuple of numbers.
        strides: bytes from one element to the next, for each axis.
        dtype: anything that `numpy.dtype` takes, without Python objects.
        stream: the stream that copies of this array use where they are given none.
        gpu_data: a `Block` or `Span` to stand on; None allocates one, not initialised.
        device: where to allocate; by default the stream's device or the current one.

    Its attributes and views are those of `Strided`.
    """

    __slots__ = ()

    def __init__(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        strides: SupportsIndex | Sequence[SupportsIndex],
        dtype: Any,
        stream: StreamLike = 0,
        gpu_data: Block | Span | None = None,
        *,
        device: Device | None = None,
    ) -> None:
        sizes = layout.normalise_shape(shape)
        steps = _normalise_strides(strides, sizes)
        kind = transfer.check_dtype(dtype)
        low, high = layout.extent(sizes, steps, kind.itemsize)
        if gpu_data is None:
            place = device or device_of(stream) or current_device()
            bound = resolve(stream, place)
            block = memory.allocate(place, high - low)
            pointer = block.device_ptr - low
        else:
            block = gpu_data if isinstance(gpu_data, Block) else gpu_data.block
            bound = resolve(stream, block.device)
            start = gpu_data.device_ptr if isinstance(gpu_data, Block) else gpu_data.device_pointer
            room = gpu_data.nbytes if isinstance(gpu_data, Block) else gpu_data.size
            pointer = start - low
            if high - low > room:
                raise ValueError(
                    f"an array of shape {sizes} and dtype {kind} takes {high - low} bytes, "
                    f"the memory given has {room}"
                )
        self._set(block, pointer, sizes, steps, kind, bound if bound.handle else 0, False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a device array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a device array without axes")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        return f"<DeviceNDArray shape={self.shape} dtype={self.dtype} on {self.device}>"

    def __reduce__(self) -> Any:
        raise TypeError("a device array cannot be pickled or copied by copy; use copy_to_host()")

    # ---- elements ---------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return self.getitem(key)

    def getitem(self, key: Any, stream: StreamLike = 0) -> Any:
        """A view for a key of basic indexing, or one element as a NumPy scalar (a copy).

        Raises:
            IndexError: the key is out of bounds, a mask or an index array.
        """
        offset, shape, strides, one = layout.index(self.shape, self.strides, key)
        view = self._view(shape, strides, offset=offset)
        return view.copy_to_host(stream=stream)[()] if one else view

    def __setitem__(self, key: Any, value: Any) -> None:
        self.setitem(key, value)

    def setitem(self, key: Any, value: Any, stream: StreamLike = 0) -> None:
        """Write a scalar, a host array or a device array, broadcast to what `key` selects.

        Host values are converted to the array's dtype as NumPy's assignment does.

        Raises:
            IndexError: the key is out of bounds, a mask or an index array.
            TypeError: a device array of another dtype (converting it takes a kernel).
            ValueError: the shapes do not fit, or the array is read-only.
        """
        offset, shape, strides, _ = layout.index(self.shape, self.strides, key)
        target = self._view(shape, strides, offset=offset)
        target._check_writeable()
        if isinstance(value, DeviceNDArray):
            target._check_dtype(value.dtype)
            steps = layout.broadcast(value.shape, value.strides, shape)
            target._write_device(value, shape, strides, steps, self._stream(stream))
            return
        host = _converted(value, self.dtype)
        steps = layout.broadcast(host.shape, host.strides, shape)
        if target.layout != "A" and host.size == 1 and 1 <= self.dtype.itemsize <= 16:
            target._fill(host, self._stream(stream))
        else:
            target._write_host(host, shape, strides, steps, self._stream(stream))

    # ---- copies -----------------------------------------------------------------------------

    def copy_to_host(self, ary: np.ndarray | None = None, stream: StreamLike = 0) -> np.ndarray:
        """Copy to the host, into `ary` or into a new array, which is returned.

        With stream 0 (and no stream bound) the copy is done when this returns. In a stream it is
        done then as well, unless `ary` is pinned: then once the stream is synchronised.

        Raises:
            TypeError: `ary` is no NumPy array, or has another dtype.
            ValueError: `ary` has another shape, or is read-only.
        """
        if ary is None:
            order: Literal["C", "F"] = "F" if self.layout == "F" else "C"
            target = np.empty(self.shape, self.dtype, order=order)
        else:
            if not isinstance(ary, np.ndarray):
                raise TypeError(
                    f"copy_to_host into a {type(ary).__name__}: expected a NumPy array; "
                    "device arrays take copies by copy_to_device"
                )
            if not ary.flags.writeable:
                raise ValueError("copy_to_host: the host array is read-only")
            target = ary
        shape, strides, steps = self._fit(target)
        chosen = self._stream(stream)
        self.block.use(chosen)
        transfer.move_host(
            target,
            chosen,
            transfer.address(target),
            steps,
            self.device_pointer,
            strides,
            shape,
            self.dtype.itemsize,
        )
        return target

    def copy_to_device(self, ary: Any, stream: StreamLike = 0) -> None:
        """Copy a host or device array of the same shape and dtype into this one.

        With stream 0 (and no stream bound) the copy is done when this returns. In a stream it is
        done then as well, unless `ary` is pinned or on the device.

        Raises:
            TypeError: `ary` has another dtype.
            ValueError: `ary` has another shape, or this array is read-only.
            DeviceMismatch: `ary` is on another device.
        """
        self._check_writeable()
        chosen = self._stream(stream)
        if isinstance(ary, DeviceNDArray):
            shape, strides, steps = self._fit(ary)
            self._write_device(ary, shape, strides, steps, chosen)
        else:
            host = np.asarray(ary)
            shape, strides, steps = self._fit(host)
            self._write_host(host, shape, strides, steps, chosen)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a device array cannot be seen by NumPy without a copy")
        host = self.copy_to_host()
        return host if dtype is None else host.astype(dtype, copy=False)

    def close(self) -> None:
        """Give the memory back now, under all views of it; any later use is a ValueError."""
        self.block.close()

    def _write_host(
        self,
        host: np.ndarray,
        shape: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[int],
        stream: Stream,
    ) -> None:
        self.block.use(stream)
        transfer.move_host(
            host,
            stream,
            self.device_pointer,
            strides,
            transfer.address(host),
            steps,
            shape,
            self.dtype.itemsize,
        )

    def _write_device(
        self,
        source: "DeviceNDArray",
        shape: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[int],
        stream: Stream,
    ) -> None:
        if source.device is not self.device:
            raise DeviceMismatch(
                f"cannot copy from {source.device} to {self.device} directly; "
                "go by way of the host: a.copy_to_device(b.copy_to_host())"
            )
        if self._overlaps(source):
            dense = layout.dense_strides(source.shape, source.strides, self.dtype.itemsize)
            between = DeviceNDArray(source.shape, dense, self.dtype, device=self.device)
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
        )
        if not stream.handle:
            stream.synchronize()

    def _fill(self, value: np.ndarray, stream: Stream) -> None:
        self.block.use(stream)
        if self.size:
            self.device.activate()
            self.device.backend.fill(self.device_pointer, value.tobytes(), self.size, stream.handle)
        if not stream.handle:
            stream.synchronize()

    def _overlaps(self, other: "DeviceNDArray") -> bool:
        if self.block is not other.block:
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

    def _check_dtype(self, dtype: np.dtype) -> None:
        if dtype != self.dtype:
            raise TypeError(
                f"incompatible dtype: {self.dtype} (device) vs. {dtype}; convert it first, on the "
                "host with astype or on the device with a kernel"
            )

    def _fit(
        self, other: "np.ndarray | DeviceNDArray"
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
            raise ValueError(
                f"incompatible shape: {self.shape} (device) vs. {other.shape}; "
                "they can differ in axes of length 1 only"
            )
        return shape, strides, steps


def _normalise_strides(
    strides: SupportsIndex | Sequence[SupportsIndex], shape: tuple[int, ...]
) -> tuple[int, ...]:
    given = layout.whole_numbers(strides)
    if len(given) != len(shape):
        raise ValueError(f"strides {given} do not fit shape {shape}: expected one for each axis")
    return given


def _converted(value: Any, dtype: np.dtype) -> np.ndarray:
    """`value` as a host array of `dtype`, converted as NumPy's assignment converts."""
    if not isinstance(value, np.ndarray | np.generic):
        return np.array(value, dtype)
    host = np.asarray(value)
    if host.dtype == dtype:
        return host
    made = np.empty(host.shape, dtype)
    made[...] = host
    return made
