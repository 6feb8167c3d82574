"""What the host does with the elements of pinned, mapped and managed arrays.

NumPy tells of it where arrays are of a class of their own: elements, slices that are assigned to,
ufuncs, and NumPy's other functions and methods. What goes by the memory alone is not seen:
`memoryview`, `np.asarray(a)` and what is done with that, Numba's functions, other libraries.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.buffers.pinned_memory import block_of

Tell = Callable[[np.ndarray, bool], None]

# Methods that read all elements, and those that write them.
_READERS = (
    *("__array__", "__contains__", "__bool__", "__complex__", "__copy__", "__deepcopy__"),
    *("__float__", "__index__", "__int__", "__reduce__", "__reduce_ex__", "argmax", "argmin"),
    *("argpartition", "argsort", "choose", "compress", "copy", "cumprod", "cumsum", "dot", "dump"),
    *("dumps", "flatten", "item", "nonzero", "repeat", "round", "searchsorted", "take", "tobytes"),
    *("tofile", "tolist", "trace"),
)
_WRITERS = ("fill", "partition", "put", "sort")

# NumPy's functions that look at no element: they make views, or ask for shapes and types.
_VIEWS = frozenset(
    (
        *(np.reshape, np.ravel, np.transpose, np.squeeze, np.swapaxes, np.moveaxis),
        *(np.rollaxis, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
        *(np.broadcast_to, np.broadcast_arrays, np.expand_dims, np.atleast_1d, np.atleast_2d),
        *(np.atleast_3d, np.flip, np.fliplr, np.flipud, np.rot90, np.diagonal, np.shape),
        *(np.ndim, np.size, np.empty_like, np.zeros_like, np.ones_like, np.full_like),
        *(np.result_type, np.can_cast, np.min_scalar_type, np.may_share_memory),
        *(np.shares_memory, np.iscomplexobj, np.isrealobj, np.real, np.imag, np.common_type),
        *(np.lib.stride_tricks.as_strided, np.lib.stride_tricks.sliding_window_view),
    )
)
# Those that write to their first argument.
_WRITE_FIRST = frozenset((np.copyto, np.put, np.place, np.putmask, np.fill_diagonal))


class PinnedArray(np.ndarray):
    """An array in pinned memory while the stream check is made."""


def begin(tell: Tell) -> None:
    """Until `end`, call `tell(array, writes)` before the host reads or writes elements of an array
    in memory that devices reach."""
    for kind in (PinnedArray, HostVisibleNDArray):
        for name, method in _methods(kind, tell).items():
            setattr(kind, name, method)


def end() -> None:
    """Tell nobody any more."""
    for kind in (PinnedArray, HostVisibleNDArray):
        for name, before in _before.pop(kind, {}).items():
            if before is None:
                delattr(kind, name)
            else:
                setattr(kind, name, before)


# What stood in a class itself before, by name; None: nothing did.
_before: dict[type, dict[str, Any]] = {}


def _methods(kind: type[np.ndarray], tell: Tell) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for names, writes in ((_READERS, False), (_WRITERS, True)):
        for name in names:
            method = getattr(kind, name, None)
            if method is not None:
                made[name] = _telling(method, tell, writes)
    if issubclass(kind, HostVisibleNDArray):
        # They wait, or hand work to a stream, which the driver tells of.
        for name in ("__reduce__", "__reduce_ex__", "__dlpack__"):
            made.pop(name, None)
        made["fill"] = _fill(kind.fill, tell)
        made["getitem"] = _quiet(kind.getitem)
    made["__repr__"] = _shown(kind.__repr__, tell)
    made["__getitem__"] = _getitem(kind.__getitem__, tell)
    made["__setitem__"] = _setitem(kind.__setitem__, tell)
    made["__array_ufunc__"] = _array_ufunc(tell)
    made["__array_function__"] = _array_function(kind.__array_function__, tell)
    _before[kind] = {name: vars(kind).get(name) for name in made}
    return made


def _is_watched(value: Any) -> bool:
    return isinstance(value, (PinnedArray, HostVisibleNDArray)) and block_of(value) is not None


def _tell(tell: Tell, value: Any, writes: bool) -> None:
    if _is_watched(value):
        tell(value, writes)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _tell(tell, each, writes)


def _telling(method: Any, tell: Tell, writes: bool) -> Any:
    @functools.wraps(method)
    def telling(self: Any, *args: Any, **options: Any) -> Any:
        _tell(tell, self, writes)
        return method(self, *args, **options)

    return telling


class _Quiet(threading.local):
    now = False


_quiet_thread = _Quiet()


def _quiet(method: Any) -> Any:
    """A method that looks at elements of which it makes no use."""

    @functools.wraps(method)
    def quiet(self: Any, *args: Any, **options: Any) -> Any:
        before, _quiet_thread.now = _quiet_thread.now, True
        try:
            return method(self, *args, **options)
        finally:
            _quiet_thread.now = before

    return quiet


def _fill(method: Any, tell: Tell) -> Any:
    @functools.wraps(method)
    def fill(self: Any, value: Any, stream: Any = 0) -> None:
        if stream is None or (isinstance(stream, int) and not stream and not self._stream):
            _tell(tell, self, True)
        method(self, value, stream)

    return fill


def _shown(method: Any, tell: Tell) -> Any:
    @functools.wraps(method)
    def shown(self: Any) -> str:
        _tell(tell, self, False)
        return repr(self.view(np.ndarray)) if type(self) is PinnedArray else str(method(self))

    return shown


def _part(array: np.ndarray, key: Any) -> np.ndarray:
    """The elements that a key names, where they are a view; else all of them."""
    entries = key if isinstance(key, tuple) else (key,)
    if any(isinstance(each, (list, np.ndarray, bool, np.bool_)) for each in entries):
        return array
    if isinstance(key, str) or (isinstance(key, tuple) and Ellipsis in key):
        view = np.ndarray.__getitem__(array, key)
    else:
        view = np.ndarray.__getitem__(array, (*entries, Ellipsis))
    return view if isinstance(view, np.ndarray) else array


def _getitem(method: Any, tell: Tell) -> Any:
    @functools.wraps(method)
    def getitem(self: Any, key: Any) -> Any:
        found = method(self, key)
        is_view = isinstance(found, np.ndarray) and block_of(found) is not None
        if not is_view and _is_watched(self) and not _quiet_thread.now:
            tell(_part(self, key), False)
        return found

    return getitem


def _setitem(method: Any, tell: Tell) -> Any:
    @functools.wraps(method)
    def setitem(self: Any, key: Any, value: Any) -> None:
        _tell(tell, value, False)
        if _is_watched(self):
            try:
                part = _part(self, key)
            except (IndexError, ValueError):
                part = self  # NumPy says what is wrong
            tell(part, True)
        method(self, key, value)

    return setitem


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, (PinnedArray, HostVisibleNDArray)) else value


def _array_ufunc(tell: Tell) -> Any:
    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        for each in inputs:
            _tell(tell, each, False)
        out = options.get("out")
        if method == "at":
            _tell(tell, inputs[0], True)
        _tell(tell, out, True)
        where = options.get("where")
        if where is not None:
            _tell(tell, where, False)
            options["where"] = _plain(where)
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        if out is None:
            return result
        results = result if isinstance(result, tuple) else (result,)
        given = tuple(
            made if into is None else into for made, into in zip(results, out, strict=True)
        )
        return given if isinstance(result, tuple) else given[0]

    return array_ufunc


def _array_function(method: Any, tell: Tell) -> Any:
    def array_function(self: Any, func: Any, types: Any, args: Any, options: Any) -> Any:
        if func not in _VIEWS:
            _tell(tell, options.get("out"), True)
            for number, each in enumerate(args):
                _tell(tell, each, number == 0 and func in _WRITE_FIRST)
            for name, each in options.items():
                if name != "out":
                    _tell(tell, each, name == "dst" and func in _WRITE_FIRST)
        return method(self, func, types, args, options)

    return array_function
