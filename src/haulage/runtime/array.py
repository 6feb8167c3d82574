"""Arrays on a device: elements and copies of strided device memory."""

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

from haulage.runtime import layout, memory, transfer
from haulage.runtime.copying import DeviceNDArrayBase, converted
from haulage.runtime.device import Device, current_device
from haulage.runtime.memory import Block
from haulage.runtime.stream import StreamLike, device_of, resolve
from haulage.runtime.strided import Span, given_memory


class DeviceNDArray(DeviceNDArrayBase):
    """An n-dimensional array in the memory of a device.

    Basic indexing gives views that share the memory; the memory is given back when the last of
    them goes. The elements can be read and written by kernels and by copies.

    Args:
        shape: a number or a tuple of numbers.
        strides: bytes from one element to the next, for each axis.
        dtype: anything that `numpy.dtype` takes, without Python objects.
        stream: the stream that copies of this array use where they are given none.
        gpu_data: a `Block` or `Span` to stand on; None allocates one, not initialised.
        writeback: has no meaning any more; see `strided.given_memory`.
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
        writeback: Any = None,
        *,
        device: Device | None = None,
    ) -> None:
        sizes = layout.normalise_shape(shape)
        steps = _normalise_strides(strides, sizes)
        kind = transfer.check_dtype(dtype)
        low, high = layout.extent(sizes, steps, kind.itemsize)
        given = given_memory(gpu_data, writeback)
        if given is None:
            place = device or device_of(stream) or current_device()
            bound = resolve(stream, place)
            block = memory.allocate(place, high - low)
            pointer = block.device_ptr - low
        else:
            block, start, room = given
            bound = resolve(stream, block.device)
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
        host = converted(value, self.dtype)
        steps = layout.broadcast(host.shape, host.strides, shape)
        if target.layout != "A" and host.size == 1 and 1 <= self.dtype.itemsize <= 16:
            target._fill(host, self._stream(stream))
        else:
            target._write_host(host, shape, strides, steps, self._stream(stream))


def _normalise_strides(
    strides: SupportsIndex | Sequence[SupportsIndex], shape: tuple[int, ...]
) -> tuple[int, ...]:
    given = layout.whole_numbers(strides)
    if len(given) != len(shape):
        raise ValueError(f"strides {given} do not fit shape {shape}: expected one for each axis")
    return given
