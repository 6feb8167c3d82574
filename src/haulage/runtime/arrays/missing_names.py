"""What NumPy's arrays have, and arrays of a device have not: an error that says what to use."""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

_Class = TypeVar("_Class", bound=type)

# Names that old programs know, and what to use.
_REMOVED = {"to_host": "copy_to_host()"}

_ON_THE_DEVICE = {
    **dict.fromkeys(("sum", "prod", "min", "max", "any", "all"), "cuda.reduce"),
    **dict.fromkeys(("itemset", "put"), "d[...] = value"),
}

# What SmartArrays have not, either: they give no address, and keep their memory.
_NOWHERE = frozenset(("base", "ctypes", "data", "resize", "setflags"))

_SYMBOLS = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"},
    **{"pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<"},
    "rshift": ">>",
}
_COMPARISONS = {"lt": ("<", "gt"), "le": ("<=", "ge"), "gt": (">", "lt"), "ge": (">=", "le")}
_UNARY = {"neg": "-", "pos": "+", "invert": "~", "abs": "abs()", "round": "round()"}
_CONVERSIONS = ("int", "float", "complex")

_NUMBERS = (int, float, complex)

_INSTEAD = (
    "arithmetic on device arrays is done by a kernel or a ufunc (cuda.vectorize), on the host with "
    "copy_to_host(), or by a haulage.SmartArray"
)


def with_hints(array_class: _Class) -> _Class:
    """Give a class of arrays of a device the hints for what it has not.

    Each name is a descriptor and not a case in `__getattr__`: with one, Python does not make the
    look-ups of other attributes fast, and a launch pays a sixth more. `dir` leaves them out.
    """
    made: Any = array_class
    missing = [name for name in dir(np.ndarray) if not name.startswith("_")]
    missing.append("__array_namespace__")
    hidden = [*_REMOVED, *(name for name in missing if not hasattr(array_class, name))]
    for name in hidden:
        setattr(made, name, _Missing(name))
    for name, symbol in _SYMBOLS.items():
        setattr(made, f"__{name}__", _binary(symbol, f"__r{name}__"))
        setattr(made, f"__r{name}__", _binary(symbol, f"__{name}__", swapped=True))
        # Where the other one can, this gives up, and Python does `d = d + other`.
        setattr(made, f"__i{name}__", _binary(f"{symbol}=", f"__r{name}__"))
    made.__divmod__ = _binary("divmod()", "__rdivmod__")
    made.__rdivmod__ = _binary("divmod()", "__divmod__", swapped=True)
    for name, (symbol, reflected) in _COMPARISONS.items():
        setattr(made, f"__{name}__", _binary(symbol, f"__{reflected}__"))
    for name, symbol in _UNARY.items():
        setattr(made, f"__{name}__", _unary(symbol))
    for name in _CONVERSIONS:
        setattr(made, f"__{name}__", _conversion(name))
    listed = made.__dir__
    made.__dir__ = lambda array: [name for name in listed(array) if name not in hidden]
    return array_class


class _Missing:
    """A name that arrays of NumPy or of older Numbas have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, array: object, owner: type) -> NoReturn:
        name = self._name
        if name in _REMOVED:
            why = f"Numba removed it; use {_REMOVED[name]}"
        else:
            there = _ON_THE_DEVICE.get(name, "a kernel")
            smart = "" if name in _NOWHERE else ", or a haulage.SmartArray"
            why = f"use {there} on the device, copy_to_host().{name} on the host{smart}"
        raise AttributeError(f"device arrays have no {name!r}: {why}", name=name)


def _binary(symbol: str, reflected: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def refuse(array: Any, other: Any) -> Any:
        # What has the operation itself does it, as NumPy's arrays do with a copy.
        # Not hasattr, which finds what the class itself can do: `list | None`.
        if (
            not isinstance(other, _NUMBERS)
            and not isinstance(other, type(array))
            and any(reflected in vars(kind) for kind in type(other).__mro__)
        ):
            return NotImplemented
        names = [type(array).__name__, type(other).__name__]
        if swapped:
            names.reverse()
        raise TypeError(
            f"unsupported operand type(s) for {symbol}: {names[0]!r} and {names[1]!r}; {_INSTEAD}"
        )

    return refuse


def _unary(symbol: str) -> Callable[[Any], NoReturn]:
    def refuse(array: Any, *_: Any) -> NoReturn:
        raise TypeError(f"bad operand type for {symbol}: {type(array).__name__!r}; {_INSTEAD}")

    return refuse


def _conversion(name: str) -> Callable[[Any], NoReturn]:
    def refuse(array: Any) -> NoReturn:
        raise TypeError(
            f"{name}() of a {type(array).__name__}: read one element by an index, as "
            f"{name}(d[0]), or use copy_to_host() or a haulage.SmartArray"
        )

    return refuse
