"""Arrays, records and vectors of a kernel as Python's and NumPy's objects over the same memory."""

import ctypes
from typing import Any

import numpy as np

from haulage.interpreting.numbers import Int64, converted, number, plain_of

# In the metadata of a dtype: the word that makes such vectors.
VECTOR = "haulage_vector"


class KernelArray(np.ndarray):
    """An array of NumPy whose elements and sizes have the types that they have in kernels."""

    def __getitem__(self, index: Any) -> Any:
        return element(super().__getitem__(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, stored(value, self.dtype))

    @property  # type: ignore[misc]
    def shape(self) -> Any:
        """Sizes along the axes, int64."""
        return tuple(map(Int64, super().shape))

    @property  # type: ignore[misc]
    def strides(self) -> Any:
        """Bytes from one element to the next along the axes, int64."""
        return tuple(map(Int64, super().strides))

    @property
    def size(self) -> Any:
        """How many elements there are, int64."""
        return Int64(super().size)

    @property
    def ndim(self) -> Any:
        """How many axes there are, int64."""
        return Int64(super().ndim)

    @property
    def itemsize(self) -> Any:
        """Bytes of an element, int64."""
        return Int64(super().itemsize)

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements, int64."""
        return Int64(super().nbytes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in (self.dtype.names or ()):
            raise AttributeError(f"an array has no attribute {name!r}", name=name)
        return self[name]

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __str__(self) -> str:
        return str(self.view(np.ndarray))


class Record:
    """An element with fields: `r.field` and `r["field"]` read and write the memory."""

    __slots__ = ("_void",)

    def __init__(self, void: np.void) -> None:
        object.__setattr__(self, "_void", void)

    def __getitem__(self, name: Any) -> Any:
        return element(self._void[name])

    def __setitem__(self, name: Any, value: Any) -> None:
        self._void[name] = stored(value, self._void.dtype[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in (self._void.dtype.names or ()):
            raise AttributeError(f"the record has no field {name!r}: {self._void.dtype.names}")
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        pairs = zip(self._void.dtype.names or (), self._void.tolist(), strict=True)
        return "(" + ", ".join(f"{name}={value!r}" for name, value in pairs) + ")"


class VectorValue:
    """A vector such as `float4(1, 2, 3, 4)`, with the fields x, y, z and w."""

    __slots__ = ("_parts", "word")

    def __init__(self, word: Any, parts: tuple[Any, ...]) -> None:
        self.word, self._parts = word, parts

    def __getattr__(self, name: str) -> Any:
        place = "xyzw".find(name)
        if len(name) != 1 or not 0 <= place < len(self._parts):
            raise AttributeError(f"{self.word.__name__} has no {name!r}")
        return self._parts[place]

    @property
    def parts(self) -> tuple[Any, ...]:
        """The fields' values."""
        return self._parts

    def __repr__(self) -> str:
        return f"{self.word.__name__}({', '.join(map(str, self._parts))})"


def element(value: Any) -> Any:
    """What a kernel has for something that NumPy reads from an array or a record."""
    if isinstance(value, np.ndarray):
        return value if isinstance(value, KernelArray) else value.view(KernelArray)
    if isinstance(value, np.void):
        metadata: Any = value.dtype.metadata
        word = (metadata or {}).get(VECTOR)
        if word is not None:
            return VectorValue(word, tuple(map(number, value.tolist())))
        return Record(value) if value.dtype.names else value
    return number(value)


def stored(value: Any, dtype: Any) -> Any:
    """What NumPy is given to store in an element of a dtype."""
    if isinstance(value, Record):
        return value._void
    if isinstance(value, VectorValue):
        return tuple(map(plain_of, value.parts))
    if isinstance(value, KernelArray):
        return value.view(np.ndarray)
    if isinstance(value, np.ndarray):
        return value
    value = number(value)
    # NumPy refuses ints that the type does not hold.
    return plain_of(converted(value, dtype) if dtype.kind in "iu" else value)


def over(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, readonly: bool
) -> Any:
    """An array of some memory, which has to stay; an empty one where there is none."""
    low = sum(min(0, (size - 1) * step) for size, step in zip(shape, strides, strict=True))
    high = sum(max(0, (size - 1) * step) for size, step in zip(shape, strides, strict=True))
    if 0 in shape or not address:
        made = np.empty(shape, dtype)
    else:
        nbytes = high - low + dtype.itemsize
        memory = (ctypes.c_char * nbytes).from_address(address + low)
        made = np.ndarray(shape, dtype, memory, -low, strides)
    made = made.view(KernelArray)
    made.flags.writeable = not readonly
    return made
