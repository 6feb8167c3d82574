"""NumPy's functions and ufuncs, called on SmartArrays.

What gives a view in NumPy gives one here, and moves nothing. All else works on the host's elements:
what reads gets a read-only view of them, what writes has the host acquired for writing, and results
are NumPy arrays and scalars.
"""

import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np

from haulage.smart.elements import Elements, readable

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


# NumPy's functions that give views of their first argument, one or a list of them.
_VIEWS: frozenset[Any] = frozenset(
    (
        *(np.transpose, np.permute_dims, np.matrix_transpose, np.swapaxes, np.moveaxis),
        *(np.rollaxis, np.squeeze, np.expand_dims, np.flip, np.fliplr, np.flipud, np.rot90),
        *(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
        *(np.atleast_1d, np.atleast_2d, np.atleast_3d, np.unstack, np.linalg.matrix_transpose),
    )
)

# Of these, those that take any number of arrays.
_SEVERAL: frozenset[Any] = frozenset((np.atleast_1d, np.atleast_2d, np.atleast_3d))


def _reshaped(
    a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    return a.reshape(newshape if shape is None else shape, order=order, copy=copy)


def _cast(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    if device not in (None, "cpu"):
        raise ValueError(f"astype(device={device!r}): NumPy knows 'cpu' only")
    return x.astype(dtype, copy=copy)


# Those that SmartArray has as a method or an attribute, which copies where it has to.
_SHAPERS: dict[Any, Callable[..., Any]] = {
    np.reshape: _reshaped,
    np.ravel: lambda a, order="C": a.ravel(order),
    np.astype: _cast,
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
}


@cache
def _first_name(func: Callable[..., Any]) -> str:
    """What the first parameter of one of these functions is called."""
    return next(iter(inspect.signature(func).parameters))


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """As `__array_ufunc__`, for arguments of which some are SmartArrays."""
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
            rest = [readable(value, why) for value in others]
            return ufunc.at(_target(target, acquired, why), *rest, **kwargs)
        values = [readable(value, why) for value in inputs]
        if "where" in kwargs:
            kwargs["where"] = readable(kwargs["where"], why)
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
        out if isinstance(out, Elements) else new for out, new in zip(given, results, strict=True)
    )
    return made if len(made) > 1 else made[0]


def call_function(func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """As `__array_function__`, for arguments of which some are SmartArrays."""
    plain = np.ndarray.__array_function__
    if any(
        not issubclass(kind, Elements) and kind.__array_function__ is not plain for kind in types
    ):
        return NotImplemented
    why = f"numpy.{func.__name__}"
    args, kwargs = list(args), dict(kwargs)
    if func in _OWN or func in _VIEWS:
        made = _made(func, args, dict(kwargs))
        if made is not None:
            return made
    given = target = None
    with ExitStack() as acquired:
        if func in _LIKE:
            _replace(args, kwargs, _LIKE[func], lambda array: array._outline())
        elif func in _OF_DTYPES:
            args = [value.dtype if isinstance(value, Elements) else value for value in args]
        if func in _WRITES:
            _replace(args, kwargs, _WRITES[func], lambda array: _target(array, acquired, why))
        elif isinstance(kwargs.get("out"), Elements):
            given = kwargs["out"]
            kwargs["out"] = target = _target(given, acquired, why)
        elif (at := _out_at(func)) < len(args) and isinstance(args[at], Elements):
            given = args[at]
            args[at] = target = _target(given, acquired, why)
        if func not in _ABOUT:
            args = [readable(value, why) for value in args]
            kwargs = {name: readable(value, why) for name, value in kwargs.items()}
        # Not `func` itself, which would ask here again because of arrays within lists.
        result = plain(_NOTHING, func, (), tuple(args), kwargs)
    # Some leave `out` alone.
    return given if target is not None and result is target else result


def _made(func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of `_OWN` or `_VIEWS` makes of its argument; None if NumPy has to."""
    array, *rest = args or [kwargs.pop(_first_name(func), None)]
    if not isinstance(array, Elements):
        return None
    if func in _OWN:
        return _OWN[func](array, *rest, **kwargs)
    if rest and func in _SEVERAL:
        return tuple([func(each) for each in args])
    # There NumPy gives elements.
    if (func is np.flip and array.ndim == 0) or (func is np.unstack and array.ndim == 1):
        return None
    plain = np.ndarray.__array_function__
    return array._seen_as(lambda outline: plain(_NOTHING, func, (), (outline, *rest), kwargs))


def _replace(
    args: list[Any], kwargs: dict[str, Any], name: str, by: Callable[[Elements], Any]
) -> None:
    """Replace the first argument, which may have been given by its name."""
    if args and isinstance(args[0], Elements):
        args[0] = by(args[0])
    elif not args and isinstance(kwargs.get(name), Elements):
        kwargs[name] = by(kwargs[name])


def _without_nan(x: Elements, /, copy: bool = True, *args: Any, **kwargs: Any) -> Any:
    why = "numpy.nan_to_num"
    args = tuple([readable(value, why) for value in args])
    kwargs = {name: readable(value, why) for name, value in kwargs.items()}
    if copy:
        return np.nan_to_num(x._look(why), True, *args, **kwargs)
    with x._writing(why) as array:
        np.nan_to_num(array, False, *args, **kwargs)
    return x


# Functions that are not carried out by NumPy's own way to do so.
_OWN: dict[Any, Callable[..., Any]] = {**_SHAPERS, np.nan_to_num: _without_nan}

# NumPy's own way to carry out a function is a method of its arrays.
_NOTHING = np.empty(0)


def _target(value: Any, acquired: ExitStack, why: str, whole: bool = False) -> Any:
    if isinstance(value, Elements):
        return acquired.enter_context(value._writing(why, whole))
    return value
