"""Reads MessagePack, the form in which LLVM writes what a code object for an AMD GPU says of its
kernels (https://github.com/msgpack/msgpack/blob/master/spec.md).

The package of that name is compiled code for 60 lines, of which the writer is not needed.
"""

import struct
from typing import Any

# More than any code object nests its tables.
_DEEPEST = 32

_NUMBERS = {
    **{0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"},
    **{0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"},
}
_LENGTHS = {1: ">B", 2: ">H", 4: ">I"}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}
_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}


def read(code: bytes) -> Any:
    """What the bytes say: dicts, lists, strings, bytes, numbers, booleans and None.

    Raises:
        ValueError: they are no MessagePack, or something follows.
    """
    reader = _Reader(code)
    made = reader.value(0)
    if reader.at != len(code):
        raise ValueError(f"{len(code) - reader.at} bytes follow at {reader.at}")
    return made


class _Reader:
    def __init__(self, code: bytes) -> None:
        self.code, self.at = code, 0

    def value(self, depth: int) -> Any:
        mark = self._number(">B")
        if mark <= 0x7F:
            return mark
        if mark >= 0xE0:
            return mark - 0x100
        if mark <= 0x8F:
            return self._map(mark & 0x0F, depth)
        if mark <= 0x9F:
            return self._array(mark & 0x0F, depth)
        if mark <= 0xBF:
            return self._text(mark & 0x1F)
        if mark in _PLAIN:
            return _PLAIN[mark]
        if mark in _NUMBERS:
            return self._number(_NUMBERS[mark])
        for lengths, part in ((_TEXTS, self._text), (_BYTES, self._take)):
            if mark in lengths:
                return part(self._length(lengths[mark]))
        for lengths, table in ((_ARRAYS, self._array), (_MAPS, self._map)):
            if mark in lengths:
                return table(self._length(lengths[mark]), depth)
        raise ValueError(f"the mark {mark:#x} at {self.at - 1} is not known here")

    def _take(self, count: int) -> bytes:
        part = self.code[self.at : self.at + count]
        if len(part) < count:
            raise ValueError(f"it ends at {len(self.code)}, with {count} bytes wanted at {self.at}")
        self.at += count
        return part

    def _number(self, kind: str) -> Any:
        return struct.unpack(kind, self._take(struct.calcsize(kind)))[0]

    def _length(self, nbytes: int) -> int:
        length: int = self._number(_LENGTHS[nbytes])
        return length

    def _text(self, count: int) -> str:
        return self._take(count).decode()

    def _array(self, count: int, depth: int) -> list[Any]:
        self._check_depth(depth)
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[Any, Any]:
        self._check_depth(depth)
        made = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise ValueError(f"a name was expected before {self.at}, found {key!r}")
            made[key] = self.value(depth + 1)
        return made

    def _check_depth(self, depth: int) -> None:
        if depth >= _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} tables are in one another at {self.at}")
