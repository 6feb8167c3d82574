"""Views of a SmartArray: what NumPy would make of its shape and strides, looking at no memory."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulage.runtime.arrays import fields, layout
from haulage.runtime.arrays.address import address_of

# NumPy's functions that give views of their first argument, one or a list of them.
VIEWS: frozenset[Any] = frozenset(
    (
        *(np.transpose, np.permute_dims, np.matrix_transpose, np.swapaxes, np.moveaxis),
        *(np.rollaxis, np.squeeze, np.expand_dims, np.flip, np.fliplr, np.flipud, np.rot90),
        *(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
        *(np.atleast_1d, np.atleast_2d, np.atleast_3d, np.unstack, np.linalg.matrix_transpose),
    )
)

# Of these, those that take any number of arrays.
SEVERAL: frozenset[Any] = frozenset((np.atleast_1d, np.atleast_2d, np.atleast_3d))


def _reshaped(
    a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    return a.reshape(newshape if shape is None else shape, order=order, copy=copy)


def _cast(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    if device not in (None, "cpu"):
        raise ValueError(f"astype(device={device!r}): NumPy knows 'cpu' only")
    return x.astype(dtype, copy=copy)


# Those that SmartArray has as a method or an attribute, which copies where it has to.
SHAPERS: dict[Any, Callable[..., Any]] = {
    np.reshape: _reshaped,
    np.ravel: lambda a, order="C": a.ravel(order),
    np.astype: _cast,
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
}


@cache
def first_name(func: Callable[..., Any]) -> str:
    """What the first parameter of one of these functions is called."""
    return next(iter(inspect.signature(func).parameters))


def _attribute(name: str) -> Any:
    def read(self: "Views") -> Any:
        return self._seen_as(lambda outline: getattr(outline, name))

    return property(read, doc=f"As `numpy.ndarray.{name}`: a view.")


def _method(name: str) -> Callable[..., Any]:
    def method(self: "Views", /, *args: Any, **kwargs: Any) -> Any:
        return self._seen_as(lambda outline: getattr(outline, name)(*args, **kwargs))

    method.__doc__ = f"As `numpy.ndarray.{name}`: a view."
    method.__name__ = name
    method.__qualname__ = f"SmartArray.{name}"
    return method


class Views:
    """The surface of NumPy's arrays that gives views."""

    __slots__ = ()

    shape: Any
    strides: Any
    dtype: Any

    def _look(self, why: str) -> np.ndarray:
        """The current elements on the host, for reading only."""
        raise NotImplementedError

    def _over(self, offset: int, shape: Any, strides: Any, dtype: np.dtype) -> Any:
        """A view whose first element is `offset` bytes after this one's."""
        raise NotImplementedError

    def _is_same(self, other: Any) -> bool:
        """Whether another array has the same elements of the same memory."""
        raise NotImplementedError

    def _address_bits(self) -> int:
        """The lower bits of the address of the first element."""
        raise NotImplementedError

    def _outline(self) -> np.ndarray:
        """An array of the same shape, strides and dtype, whose elements must not be touched."""
        skew = self._address_bits()
        room = np.empty(self.dtype.itemsize + 64, np.uint8)
        start = (skew - address_of(room)) % 64
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
        if isinstance(key, str) or fields.is_names(key):
            outline = self._outline()
            seen = outline[key]
            offset = address_of(seen) - address_of(outline) if seen.size else 0
            return offset, seen.shape, seen.strides, seen.dtype, False
        keys = key if isinstance(key, tuple) else (key,)
        if not all(each is None or each is Ellipsis or _is_basic(each) for each in keys):
            return None
        offset, shape, strides, is_element = layout.index(self.shape, self.strides, key)
        return offset, shape, strides, self.dtype, is_element

    # ---- as NumPy's -------------------------------------------------------------------------

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
