"""The elements of a SmartArray: where they lie in a storage, how the host sees them, and views.

Views are what NumPy would make of the shape and strides; making them touches no memory.
"""

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulage._core.coherence import Key, Moving
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.coherence import HOST, Coherence, Mode
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.geometry.ranges import Ranges

# What is to be known of an address, as no dtype asks for more.
MOST_ALIGNED = 64

# What is brought to the host for one element, as its neighbours are mostly asked for next.
_WINDOW = 64 << 10


def _attribute(name: str) -> Any:
    def read(self: "Elements") -> Any:
        return self._seen_as(lambda outline: getattr(outline, name))

    return property(read, doc=f"As `numpy.ndarray.{name}`: a view.")


def _method(name: str) -> Callable[..., Any]:
    def method(self: "Elements", /, *args: Any, **kwargs: Any) -> Any:
        return self._seen_as(lambda outline: getattr(outline, name)(*args, **kwargs))

    method.__doc__ = f"As `numpy.ndarray.{name}`: a view."
    method.__name__ = name
    method.__qualname__ = f"SmartArray.{name}"
    return method


class Elements(Moving):
    """The elements of a strided array in a storage, and views of them.

    The host reads them by `_look` and `_element`, and writes to them inside of `_writing`.

    Attributes:
        coherence: which replicas of the storage are current, and its last transfers with their
            causes. Views share it.
    """

    __slots__ = ("__weakref__",)

    coherence: Coherence
    _dtype: np.dtype
    _offset: int
    _part: Ranges
    _shape: tuple[int, ...]
    _skew: int
    _strides: tuple[int, ...]
    # What launches and Numba ask for, once they have.
    _key: Key | None
    _layout: tuple[np.dtype, int, str, bool, bool] | None
    _typed: dict[bool, Any]
    # Whether the host's memory begins with them, in C order; False, too, if Numba has not asked.
    _is_plain: bool
    # What `get` gave for devices, as long as somebody has it.
    _given: dict[tuple[Device, Mode], weakref.ref[DeviceNDArray]]

    def _set(
        self,
        coherence: Coherence,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        skew: int,
    ) -> None:
        self.coherence = coherence
        self._state = coherence.state
        self._offset = offset
        self._shape = shape
        self._strides = strides
        self._dtype = dtype
        self._skew = skew
        self._typed = {}
        self._given = {}
        low, high = layout.extent(shape, strides, dtype.itemsize)
        self._part = Ranges.of(offset + low, offset + high)

    # ---- what it is -------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._strides

    @property
    def dtype(self) -> np.dtype:
        """What an element is."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def _address_bits(self) -> int:
        return (self._skew + self._offset) % MOST_ALIGNED

    def _is_aligned(self) -> bool:
        return dtypes.is_aligned(self._dtype, self._address_bits(), self._shape, self._strides)

    # ---- on the host ------------------------------------------------------------------------

    def _array(self, room: np.ndarray) -> np.ndarray:
        offset = self._offset if self._part else 0
        return np.ndarray(self._shape, self._dtype, room, offset, self._strides)

    def _look(self, why: str) -> np.ndarray:
        """The current elements on the host, for reading only."""
        flat = self.coherence.acquire_host("r", why, self._part)
        # Not by a flag, which whoever has the view could set again.
        return self._array(np.frombuffer(flat.data.toreadonly(), np.uint8))

    def _element(self, offset: int, why: str) -> Any:
        """The element that lies `offset` bytes after the first one, as a scalar."""
        at = self._offset + offset
        # A loop over elements is not to bring them one by one.
        part = Ranges.of(at, at + self._dtype.itemsize)
        flat = self.coherence.acquire_host("r", why, part, _WINDOW)
        if self._dtype.names is None and self._dtype.subdtype is None:
            return np.ndarray((), self._dtype, flat, at)[()]
        return np.ndarray((), self._dtype, np.frombuffer(flat.data.toreadonly(), np.uint8), at)[()]

    def _borrowed(self, mode: Mode, why: str) -> np.ndarray:
        """The elements on the host, which count as written as long as somebody has the array: the
        current ones, unless the mode is 'w'."""
        if mode == "rw":
            array = self._borrowed_at_once(why)
            if array is not None:
                return array
        return self._array(self.coherence.borrow_host(mode, why, self._part))

    @contextmanager
    def _writing(self, why: str, whole: bool = False) -> Iterator[np.ndarray]:
        """The current elements on the host, to be written to inside of a `with`; or any elements,
        all of which will be written, if `whole`."""
        alone = self.coherence.host_alone(self._part)
        if alone is not None:
            yield self._array(alone)
            return
        array, done = self._acquired_on_host(why, whole)
        written = False
        try:
            yield array
            written = True
        finally:
            done(written)

    def _acquired_on_host(self, why: str, whole: bool) -> tuple[np.ndarray, Callable[[bool], None]]:
        """As for `_writing`, and what is to be called then with whether they were written."""
        coherence, part = self.coherence, self._part
        # What is overwritten as a whole need not come to the host before. Should that fail in its
        # midst, the host's replica is out of date as before.
        overwritten = whole and part.nbytes == self.nbytes and not coherence.is_current(HOST, part)
        mode: Mode = "w" if overwritten else "rw"
        array = self._array(coherence.acquire_host(mode, why, part))

        def done(written: bool) -> None:
            if written or mode == "rw":
                coherence.release(HOST, mode, part=part)
            else:
                coherence.cancel(HOST, part)

        return array, done

    # ---- views ------------------------------------------------------------------------------

    def _over(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
    ) -> Self:
        """A view of the same storage, whose first element is `offset` bytes after this one's."""
        kind = type(self)
        view = kind.__new__(kind)
        view._set(self.coherence, self._offset + offset, shape, strides, dtype, self._skew)
        return view

    def _is_same(self, other: Any) -> bool:
        """Whether another array has the same elements of the same storage."""
        return (
            isinstance(other, Elements)
            and other.coherence is self.coherence
            and (other._offset, other._shape, other._strides, other._dtype)
            == (self._offset, self._shape, self._strides, self._dtype)
        )

    def _outline(self) -> np.ndarray:
        """An array of the same shape, strides and dtype, whose elements must not be touched."""
        skew = self._address_bits()
        room = np.empty(self.dtype.itemsize + MOST_ALIGNED, np.uint8)
        start = (skew - address_of(room)) % MOST_ALIGNED
        return as_strided(np.ndarray((), self.dtype, room, start), self.shape, self.strides)

    def _seen_as(self, view: Callable[[np.ndarray], Any]) -> Any:
        """What `view`, which looks at no element, makes of the array: a view, or several."""
        outline = self._outline()
        return self._traced(view(outline), outline)

    def _traced(self, seen: Any, outline: np.ndarray) -> Any:
        if isinstance(seen, (list, tuple)):
            return type(seen)([self._traced(each, outline) for each in seen])
        assert isinstance(seen, np.ndarray), "elements of an outline are none"
        offset = address_of(seen) - address_of(outline) if seen.size else 0
        return self._over(offset, seen.shape, seen.strides, seen.dtype)

    def _basic(self, key: Any) -> tuple[int, Any, Any, np.dtype, bool] | None:
        """(bytes from the first element on, shape, strides, dtype, whether it is one element) of
        the view that an index selects; None: NumPy copies."""
        if isinstance(key, str) or dtypes.is_names(key):
            outline = self._outline()
            seen = outline[key]
            offset = address_of(seen) - address_of(outline) if seen.size else 0
            return offset, seen.shape, seen.strides, seen.dtype, False
        keys = key if isinstance(key, tuple) else (key,)
        if not all(each is None or each is Ellipsis or _is_basic(each) for each in keys):
            return None
        offset, shape, strides, is_element = layout.index(self.shape, self.strides, key)
        return offset, shape, strides, self.dtype, is_element

    T = _attribute("T")
    mT = _attribute("mT")

    squeeze = _method("squeeze")
    swapaxes = _method("swapaxes")
    transpose = _method("transpose")

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """As `numpy.ndarray.view`: a view; of the host, read-only, for a class of NumPy's."""
        outline = self._outline()
        seen = outline.view(*args, **kwargs)
        if type(seen) is not np.ndarray:
            return self._look("a.view()").view(*args, **kwargs)
        return self._traced(seen, outline)

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        """As `numpy.ndarray.reshape`: a view, or NumPy's copy where the elements do not lie so."""
        sizes = layout.whole_numbers(shape[0] if len(shape) == 1 else shape)
        order = _order("reshape", order, "CFA")
        outline = self._outline()
        if order == "A":
            order = "F" if outline.flags.fnc else "C"
        resolved = layout.resolve_shape(outline.size, sizes)
        strides = layout.reshape(self.shape, self.strides, outline.itemsize, resolved, order)
        if strides is not None and not copy:
            return self._over(0, resolved, strides, self.dtype)
        if copy is False:
            raise ValueError(f"reshape{resolved}: the elements do not lie so; it needs a copy")
        return self._look("a.reshape()").reshape(resolved, order=order).copy(order)

    def ravel(self, order: Any = "C") -> Any:
        """As `numpy.ndarray.ravel`: a view, or NumPy's copy where the elements do not lie so."""
        order, flags = _order("ravel", order, "CFAK"), self._outline().flags
        if order in "AK" and flags.forc:
            order = "F" if flags.fnc else "C"
        # Elements with gaps between them are copied, other than by reshape.
        if not {"C": flags.c_contiguous, "F": flags.f_contiguous}.get(order, False):
            return self._look("a.ravel()").ravel(order)
        return self.reshape(-1, order=order)


def readable(value: Any, why: str) -> Any:
    """`value`, or the current elements on the host, for reading only, of one that has them."""
    return value._look(why) if isinstance(value, Elements) else value


def _order(what: str, order: Any, known: str) -> str:
    if order is None:
        return "C"
    if not isinstance(order, str):
        raise TypeError(f"{what}(order={order!r}): expected a str")
    if len(order) != 1 or order.upper() not in known:
        raise ValueError(f"{what}(order={order!r}): expected one of {', '.join(map(repr, known))}")
    return order.upper()


def _is_basic(key: Any) -> bool:
    if isinstance(key, slice):
        return True
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool)
