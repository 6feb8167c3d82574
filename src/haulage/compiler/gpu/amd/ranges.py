"""What the limits of blocks and grids say about the registers, noted where these are read.

LLVM has to know it before it first looks, or the wraparound of negative indices stays in every
access.
"""

import re

from haulage.targets.base import REGISTER_RANGES

_READ = re.compile(
    r"(?m)^(?P<before> .*= (?:tail )?call )(?P<called>i32 @\"?llvm\.amdgcn\.work(?P<of>item|group)"
    r"\.id\.(?P<axis>[xyz])\"?\()"
)
_GROUPS = {"item": "threadIdx", "group": "blockIdx"}


def with_ranges(text: str) -> str:
    """A module's text with the ranges of all reads of index registers of the hardware."""
    return _READ.sub(_with_range, text)


def _with_range(found: re.Match[str]) -> str:
    low, high = REGISTER_RANGES[f"{_GROUPS[found['of']]}.{found['axis']}"]
    return f"{found['before']}range(i32 {low}, {high}) {found['called']}"
