"""How a kernel's function uses the addresses that it is given, as LLVM has found.

When all that a kernel calls is inlined, LLVM notes of each address whether the function reads or
writes through it, or through what is made from it, and notes nothing where it cannot tell: where
an address is kept, given to a function that it does not know, or used by an atomic operation.
"""

import re

from haulage.compiler.access.model import Mode
from haulage.compiler.simt.ir.reader import definition
from haulage.compiler.simt.ir.types import split_list

_MODES: tuple[tuple[str, Mode], ...] = (("readnone", "none"), ("readonly", "r"), ("writeonly", "w"))
_RETURN = re.compile(r"^  ret i32 (.+?)(?:, !.*)?$")


def modes_of(text: str, name: str, count: int) -> list[Mode]:
    """How the last `count` parameters of a function of an optimised module are used.

    Those that are no addresses are 'rw', as is all that LLVM says nothing of.
    """
    line = definition(text, name)[0]
    start = line.index("(", line.index("@"))
    depth, end = 0, start
    for end in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if depth == 0:
            break
    given = split_list(line[start + 1 : end])
    return [_mode(each) for each in given[len(given) - count :]]


def _mode(parameter: str) -> Mode:
    words = parameter.split()
    return next((mode for word, mode in _MODES if word in words), "rw")


def is_without_faults(text: str, name: str) -> bool:
    """Whether no thread of a kernel's function can come to an end by a fault."""
    returned = [found[1] for line in definition(text, name) if (found := _RETURN.match(line))]
    return all(value == "0" for value in returned)
