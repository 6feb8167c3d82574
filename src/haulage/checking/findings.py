"""What is found to be wrong, each pair of places once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from haulage import forks

# The kinds of findings.
BOUNDS, RACE, UNINITIALIZED, BARRIER = "bounds", "race", "uninitialized", "barrier"
STREAM = "stream"
LEAK, FREED, ADDRESS = "leak", "freed", "address"
# Those of what is right, but slow or surprising on GPUs.
FLOAT64, UNCOALESCED, BANK_CONFLICT = "float64", "uncoalesced", "bank-conflict"
DIVERGENCE, LOCAL_MEMORY, IDLE_LANES = "divergence", "local-memory", "idle-lanes"
LINTS = (FLOAT64, UNCOALESCED, BANK_CONFLICT, DIVERGENCE, LOCAL_MEMORY, IDLE_LANES)
KINDS = {
    BOUNDS: "an index out of bounds",
    RACE: "two threads, one location, and nothing that orders them",
    UNINITIALIZED: "memory that is read and that nobody wrote",
    BARRIER: "a barrier, or another word of several threads, that not all of them come to",
    STREAM: "work of streams or of the host on the same memory, and nothing that orders it",
    LEAK: "memory that the program holds at its end",
    FREED: "memory that is used, or freed, after it was freed",
    ADDRESS: "an access outside of all memory, or one that is not aligned",
    FLOAT64: "float64 arithmetic in a kernel whose data are float32",
    UNCOALESCED: "requests of global memory that take more sectors than they need",
    BANK_CONFLICT: "lanes of a warp that wait for one another at a bank of shared memory",
    DIVERGENCE: "lanes of a warp that go different ways in a loop",
    LOCAL_MEMORY: "arrays of a thread that are not in its registers",
    IDLE_LANES: "lanes that have nothing to do",
}

Index = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """A line of the program: its file, and its number from 1 on."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Access:
    """Something that is done to memory, or a wait, at a place.

    Attributes:
        place: the line, or None where nobody knows it.
        what: in words: "read", "write", "atomic operation", "barrier", "copy to the host", ...
        kernel: its name, or "" for what the host does.
        block, thread: which one did it, (x, y, z), or None.
    """

    place: Place | None
    what: str
    kernel: str = ""
    block: Index | None = None
    thread: Index | None = None


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Attributes:
        kind: one of `KINDS`.
        message: one sentence that says what is wrong, without the places; "" of what is measured,
            until it is told.
        access: where.
        other: the other access, where it takes two.
        array: the name of the array in the source, or "".
        index: of the element in it, or None; of a view, in the array that it is of.
        element: the same in words, "array[3].x", or "".
        allocated: the line that the array's memory was allocated in, or None.
        same_value: of two writes, whether both wrote the same.
        count: how often this was found between these two lines.
        measured: of what is slow on GPUs the figures.
        hint: of that what else the message is made of: what makes it float64, a shape, the sizes
            of blocks, the names of arrays; or "".
    """

    kind: str
    message: str
    access: Access
    other: Access | None = None
    array: str = ""
    index: Index | None = None
    allocated: Place | None = None
    same_value: bool = False
    count: int = 1
    element: str = ""
    measured: Mapping[str, int] | None = field(default=None, hash=False)
    hint: str = ""


def key_of(finding: Finding) -> object:
    """What findings that are counted as one have in common."""
    places = {str(finding.access.place), str(finding.other and finding.other.place)}
    what = "" if finding.measured is None else finding.access.what
    return finding.kind, frozenset(places), finding.access.kernel, finding.array, what


# Figures that are the same for all launches, or of which the greatest one counts.
_NOT_ADDED = frozenset(("lanes", "block", "most_ways", "is_single", "bytes"))


def _together(one: Mapping[str, int] | None, other: Mapping[str, int] | None) -> Any:
    """The figures of both."""
    if one is None or other is None:
        return one
    return {
        name: max(one[name], other[name]) if name in _NOT_ADDED else one[name] + other[name]
        for name in one
    }


class Findings:
    """Findings by kind and places, in the order in which they were first made. Thread safe.

    Attributes:
        launches, accesses: how many launches, and how many accesses of their threads, were checked.
    """

    def __init__(self) -> None:
        self._found: dict[object, Finding] = {}
        self._lock = forks.lock()
        self.launches = 0
        self.accesses = 0

    def add(self, finding: Finding) -> bool:
        """Note a finding, or count it with an equal one: of the same kind and the same two lines,
        in whatever order. Gives whether it is a new one."""
        key = key_of(finding)
        with self._lock:
            known = self._found.get(key)
            if known is None:
                self._found[key] = finding
                return True
            self._found[key] = replace(
                known,
                count=known.count + finding.count,
                same_value=known.same_value and finding.same_value,
                measured=_together(known.measured, finding.measured),
            )
            return False

    def checked(self, accesses: int) -> None:
        """Note that a launch was checked, whose threads made so many accesses."""
        with self._lock:
            self.launches += 1
            self.accesses += accesses

    def clear(self) -> None:
        """Forget all that was noted."""
        with self._lock:
            self._found.clear()
            self.launches = self.accesses = 0

    def __iter__(self) -> Iterator[Finding]:
        with self._lock:
            return iter(tuple(self._found.values()))

    def __len__(self) -> int:
        return len(self._found)
