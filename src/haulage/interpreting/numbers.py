"""Numbers as kernels have them: ints of a size that wrap round, with the types that compiled code
gives their operations.

Floats and complex numbers are NumPy's scalars, whose operations have these types already.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

_SIZES = (8, 16, 32, 64)

# Whether an int divided by zero is an error, as in kernels made with `debug=True`.
strict = [False]


def _divided(divide: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(a: int, b: int) -> int:
        if b:
            return divide(a, b)
        if strict[0]:
            raise ZeroDivisionError("division by zero")
        return 0

    return checked


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    # As C converts what is between -1 and 1.
    return 0 if abs(a) != 1 else a if b % 2 else 1


def _shifted_left(a: int, b: int) -> int:
    return a << (b & 63)


def _shifted_right(a: int, b: int) -> int:
    return a >> (b & 63)


# Name of the method: what it does to Python's ints.
_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _divided(operator.floordiv),
    "mod": _divided(operator.mod),
    "pow": _power,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": _shifted_left,
    "rshift": _shifted_right,
}
_OF_FLOATS = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "pow")},
    **{name: getattr(operator, f"__{name}__") for name in ("and", "or", "xor")},
    **{name: getattr(operator, name) for name in ("lshift", "rshift")},
}
_UNARY: dict[str, Callable[[int], int]] = {
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
}


def wrapped(value: int, signed: bool) -> Any:
    """An int of 64 bits: the lowest ones of `value`."""
    return Int64(value) if signed else UInt64(value)


def _as_signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 == 1 else value


def _binary(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    compute, of_floats = _BINARY[name], _OF_FLOATS[name]
    is_shift = name.endswith("shift")

    def result(a: Any, b: Any, own: Any, other: Any) -> Any:
        signed = _IS_SIGNED.get(type(other))
        if signed is None:
            if not isinstance(other, np.number | float | complex):
                return NotImplemented
            plain = plain_of(own)
            return of_floats(*((plain, other) if a is own else (other, plain)))
        if is_shift:
            return wrapped(compute(int(a), int(b)), _IS_SIGNED[type(a)])
        if signed or _IS_SIGNED[type(own)]:
            # Numbers beyond those of an int64 count as what their bits are in one.
            return Int64(compute(_as_signed(int(a)), _as_signed(int(b))))
        return UInt64(compute(int(a), int(b)))

    def forward(self: Any, other: Any) -> Any:
        return result(self, other, self, other)

    def reflected(self: Any, other: Any) -> Any:
        return result(other, self, self, other)

    return forward, reflected


def _quotient(a: Any, b: Any) -> Any:
    if strict[0] and not b:
        raise ZeroDivisionError("division by zero")
    return np.float64(int(a)) / np.float64(int(b))


def _true_division(self: Any, other: Any) -> Any:
    if type(other) in _IS_SIGNED:
        return _quotient(self, other)
    return plain_of(self) / other


def _true_division_reflected(self: Any, other: Any) -> Any:
    if type(other) in _IS_SIGNED:
        return _quotient(other, self)
    return other / plain_of(self)


def _divmod(self: Any, other: Any) -> Any:
    return self // other, self % other


def _unary(name: str) -> Callable[[Any], Any]:
    compute = _UNARY[name]

    def method(self: Any) -> Any:
        return wrapped(compute(int(self)), _IS_SIGNED[type(self)])

    return method


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) in _IS_SIGNED:
            return compare(int(self), int(other))
        return bool(compare(plain_of(self), other))

    return method


def _class(name: str, of: type) -> Any:
    dtype = np.dtype(of)
    signed, count = dtype.kind == "i", 8 * dtype.itemsize
    end, half = 1 << count, 1 << (count - 1)

    def new(cls: Any, value: Any = 0) -> Any:
        if isinstance(value, float | np.floating):
            value = np.float64(value).astype(of)
        bits = int(value) & (end - 1)
        return of.__new__(cls, bits - end if signed and bits & half else bits)

    members: dict[str, Any] = {"__module__": __name__, "__hash__": of.__hash__, "__new__": new}
    for each in _BINARY:
        members[f"__{each}__"], members[f"__r{each}__"] = _binary(each)
    members["__truediv__"] = _true_division
    members["__rtruediv__"] = _true_division_reflected
    members["__divmod__"] = _divmod
    members.update({f"__{each}__": _unary(each) for each in _UNARY})
    for each in ("lt", "le", "eq", "ne", "gt", "ge"):
        members[f"__{each}__"] = _compared(getattr(operator, each))
    members["__repr__"] = members["__str__"] = lambda self: str(int(self))
    members["bit_count"] = lambda self: Int64(abs(int(self)).bit_count())
    # Of no other class: NumPy would take the number's memory for that of the first base.
    return type(name, (of,), members)


_CLASSES: dict[Any, Any] = {}
for _bits in _SIZES:
    for _signed, _of, _name in (
        (True, np.dtype(f"i{_bits // 8}").type, f"Int{_bits}"),
        (False, np.dtype(f"u{_bits // 8}").type, f"UInt{_bits}"),
    ):
        _CLASSES[_of] = _class(_name, _of)

# For `isinstance`: all of these classes.
Int = tuple(_CLASSES.values())
Int64 = _CLASSES[np.int64]
UInt64 = _CLASSES[np.uint64]
Int32 = _CLASSES[np.int32]
UInt32 = _CLASSES[np.uint32]

# By the exact type of what counts as an int in operations.
_IS_SIGNED: dict[type, bool] = {
    **{of: issubclass(of, np.signedinteger) for of in (*_CLASSES, *_CLASSES.values())},
    np.longlong: True,
    np.ulonglong: False,
    int: True,
    bool: True,
    np.bool_: True,
}


def plain_of(value: Any) -> Any:
    """A number of this module as NumPy's, and any other as it is."""
    return value.dtype.type(int(value)) if isinstance(value, Int) else value


def class_of(of: type) -> type:
    """What stands for a class of NumPy's numbers: that of this module for ints."""
    if isinstance(of, type) and issubclass(of, np.integer) and not issubclass(of, Int):
        return _CLASSES.get(of) or _CLASSES[np.dtype(of).type]
    return of


def number(value: Any) -> Any:
    """A number of Python or NumPy with the type that kernels give it; else `value` itself."""
    kind = type(value)
    if kind is int:
        return Int64(value) if -(1 << 63) <= value < 1 << 63 else _large(value)
    if kind is float:
        return np.float64(value)
    if kind is np.bool_:
        return bool(value)
    if kind is complex:
        return np.complex128(value)
    known = _CLASSES.get(kind)
    if known is not None:
        return known(value)
    return class_of(kind)(value) if kind in (np.longlong, np.ulonglong) else value


def _large(value: int) -> Any:
    # No kernel has such a number; what is not used by it may be any.
    return UInt64(value) if 0 <= value < 1 << 64 else value


def converted(value: Any, dtype: Any) -> Any:
    """A number as one of a dtype, converted as C does: floats without their fraction, ints with as
    many of the lowest bits as there are."""
    if dtype.kind in "iu":
        return class_of(dtype.type)(value)
    if dtype.kind == "b":
        return bool(value)
    return dtype.type(plain_of(value))
