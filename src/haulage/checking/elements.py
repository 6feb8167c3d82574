"""Elements of arrays and fields of records, in words."""

from typing import TYPE_CHECKING

from haulage.checking.findings import Index
from haulage.runtime.arrays.keys import ARRAY, Key

if TYPE_CHECKING:
    import numpy as np


class LaunchedArray:
    """An array of a launch."""

    def __init__(
        self,
        name: str,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        nbytes: int,
        dtype: "np.dtype | None",
    ) -> None:
        self.name, self.dtype = name, dtype
        self.address, self.shape, self.strides, self._nbytes = address, shape, strides, nbytes

    def element_at(self, address: int) -> tuple[Index | None, str]:
        """The index of the element that has a byte, None if none has, and the field of a record."""
        index = self.index_of(address)
        if index is None or self.dtype is None:
            return index, ""
        steps = zip(index, self.strides, strict=True)
        offset = address - self.address - sum(n * step for n, step in steps)
        return index, field_at(self.dtype, offset)

    @property
    def extent(self) -> tuple[int, int]:
        """The address of its first byte, and the bytes up to its last one."""
        if 0 in self.shape:
            return self.address, 0
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = sum(step for step in steps if step < 0)
        return self.address + low, sum(map(abs, steps)) + self._nbytes

    def first_unaligned(self) -> Index | None:
        """The index of the first element that is not at a multiple of its dtype's alignment, or
        None."""
        dtype = self.dtype
        if dtype is None or 0 in self.shape or dtype.alignment == 1:
            return None
        zeros = (0,) * len(self.shape)
        if self.address % dtype.alignment:
            return zeros
        for axis in reversed(range(len(self.shape))):
            if self.shape[axis] > 1 and self.strides[axis] % dtype.alignment:
                return (*zeros[:axis], 1, *zeros[axis + 1 :])
        return None

    def index_of(self, address: int) -> Index | None:
        """The index of the element that an address is in; None if it is in none."""
        low, nbytes = self.extent
        if not low <= address < low + nbytes:
            return None
        index = [0] * len(self.shape)
        left = address - self.address
        axes = sorted(range(len(index)), key=lambda axis: -abs(self.strides[axis]))
        for axis in axes:
            n, stride = self.shape[axis], self.strides[axis]
            if n > 1 and stride:
                index[axis] = max(0, min(n - 1, left // stride))
                left -= index[axis] * stride
        return tuple(index)


def element_of(array: str, index: Index | None, field: str = "") -> str:
    """An element of an array in words; nothing if it is not known."""
    if not array or index is None:
        return ""
    return f"{array}[{', '.join(map(str, index)) or '()'}]{field}"


def field_at(dtype: "np.dtype", offset: int) -> str:
    """How the source names the field of a record that has a byte; nothing if there is none."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        number, index = offset // element.itemsize, list[int]()
        for size in reversed(shape):
            number, at = divmod(number, size)
            index.insert(0, at)
        return element_of(" ", tuple(index)).strip() + field_at(element, offset % element.itemsize)
    for name, (kind, start, *_) in (dtype.fields or {}).items():
        if start <= offset < start + kind.itemsize:
            return f".{name}{field_at(kind, offset - start)}"
    return ""


def padding_of(dtype: "np.dtype") -> list[tuple[int, int]]:
    """The bytes of an element that belong to no field: (first, behind the last) of each run."""
    covered = bytearray(dtype.itemsize)
    _cover(dtype, covered, 0)
    runs: list[tuple[int, int]] = []
    for at, is_covered in enumerate(covered):
        if is_covered:
            continue
        if runs and runs[-1][1] == at:
            runs[-1] = runs[-1][0], at + 1
        else:
            runs.append((at, at + 1))
    return runs


def _cover(dtype: "np.dtype", covered: bytearray, start: int) -> None:
    if dtype.fields is not None:
        for kind, offset, *_ in dtype.fields.values():
            _cover(kind, covered, start + offset)
    elif dtype.subdtype is not None:
        element = dtype.subdtype[0]
        for at in range(start, start + dtype.itemsize, element.itemsize):
            _cover(element, covered, at)
    else:
        covered[start : start + dtype.itemsize] = b"\1" * dtype.itemsize


def dtype_of(keys: tuple[Key, ...], path: tuple[int, ...]) -> "np.dtype | None":
    """What the elements are of the array that is reached by a path in the arguments with these
    keys; None: it is no array of NumPy's types."""
    key: Key = ("", keys)
    for number in path:
        within = key[1]
        if not isinstance(within, tuple) or number >= len(within):
            return None
        key = within[number]
    return key[1] if key[0] == ARRAY else None
