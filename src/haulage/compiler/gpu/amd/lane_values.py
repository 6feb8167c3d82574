"""What ints are in each lane, as far as they are made of a lane's number and constants."""

import re
from collections.abc import Callable, Mapping

_NAME = r'%(?:"[^"]*"|[-\w.$]+)'
_VALUE = rf"(?:{_NAME}|-?\d+|true|false)"
_DEFINED = re.compile(rf"(?m)^  ({_NAME}) = (.*?)(?:, !.*)?$")
_OF_TWO = re.compile(
    rf"(?P<word>\w+) (?:(?:nuw|nsw|exact|disjoint) )*i(?P<bits>\d+) (?P<x>{_VALUE}), "
    rf"(?P<y>{_VALUE})"
)
_COMPARED = re.compile(
    rf"icmp (?:samesign )?(?P<how>\w+) i(?P<bits>\d+) (?P<x>{_VALUE}), (?P<y>{_VALUE})"
)
_CHOSEN = re.compile(
    rf"select i1 (?P<is>{_VALUE}), i(?P<bits>\d+) (?P<x>{_VALUE}), i\d+ (?P<y>{_VALUE})"
)
_CAST = re.compile(
    rf"(?P<word>zext|sext|trunc) (?:(?:nneg|nuw|nsw) )*i(?P<bits>\d+) (?P<x>{_VALUE}) "
    r"to i(?P<to>\d+)"
)
_LANES_BELOW = re.compile(
    rf"(?:tail |notail )?call [^@]*@llvm\.amdgcn\.mbcnt\.(?P<half>lo|hi)\(i32 (?P<mask>-?\d+), "
    rf"i32 (?P<more>{_VALUE})\)"
)
_OF_TWO_INTS = re.compile(
    r"(?:tail )?call [^@]*@llvm\.(?P<word>umin|umax|smin|smax|usub\.sat)\.i(?P<bits>\d+)"
    rf"\(i\d+ (?P<x>{_VALUE}), i\d+ (?P<y>{_VALUE})\)"
)
_HALF = 32

_Ints = tuple[int, ...]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# Of ints without a sign, and of how many bits; None if it is not one.
_OPERATIONS: dict[str, Callable[[int, int, int], int | None]] = {
    "add": lambda x, y, bits: x + y,
    "sub": lambda x, y, bits: x - y,
    "mul": lambda x, y, bits: x * y,
    "and": lambda x, y, bits: x & y,
    "or": lambda x, y, bits: x | y,
    "xor": lambda x, y, bits: x ^ y,
    "shl": lambda x, y, bits: x << y if y < bits else None,
    "lshr": lambda x, y, bits: x >> y if y < bits else None,
    "ashr": lambda x, y, bits: _signed(x, bits) >> y if y < bits else None,
    "udiv": lambda x, y, bits: x // y if y else None,
    "urem": lambda x, y, bits: x % y if y else None,
    "umin": lambda x, y, bits: min(x, y),
    "umax": lambda x, y, bits: max(x, y),
    "smin": lambda x, y, bits: min(_signed(x, bits), _signed(y, bits)),
    "smax": lambda x, y, bits: max(_signed(x, bits), _signed(y, bits)),
    "usub.sat": lambda x, y, bits: max(x - y, 0),
    "eq": lambda x, y, bits: x == y,
    "ne": lambda x, y, bits: x != y,
    "ult": lambda x, y, bits: x < y,
    "ule": lambda x, y, bits: x <= y,
    "ugt": lambda x, y, bits: x > y,
    "uge": lambda x, y, bits: x >= y,
    "slt": lambda x, y, bits: _signed(x, bits) < _signed(y, bits),
    "sle": lambda x, y, bits: _signed(x, bits) <= _signed(y, bits),
    "sgt": lambda x, y, bits: _signed(x, bits) > _signed(y, bits),
    "sge": lambda x, y, bits: _signed(x, bits) >= _signed(y, bits),
}


class LaneValues:
    """The values of a function's text in wavefronts of so many lanes."""

    def __init__(self, function: str, lanes: int) -> None:
        self._texts: Mapping[str, str] = dict(_DEFINED.findall(function))
        self._lanes = lanes
        self._known: dict[str, _Ints | None] = {}

    def of(self, value: str, bits: int = 32) -> _Ints | None:
        """What each lane has as a value of so many bits, without a sign; None if that is not
        known."""
        if not value.startswith("%"):
            number = {"true": 1, "false": 0}.get(value)
            number = int(value) if number is None else number
            return (number & ((1 << bits) - 1),) * self._lanes
        if value not in self._known:
            # A value of a loop, which comes back to itself, is none of these.
            self._known[value] = None
            self._known[value] = self._made(self._texts.get(value, ""))
        return self._known[value]

    def _made(self, text: str) -> _Ints | None:
        if found := _OF_TWO.fullmatch(text) or _OF_TWO_INTS.fullmatch(text):
            return self._of_two(found, found["word"], int(found["bits"]))
        if found := _COMPARED.fullmatch(text):
            return self._of_two(found, found["how"], 1)
        if found := _CHOSEN.fullmatch(text):
            flags = self.of(found["is"], 1)
            first, second = (self.of(found[name], int(found["bits"])) for name in "xy")
            if flags is None or first is None or second is None:
                return None
            both = zip(flags, first, second, strict=True)
            return tuple(x if flag else y for flag, x, y in both)
        if found := _CAST.fullmatch(text):
            return self._cast(found)
        if found := _LANES_BELOW.fullmatch(text):
            return self._lanes_below(found)
        return None

    def _of_two(self, found: re.Match[str], word: str, bits: int) -> _Ints | None:
        operation, of = _OPERATIONS.get(word), int(found["bits"])
        first, second = self.of(found["x"], of), self.of(found["y"], of)
        if operation is None or first is None or second is None:
            return None
        made = [operation(x, y, of) for x, y in zip(first, second, strict=True)]
        if any(each is None for each in made):
            return None
        return tuple(int(each or 0) & ((1 << bits) - 1) for each in made)

    def _cast(self, found: re.Match[str]) -> _Ints | None:
        bits, wide = int(found["bits"]), int(found["to"])
        given = self.of(found["x"], bits)
        if given is None:
            return None
        if found["word"] == "sext":
            given = tuple(_signed(each, bits) for each in given)
        return tuple(each & ((1 << wide) - 1) for each in given)

    def _lanes_below(self, found: re.Match[str]) -> _Ints | None:
        """How many of a mask's lanes are below each one, in the first 32 or in those behind."""
        more, mask = self.of(found["more"]), int(found["mask"]) & 0xFFFFFFFF
        if more is None:
            return None
        start = 0 if found["half"] == "lo" else _HALF
        below = [min(max(lane - start, 0), _HALF) for lane in range(self._lanes)]
        both = zip(more, below, strict=True)
        return tuple(each + (mask & ((1 << count) - 1)).bit_count() for each, count in both)
