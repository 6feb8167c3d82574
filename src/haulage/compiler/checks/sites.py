"""The places of a kernel whose accesses are checked."""

from dataclasses import dataclass

READ, WRITE, ATOMIC, BARRIER, WARP_BARRIER, EXCHANGE = (
    "read",
    "write",
    "atomic operation",
    "barrier",
    "barrier of lanes",
    "exchange of lanes",
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
        layout: of an array of the thread's own.
        is_own: whether that is memory of the kernel's own, of the block or the thread.
    """

    what: str
    file: str
    line: int
    array: str = ""
    shared: bool = False
    nbytes: int = 0
    layout: "Layout | None" = None
    is_own: bool = False


@dataclass(frozen=True)
class Layout:
    """An array that a kernel makes for itself, contiguous by rows.

    Attributes:
        name: how the source calls it, or "".
        nbytes: of an element.
        shape: its sizes; 0: it is not known before the kernel runs.
    """

    name: str
    nbytes: int
    shape: tuple[int, ...]

    def index_of(self, offset: int) -> tuple[int, ...] | None:
        """The index of the element that has a byte so far behind the beginning; None: it is
        outside, or this is not known."""
        number, index = offset // self.nbytes, list[int]()
        for size in reversed(self.shape[1:]):
            if not size:
                return None
            number, at = divmod(number, size)
            index.insert(0, at)
        first = self.shape[0] if self.shape else 1
        if offset < 0 or (first and number >= first):
            return None
        return (number, *index) if self.shape else ()
