"""What is to be copied: a `Copy` is made once, where the program asks for it, and handed on."""

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import Any, NamedTuple

import numpy as np

from haulage.runtime.buffers.strided import Strided
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.dtypes import Parts
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.memory import Block


class Direction(Enum):
    """Between which memories a copy goes."""

    TO_DEVICE = "host to device"
    TO_HOST = "device to host"
    WITHIN = "within a device"
    BETWEEN = "between devices"


# Looked up at each copy, which an Enum's members are slow to be.
TO_DEVICE, TO_HOST, WITHIN, BETWEEN = Direction
# A third of the time of a NamedTuple's own constructor.
_new: Any = tuple.__new__


# The shape of a copy of nothing.
NOTHING = (0,)


class Side(NamedTuple):
    """One end of a copy: the address of the element (0, ..., 0), and strides in bytes."""

    address: int
    strides: tuple[int, ...]


class Copy(NamedTuple):
    """A copy of an n-dimensional region; one of the constructors below makes it.

    Its axes are merged as far as the strides of both sides allow, so that memory without gaps has
    one axis at most; an axis that the target repeats (stride 0) is written once.

    Attributes:
        direction: between which memories.
        stream: that takes it.
        target, source: the strides of the source may be 0.
        shape: of the region, with the merged axes; `NOTHING` where nothing is to be copied.
        itemsize: bytes of an element.
        parts: (offset, bytes) of what is copied of each element; None: all of it.
        size: how many elements the program named.
        host: the host array of a copy to or from the host, else None.
        block: the device's memory of such a copy, for those who record copies; None: not recorded.
        is_new: whether the host array was made for the copy.
    """

    direction: Direction
    stream: Stream
    target: Side
    source: Side
    shape: tuple[int, ...]
    itemsize: int
    parts: Parts | None
    size: int
    host: np.ndarray | None = None
    block: Block | None = None
    is_new: bool = False

    @classmethod
    def to_device(
        cls,
        stream: Stream,
        array: Strided,
        strides: tuple[int, ...],
        host: np.ndarray,
        steps: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> "Copy":
        """From a host array, by its `steps`, to a device array, by `strides`, both in bytes.

        Raises:
            ValueError: the device array repeats an axis along which the host array does not.
        """
        sizes, to, of = _merged(array, strides, steps, shape, strides, steps)
        target = _new(Side, (array.device_pointer, to))
        source = _new(Side, (address_of(host), of))
        what = sizes, array.dtype.itemsize, dtypes.parts(array.dtype), array.size
        return _new(cls, (TO_DEVICE, stream, target, source, *what, host, array.block, False))

    @classmethod
    def to_host(
        cls,
        stream: Stream,
        host: np.ndarray,
        steps: tuple[int, ...],
        array: Strided,
        strides: tuple[int, ...],
        shape: tuple[int, ...],
        is_new: bool,
    ) -> "Copy":
        """To a host array, by its `steps`, from a device array, by `strides`, both in bytes.

        Raises:
            ValueError: the host array repeats an axis along which the device array does not.
        """
        sizes, to, of = _merged(array, strides, steps, shape, steps, strides)
        target = _new(Side, (address_of(host), to))
        source = _new(Side, (array.device_pointer, of))
        what = sizes, array.dtype.itemsize, dtypes.parts(array.dtype), array.size
        return _new(cls, (TO_HOST, stream, target, source, *what, host, array.block, is_new))

    @classmethod
    def within(
        cls,
        stream: Stream,
        array: Strided,
        strides: tuple[int, ...],
        other: Strided,
        steps: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> "Copy":
        """To a device array, by `strides`, from an `other` on its device, by `steps`.

        Raises:
            ValueError: the target repeats an axis along which the source does not.
        """
        sizes, to, of = _merged(array, strides, steps, shape, strides, steps)
        target = _new(Side, (array.device_pointer, to))
        source = _new(Side, (other.device_pointer, of))
        what = sizes, array.dtype.itemsize, dtypes.parts(array.dtype), array.size
        return _new(cls, (WITHIN, stream, target, source, *what, None, None, False))

    @classmethod
    def of_bytes(
        cls,
        direction: Direction,
        stream: Stream,
        target: int,
        source: int,
        nbytes: int,
        host: np.ndarray | None = None,
    ) -> "Copy":
        """Of bytes that lie one behind the other, between two addresses; it is not recorded."""
        ends = Side(target, (1,)), Side(source, (1,))
        return cls(direction, stream, *ends, (nbytes,), 1, None, nbytes, host)

    @property
    def on_device(self) -> Side:
        """The device's side of a copy to or from the host."""
        return self.source if self.direction is TO_HOST else self.target

    @property
    def on_host(self) -> Side:
        """The host's side of a copy to or from the host."""
        return self.target if self.direction is TO_HOST else self.source

    @property
    def nbytes(self) -> int:
        """The bytes of what is copied of the elements that the program named."""
        parts = self.parts
        return self.size * (self.itemsize if parts is None else sum(n for _, n in parts))

    @property
    def written_nbytes(self) -> int:
        """The bytes of the elements that are written, each with all its parts."""
        return prod(self.shape) * self.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether all bytes of all elements lie one behind the other on both sides."""
        flat = (self.itemsize,) * len(self.shape)
        return (
            self.parts is None
            and len(self.shape) < 2
            and self.target.strides == self.source.strides == flat
            and prod(self.shape) == self.size
        )

    def of_part(self, offset: int, nbytes: int) -> "Copy":
        """The copy of so many bytes at an offset of each element."""
        target, source = self.target, self.source
        return self._replace(
            target=Side(target.address + offset, target.strides),
            source=Side(source.address + offset, source.strides),
            itemsize=nbytes,
            parts=None,
        )

    def overlaps(self) -> bool:
        """Whether both sides are the same memory in part."""
        low, high = layout.extent(self.shape, self.target.strides, self.itemsize)
        other_low, other_high = layout.extent(self.shape, self.source.strides, self.itemsize)
        target, source = self.target.address, self.source.address
        return target + low < source + other_high and source + other_low < target + high


def _merged(
    array: Strided,
    strides: tuple[int, ...],
    steps: tuple[int, ...],
    shape: tuple[int, ...],
    to: tuple[int, ...],
    of: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(shape, target's strides, source's strides), with as few axes as there can be.

    Raises:
        ValueError: the target shows one value repeatedly, and the source has different ones.
    """
    itemsize = array.dtype.itemsize
    if not array.size or not itemsize:
        return NOTHING, NOTHING, NOTHING
    if strides == steps and array.layout != "A" and shape is array.shape and array.size > 1:
        # What most copies are: memory without gaps on both sides, in the same order.
        flat = (itemsize,)
        return (array.size,), flat, flat
    sizes: Sequence[int] = shape if all(to) else _written_once(shape, to, of)
    return layout.coalesce(sizes, to, of)


def _written_once(shape: Sequence[int], to: Sequence[int], of: Sequence[int]) -> list[int]:
    """`shape` with 1 for the axes that the target repeats."""
    sizes = list(shape)
    for axis, n in enumerate(shape):
        if n > 1 and to[axis] == 0:
            if of[axis] != 0:
                raise ValueError(
                    f"cannot write {n} values to axis {axis} of the target, which shows one value "
                    "repeatedly (stride 0)"
                )
            sizes[axis] = 1
    return sizes
