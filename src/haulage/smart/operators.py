"""Python's operators, as NumPy's arrays have them.

They are those of the host's array, not ufuncs: some of them are more than the ufunc of their name,
such as `==` of records and of numbers with strings, `@=`, which takes no fewer axes, and `**` of
small numbers.
"""

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np


def _unary(apply: Callable[[Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: "Operators") -> Any:
        return apply(self._look(shown))

    return method


def _binary(apply: Callable[[Any, Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: "Operators", other: Any) -> Any:
        return apply(self._look(shown), seen(other, shown))

    return method


def _reflected(apply: Callable[[Any, Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: "Operators", other: Any) -> Any:
        return apply(other, self._look(shown))

    return method


def _in_place(apply: Callable[[Any, Any], Any], shown: str) -> Callable[..., Any]:
    def method(self: "Operators", other: Any) -> Any:
        value = seen(other, shown)
        with self._writing(shown) as array:
            result = apply(array, value)
        # Where the other one took it over, it is what that one made.
        return self if result is array else result

    return method


def seen(value: Any, why: str) -> Any:
    """`value`, or the elements of one that has these operators, for reading only."""
    return value._look(why) if isinstance(value, Operators) else value


class Operators:
    """Operators on top of a look at the elements and a way to write them."""

    __slots__ = ()

    # Arrays are compared by their elements, which change.
    __hash__ = None  # type: ignore[assignment]

    def _look(self, why: str) -> np.ndarray:
        """The current elements on the host, for reading only."""
        raise NotImplementedError

    def _writing(self, why: str, whole: bool = False) -> AbstractContextManager[np.ndarray]:
        """The current elements on the host, to be written to inside a `with`."""
        raise NotImplementedError

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

    __add__, __radd__ = _binary(operator.add, "a + b"), _reflected(operator.add, "b + a")
    __sub__, __rsub__ = _binary(operator.sub, "a - b"), _reflected(operator.sub, "b - a")
    __mul__, __rmul__ = _binary(operator.mul, "a * b"), _reflected(operator.mul, "b * a")
    __matmul__ = _binary(operator.matmul, "a @ b")
    __rmatmul__ = _reflected(operator.matmul, "b @ a")
    __truediv__ = _binary(operator.truediv, "a / b")
    __rtruediv__ = _reflected(operator.truediv, "b / a")
    __floordiv__ = _binary(operator.floordiv, "a // b")
    __rfloordiv__ = _reflected(operator.floordiv, "b // a")
    __mod__, __rmod__ = _binary(operator.mod, "a % b"), _reflected(operator.mod, "b % a")
    __divmod__, __rdivmod__ = _binary(divmod, "divmod(a, b)"), _reflected(divmod, "divmod(b, a)")
    __pow__, __rpow__ = _binary(operator.pow, "a ** b"), _reflected(operator.pow, "b ** a")
    __and__, __rand__ = _binary(operator.and_, "a & b"), _reflected(operator.and_, "b & a")
    __or__, __ror__ = _binary(operator.or_, "a | b"), _reflected(operator.or_, "b | a")
    __xor__, __rxor__ = _binary(operator.xor, "a ^ b"), _reflected(operator.xor, "b ^ a")
    __lshift__ = _binary(operator.lshift, "a << b")
    __rlshift__ = _reflected(operator.lshift, "b << a")
    __rshift__ = _binary(operator.rshift, "a >> b")
    __rrshift__ = _reflected(operator.rshift, "b >> a")

    __iadd__ = _in_place(operator.iadd, "a += b")
    __isub__ = _in_place(operator.isub, "a -= b")
    __imul__ = _in_place(operator.imul, "a *= b")
    __imatmul__ = _in_place(operator.imatmul, "a @= b")
    __itruediv__ = _in_place(operator.itruediv, "a /= b")
    __ifloordiv__ = _in_place(operator.ifloordiv, "a //= b")
    __imod__ = _in_place(operator.imod, "a %= b")
    __ipow__ = _in_place(operator.ipow, "a **= b")
    __iand__ = _in_place(operator.iand, "a &= b")
    __ior__ = _in_place(operator.ior, "a |= b")
    __ixor__ = _in_place(operator.ixor, "a ^= b")
    __ilshift__ = _in_place(operator.ilshift, "a <<= b")
    __irshift__ = _in_place(operator.irshift, "a >>= b")
