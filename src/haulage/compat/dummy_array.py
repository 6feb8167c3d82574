"""`numba.cuda.cudadrv.dummyarray`: shape and strides without memory, by Haulage's arithmetic."""

import itertools
from collections.abc import Iterator, Sequence
from math import prod
from operator import index
from typing import Any, NamedTuple

from haulage.runtime.geometry import layout


class Extent(NamedTuple):
    """Bytes from `begin` up to `end`."""

    begin: int
    end: int


class Element:
    """One element of an `Array`; `extent` says where its bytes are."""

    is_array = False

    def __init__(self, extent: Extent) -> None:
        self.extent = extent

    def iter_contiguous_extent(self) -> Iterator[Extent]:
        """Its extent."""
        yield self.extent


class Dim(NamedTuple):
    """One axis: `size` elements whose bytes begin `stride` apart, the first at `start`."""

    start: int
    stop: int
    size: int
    stride: int
    single: bool = False

    def is_contiguous(self, itemsize: int) -> bool:
        """Whether its elements lie side by side."""
        return self.stride == itemsize


class Array:
    """Shape and strides over bytes that are counted from the begin of some memory.

    Attributes:
        shape, strides, itemsize, ndim, size: as NumPy's, in bytes.
        dims: the same by axes.
        offset: where the element (0, ..., 0) begins.
        extent: the bytes from the lowest to the highest that elements take.
        flags: C_CONTIGUOUS and F_CONTIGUOUS; axes that are repeated are not contiguous.
    """

    is_array = True

    def __init__(self, dims: Sequence[Dim], itemsize: int) -> None:
        self.dims = tuple(dims)
        self.itemsize = itemsize
        self.shape = tuple(dim.size for dim in self.dims)
        self.strides = tuple(dim.stride for dim in self.dims)
        self.offset = sum(dim.start for dim in self.dims)
        self.ndim = len(self.dims)
        self.size = prod(self.shape)
        low, high = layout.extent(self.shape, self.strides, itemsize)
        self.extent = Extent(self.offset + low, self.offset + high)
        whole = not self.dims or self.size == 0 or 0 not in self.strides
        self.flags = {
            "C_CONTIGUOUS": whole and layout.is_c_contiguous(self.shape, self.strides, itemsize),
            "F_CONTIGUOUS": whole and layout.is_f_contiguous(self.shape, self.strides, itemsize),
        }

    @classmethod
    def from_desc(
        cls, offset: int, shape: Sequence[int], strides: Sequence[int], itemsize: int
    ) -> "Array":
        """The array of that shape whose first element begins at `offset`; strides in bytes."""
        starts = itertools.chain((offset,), itertools.repeat(0))
        return cls(
            [
                Dim(start, start + size * stride, index(size), index(stride))
                for start, size, stride in zip(starts, shape, strides, strict=False)
            ],
            itemsize,
        )

    @property
    def is_c_contig(self) -> bool:
        """Whether the elements lie without gaps in C order."""
        return self.flags["C_CONTIGUOUS"]

    @property
    def is_f_contig(self) -> bool:
        """Whether the elements lie without gaps in Fortran order."""
        return self.flags["F_CONTIGUOUS"]

    def __getitem__(self, item: Any) -> "Array | Element":
        """What NumPy's basic indexing selects.

        Raises:
            IndexError: out of bounds, or too many axes.
        """
        offset, shape, strides, one = layout.index(self.shape, self.strides, item)
        begin = self.offset + offset
        if one:
            return Element(Extent(begin, begin + self.itemsize))
        return self._like(begin, shape, strides)

    def iter_contiguous_extent(self) -> Iterator[Extent]:
        """The pieces of memory without gaps that the elements make up."""
        if self.is_c_contig or self.is_f_contig:
            yield self.extent
            return
        # The axes whose elements lie densely, the innermost first; the others are gone through.
        order = sorted(range(self.ndim), key=lambda axis: abs(self.strides[axis]))
        length, outer = self.itemsize, list(range(self.ndim))
        for axis in order:
            if self.strides[axis] != length:
                break
            length *= self.shape[axis]
            outer.remove(axis)
        for indices in itertools.product(*(range(self.shape[axis]) for axis in outer)):
            steps = zip(indices, outer, strict=True)
            begin = self.offset + sum(i * self.strides[axis] for i, axis in steps)
            yield Extent(begin, begin + length)

    def reshape(self, *newdims: int, order: str = "C") -> "tuple[Array, list[Extent] | None]":
        """(the array with another shape, the pieces of memory; None where nothing changes).

        Raises:
            ValueError: the number of elements would change, or `order` is not 'C', 'F' or 'A'.
            NotImplementedError: the elements would have to be copied.
        """
        if newdims == self.shape:
            return self, None
        shape = layout.resolve_shape(self.size, newdims)
        way = self._order(order)
        strides = layout.reshape(self.shape, self.strides, self.itemsize, shape, way)
        if strides is None:
            raise NotImplementedError(
                f"reshape would require copy: {self.shape} with strides {self.strides} to {shape}"
            )
        made = self._like(self.offset, shape, strides)
        return made, list(self.iter_contiguous_extent())

    def squeeze(self, axis: Any = None) -> "tuple[Array, list[Extent]]":
        """(the array without axes of length 1, or without those of `axis`; its pieces of memory).

        Raises:
            ValueError: an axis that is named has another length.
        """
        shape, strides = layout.squeeze(self.shape, self.strides, axis)
        made = self._like(self.offset, shape, strides)
        return made, list(self.iter_contiguous_extent())

    def ravel(self, order: str = "C") -> "tuple[Array, list[Extent]]":
        """(the array with one axis, its pieces of memory).

        Raises:
            NotImplementedError: the elements would have to be copied.
        """
        made, _ = self.reshape(self.size, order=order)
        return made, list(self.iter_contiguous_extent())

    def __repr__(self) -> str:
        return f"<Array shape={self.shape} strides={self.strides} itemsize={self.itemsize}>"

    def _like(self, begin: int, shape: Sequence[int], strides: Sequence[int]) -> "Array":
        if not shape:
            # Without axes there is none to hold the offset.
            made = Array((), self.itemsize)
            made.offset, made.extent = begin, Extent(begin, begin + self.itemsize)
            return made
        return Array.from_desc(begin, shape, strides, self.itemsize)

    def _order(self, order: str) -> str:
        if order not in ("C", "F", "A"):
            raise ValueError(f"order {order!r}: expected 'C', 'F' or 'A'")
        if order == "A":
            return "F" if self.is_f_contig and not self.is_c_contig else "C"
        return order
