"""Arrays in whose elements a kernel's loops keep values that registers could hold.

`out[i] += x[k]` in a loop over `k` loads and stores the sum in each iteration, as an element of `x`
may be `out[i]`. If the arrays are known not to overlap, LLVM keeps it in a register (scalar
promotion, a part of its loop-invariant code motion), and stores it behind the loop. So a kernel
with such a loop has two bodies. The entry looks at the arrays of its launch and takes one of them,
as LLVM's loop versioning for LICM does in front of a loop; see `emit/entry.py`.

What another thread does to the array between two iterations is a race, unless threads wait for one
another. So there are no barriers, no atomic operations and no fences in the kernel, and nothing is
read or written but its arguments' arrays and memory of a block's own.
"""

from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import UnderlyingObjects
from haulage.compiler.simt.loops.atomics import Array, arrays_of, places_of


@dataclass(frozen=True)
class Promotable:
    """The arrays whose elements registers could hold, and all arrays that the kernel accesses."""

    arrays: tuple[Array, ...]
    accessed: tuple[Array, ...]

    @property
    def pairs(self) -> list[tuple[Array, Array]]:
        """The arrays that must not overlap, two by two, each pair once."""
        others = [each for each in self.accessed if each not in self.arrays]
        return [
            (array, other)
            for number, array in enumerate(self.arrays)
            for other in (*self.arrays[number + 1 :], *others)
        ]


def find(analyses: Analyses, storage: frozenset[str]) -> Promotable | None:
    """The promotable arrays of a body; `storage` are names of the block's own memory, and its
    threads'."""
    arrays = {array.data: array for array in arrays_of(analyses.function)}
    accessed: set[str] = set()
    for item in analyses.function.instructions():
        places = {each for each in places_of(analyses, item) - storage if each[0] != "@"}
        if not places <= arrays.keys() or item.stays or item.opcode == "fence":
            return None
        if item.opcode == "call" and not (item.callee or "").startswith(PURE):
            return None
        accessed |= places
    found = {data for loop in analyses.loops for data in _stored_to(analyses, loop)} & arrays.keys()
    if not found:
        return None
    return Promotable(
        tuple(arrays[each] for each in arrays if each in found),
        tuple(arrays[each] for each in arrays if each in accessed),
    )


def _stored_to(analyses: Analyses, loop: Loop) -> set[str]:
    """The arrays with an element that a loop stores to in its iterations, the same in all of them,
    and that it accesses others beside."""
    objects = analyses.get(UnderlyingObjects)
    stored: set[str] = set()
    accessed: set[str] = set()
    for label in loop.labels:
        for item in analyses.function.blocks[label].body:
            if item.address is None:
                continue
            places = objects.at(item.address)
            accessed |= places
            made = analyses.definitions.get(item.address.text)
            if item.opcode == "store" and (made is None or made[0] not in loop.labels):
                stored |= places
    return {place for place in stored if accessed != {place}}
