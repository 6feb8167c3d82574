"""What the limits of blocks and grids say about the registers, noted where these are read.

LLVM has to know it before it first looks, or the wraparound of negative indices stays in every
access.
"""

import re

from haulage.targets.base import REGISTER_RANGES
from haulage.targets.nvidia import REGISTERS

_RANGES = {
    f"{register}.{axis}": REGISTER_RANGES[f"{group}.{axis}"]
    for group, register in REGISTERS.items()
    for axis in "xyz"
}
_READ = re.compile(
    r"call (?P<called>i32 @\"?llvm\.nvvm\.read\.ptx\.sreg\."
    r"(?P<name>n?(?:tid|ctaid)\.[xyz])\"?\()"
)


def with_ranges(text: str) -> str:
    """A module's text with the ranges of all reads of index registers."""
    return _READ.sub(_with_range, text)


def _with_range(found: re.Match[str]) -> str:
    low, high = _RANGES[found["name"]]
    return f"call range(i32 {low}, {high}) {found['called']}"
