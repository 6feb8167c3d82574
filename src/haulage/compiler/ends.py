"""The codes that a kernel's threads end with, which tell whom a barrier of the block waits for.

A thread that has ended is missed at a barrier if it went round it, then did something that others
can see, and came to an end that those who wait there may yet come to. So the ends of a kernel have
numbers. A `return` amid the function is one behind which nobody is missed (`LEFT`), as on hardware
since Volta; where a function just ends there is a number for each way to it. A kernel with one end
has number 0 for it and code 0.
"""

import re

from haulage.compiler.definitions import definition_start
from haulage.compiler.numbers import BITS

# The number of all ends behind a `return` amid the function.
LEFT = 31
# Ends beyond this many share the last number.
MOST = LEFT - 1

# More than any fault's number, so that a code is one or the other.
_FIRST_CODE = 1 << BITS

_CODES = re.compile(rf"(  ret i32) (?:{'|'.join(str(_FIRST_CODE + n) for n in range(32))})\b")


def code_of(number: int) -> int:
    """The code that a thread gives back at the end of this number."""
    return _FIRST_CODE + number if number else 0


def number_of(code: int) -> int | None:
    """The number of the end of this code, or None if the code is a fault's."""
    if code == 0:
        return 0
    return code - _FIRST_CODE if _FIRST_CODE <= code <= _FIRST_CODE + LEFT else None


def forget(text: str, entry: str) -> str:
    """A module's text in which every end of the function `entry` has the code 0."""
    start = definition_start(text, entry)
    assert start >= 0, entry
    end = text.index("\n}", start)
    return text[:start] + _CODES.sub(r"\1 0", text[start:end]) + text[end:]
