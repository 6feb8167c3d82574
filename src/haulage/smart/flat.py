"""`a.flat`: the elements of an array one after the other."""

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np


class _Array(Protocol):
    @property
    def size(self) -> int: ...

    def _look(self, why: str) -> np.ndarray: ...

    def _writing(self, why: str, whole: bool = False) -> AbstractContextManager[np.ndarray]: ...


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

    def __init__(self, array: _Array) -> None:
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
