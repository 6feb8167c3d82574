"""What makes a SmartArray stand in for a NumPy array: operators, methods and attributes.

They are those of the host's array. An operator is more than the ufunc of its name: `==` compares
records and numbers with strings, `@=` takes no fewer axes, and `**` is quick for small numbers.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from haulage.smart import numpy_functions
from haulage.smart.elements import Elements, readable

# For what NumPy says of all its arrays.
_OF_NUMPY: Any = np.empty(0)


def _unary(apply: Callable[[Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: Elements) -> Any:
        return apply(self._look(shown))

    return method


def _binary(apply: Callable[[Any, Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: Elements, other: Any) -> Any:
        return apply(self._look(shown), readable(other, shown))

    return method


def _reflected(apply: Callable[[Any, Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: Elements, other: Any) -> Any:
        return apply(other, self._look(shown))

    return method


def _in_place(apply: Callable[[Any, Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: Elements, other: Any) -> Any:
        value = readable(other, shown)
        with self._writing(shown) as array:
            result = apply(array, value)
        # Where the other one took it over, it is what that one made.
        return self if result is array else result

    return method


def _arithmetic(
    sign: str, apply: Callable[[Any, Any], Any], in_place: Callable[[Any, Any], Any]
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The methods for `a + b`, for `b + a` where b is something else, and for `a += b`."""
    return (
        _binary(apply, f"a {sign} b"),
        _reflected(apply, f"b {sign} a"),
        _in_place(in_place, f"a {sign}= b"),
    )


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

    def method(self: Elements, /, *args: Any, **kwargs: Any) -> Any:
        call = getattr(self._look(f"a.{name}()"), name)
        values = list(args)
        at: Any = out_at if out_at is not None and out_at < len(args) else "out"
        given = kwargs if at == "out" else values
        out = kwargs.get("out") if at == "out" else args[at]
        if not isinstance(out, NumpyMethods):
            return call(*args, **kwargs)
        with out._writing(f"a.{name}(out=...)") as target:
            given[at] = target
            result = call(*values, **kwargs)
        return out if result is target else result

    return _named(method, name)


def _writer(name: str, whole: bool = False) -> Callable[..., Any]:
    """The method `name` of NumPy's arrays, which writes to the elements: to all, if `whole`."""

    def method(self: Elements, /, *args: Any, **kwargs: Any) -> Any:
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

    def read(self: Elements) -> Any:
        if name == "imag" and self.dtype.kind != "c":
            return self._look("a.imag").imag
        return self._seen_as(lambda outline: getattr(outline, name))

    def write(self: Elements, value: Any) -> None:
        why = f"a.{name} = ..."
        value = readable(value, why)
        with self._writing(why) as array:
            setattr(array, name, value)

    return property(read, write, doc=f"As `numpy.ndarray.{name}`: a view.")


def _comparison(apply: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: "Flat", other: Any) -> Any:
        return apply(np.asarray(self), other)

    return method


def _plain(value: Any) -> Any:
    return np.asarray(value) if hasattr(value, "__array__") else value


class Flat:
    """As `numpy.flatiter`: an iterator that has indices too.

    It reads and writes the array as it is at that time; iterating begins with the elements as they
    are then.
    """

    __slots__ = ("_array", "_iterator")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Elements) -> None:
        self._array = array
        self._iterator: np.flatiter | None = None

    def _now(self) -> np.flatiter:
        return self._array._look("a.flat").flat

    def _begun(self) -> np.flatiter:
        if self._iterator is None:
            self._iterator = self._now()
        return self._iterator

    @property
    def base(self) -> np.ndarray:
        """The elements as they are now; read-only."""
        return self._array._look("a.flat")

    @property
    def index(self) -> int:
        """How many elements the iterator has given."""
        return self._begun().index

    @property
    def coords(self) -> tuple[int, ...]:
        """The index of the next element in the array."""
        return self._begun().coords

    def copy(self) -> np.ndarray:
        """The elements as an array with one axis."""
        return self._now().copy()

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return self._begun()

    def __next__(self) -> Any:
        return next(self._begun())

    def __getitem__(self, key: Any) -> Any:
        return self._now()[_plain(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        # Before the array is acquired: they may be the same.
        key, value = _plain(key), _plain(value)
        with self._array._writing("a.flat[...] = ...") as array:
            array.flat[key] = value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._now(), dtype, copy=copy)

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)


class NumpyMethods(Elements):
    """The surface of NumPy's arrays on the elements."""

    __slots__ = ()

    # Arrays are compared by their elements, which change.
    __hash__ = None  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return numpy_functions.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        return numpy_functions.call_function(func, types, args, kwargs)

    # ---- the array API standard -------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """NumPy's namespace, whose functions take SmartArrays and give NumPy's arrays.

        Raises:
            ValueError: NumPy does not know that version of the array API standard.
        """
        return _OF_NUMPY.__array_namespace__(api_version=api_version)

    @property
    def device(self) -> str:
        """'cpu': where, in the words of NumPy's namespace, its functions work on the elements.

        Which devices have current copies, `coherence` says.
        """
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Any:
        """The array itself: 'cpu' is the only device of NumPy's namespace.

        `get(device)` gives an array on one of Haulage's devices.

        Raises:
            ValueError: another device, or a stream.
        """
        if device != "cpu":
            raise ValueError(
                f"to_device({device!r}) of a SmartArray: NumPy's namespace knows 'cpu' only; "
                "get(device) gives an array on a device"
            )
        if stream is not None:
            raise ValueError(f"to_device(stream={stream!r}) of a SmartArray: expected None")
        return self

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
            value = readable(value, "the value of a[...] = value")
            with part._writing(why, True) as array:
                array[0 if is_element else ...] = value
            return
        key = _index(key)
        value = readable(value, "the value of a[...] = value")
        with self._writing(why) as array:
            array[key] = value

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a SmartArray without axes")
        # Element by element: what changes the array meanwhile is seen, as in NumPy's.
        return map(self.__getitem__, range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        why = "value in a"
        return readable(value, why) in self._look(why)

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

    # ---- operators --------------------------------------------------------------------------

    __neg__ = _unary(operator.neg, "-a")
    __pos__ = _unary(operator.pos, "+a")
    __abs__ = _unary(operator.abs, "abs(a)")
    __invert__ = _unary(operator.invert, "~a")

    __eq__ = _binary(operator.eq, "a == b")
    __ne__ = _binary(operator.ne, "a != b")
    __lt__ = _binary(operator.lt, "a < b")
    __le__ = _binary(operator.le, "a <= b")
    __gt__ = _binary(operator.gt, "a > b")
    __ge__ = _binary(operator.ge, "a >= b")

    __add__, __radd__, __iadd__ = _arithmetic("+", operator.add, operator.iadd)
    __sub__, __rsub__, __isub__ = _arithmetic("-", operator.sub, operator.isub)
    __mul__, __rmul__, __imul__ = _arithmetic("*", operator.mul, operator.imul)
    __matmul__, __rmatmul__, __imatmul__ = _arithmetic("@", operator.matmul, operator.imatmul)
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("/", operator.truediv, operator.itruediv)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic(
        "//", operator.floordiv, operator.ifloordiv
    )
    __mod__, __rmod__, __imod__ = _arithmetic("%", operator.mod, operator.imod)
    __pow__, __rpow__, __ipow__ = _arithmetic("**", operator.pow, operator.ipow)
    __and__, __rand__, __iand__ = _arithmetic("&", operator.and_, operator.iand)
    __or__, __ror__, __ior__ = _arithmetic("|", operator.or_, operator.ior)
    __xor__, __rxor__, __ixor__ = _arithmetic("^", operator.xor, operator.ixor)
    __lshift__, __rlshift__, __ilshift__ = _arithmetic("<<", operator.lshift, operator.ilshift)
    __rshift__, __rrshift__, __irshift__ = _arithmetic(">>", operator.rshift, operator.irshift)
    __divmod__, __rdivmod__ = _binary(divmod, "divmod(a, b)"), _reflected(divmod, "divmod(b, a)")

    # ---- NumPy's attributes and methods -----------------------------------------------------

    @property
    def flat(self) -> Flat:
        """As `numpy.ndarray.flat`: the elements in the order of rows, to be read and written."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[:] = value

    @property
    def flags(self) -> Flags:
        """NumPy's flags, such as the order of the axes; they cannot be set."""
        return Flags(self._outline().flags)

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


def _index(key: Any) -> Any:
    why = "an index"
    return (
        tuple([readable(each, why) for each in key])
        if isinstance(key, tuple)
        else readable(key, why)
    )
