"""Strided memory on a device: shape, strides and dtype over a block, and its views."""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, Self, SupportsIndex

import numpy as np

from haulage._core.geometry import know_integers
from haulage._core.views import StridedBase
from haulage.checks import one_of
from haulage.errors import noted
from haulage.runtime.buffers.span import Span
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, for_work, resolve
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.memory import Block

_COPYING = (
    "operation requires copying: {what} of an array of shape {shape} with strides {strides} "
    "cannot be a view; copy it into device_array_like(a) first"
)


# What `Strided` keeps, and a view has values of its own for.
ATTRIBUTES = (
    *("block", "device", "device_pointer", "dtype", "layout"),
    *("readonly", "shape", "size", "stream", "strides"),
)


class Strided(StridedBase):
    """Shape, strides and dtype over a block of device memory; nothing in it moves bytes.

    Attributes:
        device: its `Device`.
        device_pointer: address of the element (0, ..., 0).
        shape, strides, dtype, size: as NumPy's.
        block: the `Block` that it stands on.
        readonly: whether writing to it is refused.
        layout: 'C', 'F' or 'A', as Numba's array types name it.
        stream: the stream that it is bound to, or 0.
    """

    __slots__ = ()

    device: Device
    device_pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    size: int
    block: Block
    readonly: bool
    layout: str
    stream: Stream | int

    __cuda_memory__ = True
    __cuda_ndarray__ = True
    __hsa_memory__ = True
    __hsa_ndarray__ = True

    def _protect(self) -> None:
        """Make it read-only."""
        # Records take plain assignment for fields.
        object.__setattr__(self, "readonly", True)

    def _stream(self, stream: StreamLike) -> Stream:
        # 0 and None mean the stream that the array is bound to; a stream object means itself.
        return for_work(stream, self.device, self.stream)

    def _binding(self, stream: StreamLike) -> Stream | int:
        """What a view is bound to that was asked for with an argument `stream`."""
        chosen = self._stream(stream)
        return chosen if chosen.handle else 0

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def alloc_size(self) -> int:
        """Bytes from the first to the last byte that the elements take."""
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        return high - low

    @property
    def gpu_data(self) -> Span:
        """The memory that it stands on."""
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        return Span(self.block, self.device_pointer + low, high - low)

    @property
    def dgpu_data(self) -> Span:
        """The same, as numba.roc calls it."""
        return self.gpu_data

    def as_hsa_arg(self) -> Span:
        """The same once more."""
        return self.gpu_data

    @property
    def device_ctypes_pointer(self) -> ctypes.c_size_t:
        """The address of the element (0, ..., 0) as a ctypes integer; 0 if there are no bytes.

        Raises:
            ValueError: the array is closed.
        """
        self.block.use()
        return ctypes.c_size_t(self.device_pointer)

    @property
    def flags(self) -> dict[str, bool]:
        """NumPy's names: C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE."""
        return {
            "C_CONTIGUOUS": self.is_c_contiguous(),
            "F_CONTIGUOUS": self.is_f_contiguous(),
            "WRITEABLE": not self.readonly,
        }

    def is_c_contiguous(self) -> bool:
        """Whether the elements lie without gaps in C order."""
        return self.layout == "C"

    def is_f_contiguous(self) -> bool:
        """Whether the elements lie without gaps in Fortran order."""
        return self.layout == "F" or layout.is_f_contiguous(
            self.shape, self.strides, self.dtype.itemsize
        )

    # ---- views ------------------------------------------------------------------------------

    def bind(self, stream: StreamLike = 0) -> Self:
        """The same array, whose copies use `stream` where they are given none."""
        bound = resolve(stream, self.device)
        return self._view(self.shape, self.strides, stream=bound if bound.handle else 0)

    @property
    def T(self) -> Self:
        """The view with the axes reversed."""
        return self.transpose()

    def transpose(self, *order: Any, axes: Any = None) -> Self:
        """The view with the axes in another order (none given: reversed); nothing is copied.

        The order is one tuple, which can be named `axes`, or the numbers themselves.

        Raises:
            ValueError: `axes` does not name each axis once.
        """
        if order and axes is not None:
            raise TypeError(f"transpose: axes {axes!r} given twice; give a tuple, or the numbers")
        if len(order) == 1 and not hasattr(order[0], "__index__"):
            axes = order[0]
        elif order:
            axes = order
        return self._view(*layout.transpose(self.shape, self.strides, axes))

    def reshape(self, *newshape: Any, order: str = "C") -> Self:
        """A view with another shape; one number can be -1. `order` is 'C', 'F' or 'A'.

        Raises:
            ValueError: the number of elements would change.
            NotImplementedError: the elements would have to be copied.
        """
        return self._reshaped(newshape[0] if len(newshape) == 1 else newshape, order)

    def _reshaped(self, asked: Any, order: str, stream: Stream | int | None = None) -> Self:
        try:
            sizes = layout.whole_numbers(asked)
        except TypeError:
            raise TypeError(
                f"reshape to {asked!r}: expected a whole number or a tuple of them"
            ) from None
        shape = layout.resolve_shape(self.size, sizes)
        way = self._order(order)
        strides = layout.reshape(self.shape, self.strides, self.dtype.itemsize, shape, way)
        if strides is None:
            raise NotImplementedError(
                _COPYING.format(
                    what=f"the new shape {shape}", shape=self.shape, strides=self.strides
                )
            )
        return self._view(shape, strides, stream=stream)

    def ravel(self, order: str = "C", stream: StreamLike = 0) -> Self:
        """The view with one axis, bound to `stream` if one is given.

        Raises:
            NotImplementedError: the elements would have to be copied.
        """
        return self._reshaped(self.size, order, self._binding(stream))

    def squeeze(
        self, axis: SupportsIndex | Sequence[SupportsIndex] | None = None, stream: StreamLike = 0
    ) -> Self:
        """The view without its axes of length 1 (or without those of `axis`).

        Raises:
            ValueError: an axis that was named has another length.
        """
        shape, strides = layout.squeeze(self.shape, self.strides, axis)
        return self._view(shape, strides, stream=self._binding(stream))

    def view(self, dtype: Any) -> Self:
        """The same bytes as elements of another dtype, by NumPy's rules.

        Raises:
            ValueError: the last axis has gaps, or its bytes do not make whole elements.
        """
        new = dtypes.check_dtype(dtype)
        old = self.dtype.itemsize
        if new.itemsize == old:
            return self._view(self.shape, self.strides, dtype=new)
        gaps = self.size and self.shape and self.shape[-1] != 1 and self.strides[-1] != old
        if not self.shape or not new.itemsize or gaps:
            raise ValueError(
                "To change to a dtype of a different size, the last axis must be contiguous: "
                f"cannot view {self!r} with strides {self.strides} as {new}"
            )
        count, rest = divmod(self.shape[-1] * old, new.itemsize)
        if rest:
            which = "larger" if new.itemsize > old else "smaller"
            raise noted(
                ValueError(
                    f"When changing to a {which} dtype, its size must be a divisor of the total "
                    "size in bytes of the last axis of the array."
                ),
                f"cannot view {self!r} as {new}: the last axis has {self.shape[-1] * old} bytes",
            )
        return self._view((*self.shape[:-1], count), (*self.strides[:-1], new.itemsize), dtype=new)

    def split(self, section: int, stream: StreamLike = 0) -> Iterator[Self]:
        """Views of `section` elements each of an array with one axis; the last can be shorter.

        They are bound to `stream` if one is given.
        """
        starts = layout.sections(self.shape, section)
        bound = self._stream(stream)
        step = self.strides[0]
        return (
            self._view(
                (min(section, self.size - start),), (step,), offset=start * step, stream=bound
            )
            for start in starts
        )

    def _order(self, order: str) -> str:
        if one_of(order, "order", ("C", "F", "A")) == "A":
            return "F" if self.layout == "F" else "C"
        return order


know_integers(
    frozenset({np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64})
)
