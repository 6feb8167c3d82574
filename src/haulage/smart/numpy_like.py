"""What makes a SmartArray stand in for a NumPy array: operators, methods, NumPy's functions.

What gives a view in NumPy gives one here, and moves nothing. All else works on the host's elements:
what reads gets a read-only view of them, what writes has the host acquired for writing, and results
are NumPy arrays and scalars.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

import numpy as np

from haulage.smart.flat import Flat
from haulage.smart.operators import Operators, seen
from haulage.smart.views import SEVERAL, SHAPERS, VIEWS, Views, first_name

# Functions that write to an argument -> its name; it comes first.
_WRITES: dict[Any, str] = {
    np.copyto: "dst",
    np.fill_diagonal: "a",
    np.place: "arr",
    np.put: "a",
    np.put_along_axis: "arr",
    np.putmask: "a",
}
# Functions that look at no elements, or not at those of their first argument.
_ABOUT = frozenset([np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj])
_OF_DTYPES = frozenset([np.result_type, np.can_cast])
_LIKE: dict[Any, str] = {
    np.empty_like: "prototype",
    np.zeros_like: "a",
    np.ones_like: "a",
    np.full_like: "a",
}


# Where functions take `out` that tell no signature in each version of NumPy.
_OUTS: dict[Any, int] = {
    np.busday_count: 5,
    np.busday_offset: 6,
    np.concatenate: 2,
    np.dot: 2,
    np.is_busday: 4,
}


@cache
def _out_at(func: Callable[..., Any]) -> int:
    """Which argument of a function of NumPy's `out` is if it has no name; more than there are, if
    it cannot be given so."""
    if func in _OUTS:
        return _OUTS[func]
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return sys.maxsize
    for number, each in enumerate(parameters):
        if each.name == "out" and each.kind is not each.KEYWORD_ONLY:
            return number
    return sys.maxsize


class Flags:
    """The flags of an array, as attributes and by name; they cannot be set."""

    __slots__ = ("_flags",)

    def __init__(self, flags: Any) -> None:
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flags, name)

    def __getitem__(self, name: str) -> bool:
        return self._flags[name]

    def __repr__(self) -> str:
        return repr(self._flags)


def _reader(name: str, out_at: int | None = None) -> Callable[..., Any]:
    """The method `name` of NumPy's arrays, which reads the elements; `out` can be given by name, or
    as the argument with the number `out_at`."""

    def method(self: "NumpyLike", /, *args: Any, **kwargs: Any) -> Any:
        call = getattr(self._look(f"a.{name}()"), name)
        values = list(args)
        at: Any = out_at if out_at is not None and out_at < len(args) else "out"
        given = kwargs if at == "out" else values
        out = kwargs.get("out") if at == "out" else args[at]
        if not isinstance(out, NumpyLike):
            return call(*args, **kwargs)
        with out._writing(f"a.{name}(out=...)") as target:
            given[at] = target
            result = call(*values, **kwargs)
        return out if result is target else result

    return _named(method, name)


def _writer(name: str, whole: bool = False) -> Callable[..., Any]:
    """The method `name` of NumPy's arrays, which writes to the elements: to all, if `whole`."""

    def method(self: "NumpyLike", /, *args: Any, **kwargs: Any) -> Any:
        with self._writing(f"a.{name}()", whole) as array:
            return getattr(array, name)(*args, **kwargs)

    return _named(method, name)


def _named(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__ = name
    method.__qualname__ = f"SmartArray.{name}"
    method.__doc__ = f"As `numpy.ndarray.{name}`, on the host."
    return method


def _part(name: str) -> Any:
    """The attribute `real` or `imag` of NumPy's arrays: a view, where there are such elements."""

    def read(self: "NumpyLike") -> Any:
        if name == "imag" and self.dtype.kind != "c":
            return self._look("a.imag").imag
        return self._seen_as(lambda outline: getattr(outline, name))

    def write(self: "NumpyLike", value: Any) -> None:
        why = f"a.{name} = ..."
        value = seen(value, why)
        with self._writing(why) as array:
            setattr(array, name, value)

    return property(read, write, doc=f"As `numpy.ndarray.{name}`: a view.")


class NumpyLike(Views, Operators):
    """The surface of NumPy's arrays on top of a look at the elements and a way to write them."""

    __slots__ = ()

    def _look(self, why: str) -> np.ndarray:
        """The current elements on the host, for reading only."""
        raise NotImplementedError

    def _writing(self, why: str, whole: bool = False) -> AbstractContextManager[np.ndarray]:
        """The current elements on the host, to be written to inside a `with`; or any elements, all
        of which will be written, if `whole`."""
        raise NotImplementedError

    def _element(self, offset: int, why: str) -> Any:
        """The element that lies `offset` bytes after the first one, as a scalar."""
        raise NotImplementedError

    # ---- what it is -------------------------------------------------------------------------

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

    @property
    def flags(self) -> Flags:
        """NumPy's flags, such as the order of the axes; they cannot be set."""
        return Flags(self._outline().flags)

    # ---- NumPy's functions ------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        why = f"numpy.{ufunc.__name__}"
        given = kwargs.pop("out", ())
        # Numba's ufuncs hand on what they were given; NumPy's make a tuple of `out`.
        if not isinstance(given, tuple):
            given = (given,)
        if method == "__call__":
            inputs, given = inputs[: ufunc.nin], inputs[ufunc.nin :] or given
        with ExitStack() as acquired:
            if method == "at":
                target, *others = inputs
                rest = [seen(value, why) for value in others]
                return ufunc.at(_target(target, acquired, why), *rest, **kwargs)
            values = [seen(value, why) for value in inputs]
            if "where" in kwargs:
                kwargs["where"] = seen(kwargs["where"], why)
            # A ufunc with a signature of its own may leave elements out or read what was there.
            elementwise = method == "__call__" and ufunc.signature is None
            whole = elementwise and kwargs.get("where", True) is True
            if given:
                kwargs["out"] = tuple(_target(out, acquired, why, whole) for out in given)
            result = getattr(ufunc, method)(*values, **kwargs)
        if not given:
            return result
        results = result if isinstance(result, tuple) else (result,)
        made = tuple(
            out if isinstance(out, NumpyLike) else new
            for out, new in zip(given, results, strict=True)
        )
        return made if len(made) > 1 else made[0]

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        plain = np.ndarray.__array_function__
        if any(
            not issubclass(kind, NumpyLike) and kind.__array_function__ is not plain
            for kind in types
        ):
            return NotImplemented
        why = f"numpy.{func.__name__}"
        args, kwargs = list(args), dict(kwargs)
        if func in _OWN or func in VIEWS:
            made = self._made(func, args, dict(kwargs))
            if made is not None:
                return made
        given = target = None
        with ExitStack() as acquired:
            if func in _LIKE:
                self._replace(args, kwargs, _LIKE[func], lambda array: array._outline())
            elif func in _OF_DTYPES:
                args = [value.dtype if isinstance(value, NumpyLike) else value for value in args]
            if func in _WRITES:
                self._replace(
                    args, kwargs, _WRITES[func], lambda array: _target(array, acquired, why)
                )
            elif isinstance(kwargs.get("out"), NumpyLike):
                given = kwargs["out"]
                kwargs["out"] = target = _target(given, acquired, why)
            elif (at := _out_at(func)) < len(args) and isinstance(args[at], NumpyLike):
                given = args[at]
                args[at] = target = _target(given, acquired, why)
            if func not in _ABOUT:
                args = [seen(value, why) for value in args]
                kwargs = {name: seen(value, why) for name, value in kwargs.items()}
            # Not `func` itself, which would ask here again because of arrays within lists.
            result = plain(_NOTHING, func, (), tuple(args), kwargs)
        # Some leave `out` alone.
        return given if target is not None and result is target else result

    @staticmethod
    def _made(func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of `_OWN` or `VIEWS` makes of its argument; None if NumPy has to."""
        array, *rest = args or [kwargs.pop(first_name(func), None)]
        if not isinstance(array, NumpyLike):
            return None
        if func in _OWN:
            return _OWN[func](array, *rest, **kwargs)
        if rest and func in SEVERAL:
            return tuple([func(each) for each in args])
        # There NumPy gives elements.
        if (func is np.flip and array.ndim == 0) or (func is np.unstack and array.ndim == 1):
            return None
        plain = np.ndarray.__array_function__
        return array._seen_as(lambda outline: plain(_NOTHING, func, (), (outline, *rest), kwargs))

    @staticmethod
    def _replace(
        args: list[Any], kwargs: dict[str, Any], name: str, by: Callable[["NumpyLike"], Any]
    ) -> None:
        """Replace the first argument, which may have been given by its name."""
        if args and isinstance(args[0], NumpyLike):
            args[0] = by(args[0])
        elif not args and isinstance(kwargs.get(name), NumpyLike):
            kwargs[name] = by(kwargs[name])

    # ---- Python's protocols -----------------------------------------------------------------

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a SmartArray without axes")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """An element; a view, for slices and fields; or what NumPy copies for other indices."""
        basic = self._basic(key)
        if basic is None:
            return self._look("reading a[...]")[_index(key)]
        offset, shape, strides, dtype, is_element = basic
        if is_element:
            return self._element(offset, "reading a[...]")
        return self._over(offset, shape, strides, dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign on the host; other copies of these elements are then out of date."""
        why = "writing a[...]"
        basic = self._basic(key)
        if basic is not None:
            offset, shape, strides, dtype, is_element = basic
            # NumPy gives elements other values than it gives arrays without axes.
            if is_element:
                shape, strides = (1,), (dtype.itemsize,)
            part = self._over(offset, shape, strides, dtype)
            # As Python ends `a[2:4] += 1`.
            if part._is_same(value):
                return
            value = seen(value, "the value of a[...] = value")
            with part._writing(why, True) as array:
                array[0 if is_element else ...] = value
            return
        key = _index(key)
        value = seen(value, "the value of a[...] = value")
        with self._writing(why) as array:
            array[key] = value

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a SmartArray without axes")
        # Element by element: what changes the array meanwhile is seen, as in NumPy's.
        return map(self.__getitem__, range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        why = "value in a"
        return seen(value, why) in self._look(why)

    def __bool__(self) -> bool:
        return bool(self._look("bool(a)"))

    def __int__(self) -> int:
        return int(self._look("int(a)"))

    def __float__(self) -> float:
        return float(self._look("float(a)"))

    def __complex__(self) -> complex:
        return complex(self._look("complex(a)"))

    def __index__(self) -> int:
        return self._look("operator.index(a)").__index__()

    def __bytes__(self) -> bytes:
        return bytes(self._look("bytes(a)"))

    def __str__(self) -> str:
        return str(self._look("str(a)"))

    def __format__(self, spec: str) -> str:
        return format(self._look("format(a)"), spec)

    # ---- NumPy's attributes and methods -----------------------------------------------------

    @property
    def flat(self) -> Flat:
        """As `numpy.ndarray.flat`: the elements in the order of rows, to be read and written."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[:] = value

    real = _part("real")
    imag = _part("imag")

    all = _reader("all", 1)
    any = _reader("any", 1)
    argmax = _reader("argmax", 1)
    argmin = _reader("argmin", 1)
    argpartition = _reader("argpartition")
    argsort = _reader("argsort")
    choose = _reader("choose", 1)
    clip = _reader("clip", 2)
    compress = _reader("compress", 2)
    conj = _reader("conj")
    conjugate = _reader("conjugate")
    copy = _reader("copy")
    cumprod = _reader("cumprod", 2)
    cumsum = _reader("cumsum", 2)
    diagonal = _reader("diagonal")
    dot = _reader("dot", 1)
    dump = _reader("dump")
    dumps = _reader("dumps")
    flatten = _reader("flatten")
    getfield = _reader("getfield")
    item = _reader("item")
    max = _reader("max", 1)
    mean = _reader("mean", 2)
    min = _reader("min", 1)
    nonzero = _reader("nonzero")
    prod = _reader("prod", 2)
    repeat = _reader("repeat")
    round = _reader("round", 1)
    searchsorted = _reader("searchsorted")
    std = _reader("std", 2)
    sum = _reader("sum", 2)
    take = _reader("take", 2)
    tobytes = _reader("tobytes")
    tofile = _reader("tofile")
    tolist = _reader("tolist")
    trace = _reader("trace", 4)
    var = _reader("var", 2)

    fill = _writer("fill", whole=True)
    partition = _writer("partition")
    put = _writer("put")
    setfield = _writer("setfield")
    sort = _writer("sort")

    def astype(
        self,
        dtype: Any,
        order: Any = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: Any = True,
    ) -> Any:
        """As `numpy.ndarray.astype`, on the host; the array itself if `copy` is False and its dtype
        and order are asked for."""
        if not copy and np.dtype(dtype) == self.dtype and isinstance(order, str):
            flags = self._outline().flags
            if {"K": True, "A": flags.forc, "C": flags.c_contiguous, "F": flags.f_contiguous}.get(
                order.upper(), False
            ):
                return self
        return self._look("a.astype()").astype(dtype, order, casting, subok, copy)

    def byteswap(self, inplace: bool = False) -> Any:
        """As `numpy.ndarray.byteswap`, on the host."""
        if not inplace:
            return self._look("a.byteswap()").byteswap()
        with self._writing("a.byteswap()") as array:
            array.byteswap(inplace=True)
        return self


def _without_nan(x: NumpyLike, /, copy: bool = True, *args: Any, **kwargs: Any) -> Any:
    why = "numpy.nan_to_num"
    args = tuple([seen(value, why) for value in args])
    kwargs = {name: seen(value, why) for name, value in kwargs.items()}
    if copy:
        return np.nan_to_num(x._look(why), True, *args, **kwargs)
    with x._writing(why) as array:
        np.nan_to_num(array, False, *args, **kwargs)
    return x


# Functions that are not carried out by NumPy's own way to do so.
_OWN: dict[Any, Callable[..., Any]] = {**SHAPERS, np.nan_to_num: _without_nan}

# NumPy's own way to carry out a function is a method of its arrays.
_NOTHING = np.empty(0)


def _index(key: Any) -> Any:
    why = "an index"
    return tuple([seen(each, why) for each in key]) if isinstance(key, tuple) else seen(key, why)


def _target(value: Any, acquired: ExitStack, why: str, whole: bool = False) -> Any:
    if isinstance(value, NumpyLike):
        return acquired.enter_context(value._writing(why, whole))
    return value
