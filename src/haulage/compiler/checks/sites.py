"""The places of a kernel whose accesses are checked."""

from dataclasses import dataclass

READ, WRITE, ATOMIC, BARRIER, WARP_BARRIER = (
    "read",
    "write",
    "atomic operation",
    "barrier",
    "barrier of lanes",
)


@dataclass(frozen=True)
class Site:
    """Where a kernel accesses memory, or waits.

    Attributes:
        what: one of this module's words.
        file, line: of the source.
        array: the name of the array that is accessed, where the source has one.
        shared: whether that is shared memory of the block.
        nbytes: of the access.
    """

    what: str
    file: str
    line: int
    array: str = ""
    shared: bool = False
    nbytes: int = 0
