"""Where LLVM's loop vectoriser would change the order of one thread's own accesses of memory.

In a loop whose accesses are declared parallel it takes no two of them for dependent, also not two
of one iteration. It keeps their order, but for interleave groups (LLVM's InterleavedAccessInfo): of
accesses that lie some constant step apart (`x[2 * t]`, `x[2 * t + 1]`, the parts of complex
numbers) it makes one wide access; loads move up to the first of them, stores down to the last. A
store on the way that may alias is passed over: `x[2 * t] = 1`, `y[t] = x[k]`, `x[2 * t + 1] = 2`
reads what was there before the kernel, if `k` is `2 * t`. Regions with such accesses are not
declared parallel; LLVM then looks for itself what depends on what, with a test as the kernel runs
if need be.

LLVM unrolls short loops before that, and what were iterations is then one iteration of the
work-item loop. So an access in a loop that may become part of a wide one is taken for passing
others.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis import AXES, control_flow
from haulage.compiler.simt.analysis.affine import THREAD, Monomial, index_forms
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import ANYWHERE, UnderlyingObjects
from haulage.compiler.simt.analysis.strides import size_of_access
from haulage.compiler.simt.ir.model import Instruction

_BLOCK = frozenset(f"%blockDim.{axis}" for axis in AXES)

# LLVM makes no wide access of more elements than this.
_WIDEST = 8
# Beyond so many pairs a region is taken for one with such accesses.
_MOST_PAIRS = 20_000


@dataclass(frozen=True)
class _Access:
    """An access: the memory it is in, the form of its address without and with the constant, its
    bytes, and the form that those have which may become one with it."""

    is_store: bool
    roots: frozenset[str]
    terms: dict[Monomial, int]
    offset: int
    nbytes: int
    family: frozenset[tuple[Monomial, int]]


class Interleaving:
    """Finds such accesses in parts of one function.

    `storage` are names of memory that nothing else overlaps: the block's own. `varying` are the
    values that can differ from thread to thread.
    """

    def __init__(self, analyses: Analyses, storage: Set[str], varying: Set[str]) -> None:
        self._function = analyses.function
        self._storage = storage
        self._varying = varying
        self._roots = analyses.get(UnderlyingObjects)
        self._items = analyses.items
        self._forms = analyses.get(index_forms, wraparound=True)
        self._loose_forms = analyses.get(index_forms, wraparound=False)

    def changes_order(self, labels: Sequence[str]) -> bool:
        """Whether LLVM may move an access over another one that may alias; `labels` are the blocks
        of a region in the order in which they run."""
        blocks = {label: self._function.blocks[label] for label in labels}
        if not any(item.opcode == "store" for each in blocks.values() for item in each.body):
            return False
        looped = self._looped(labels)
        made = self._function.results(looped)
        accesses: list[_Access] = []
        families: dict[object, list[int]] = {}
        for label, block in blocks.items():
            for access in filter(None, map(self._access, block.body)):
                if self._may_be_wide(access):
                    symbols = {each.value for monomial, _ in access.family for each in monomial}
                    if label in looped or symbols & made:
                        # Iterations, and values that may be known once the loop is unrolled.
                        return True
                    key = access.is_store, access.family
                    families.setdefault(key, []).append(len(accesses))
                accesses.append(access)
        return any(self._is_passed(accesses, members) for members in families.values())

    def _looped(self, labels: Sequence[str]) -> set[str]:
        """The blocks of a region that are in loops."""
        loops = control_flow.Graph(self._function.within(labels), labels[0]).loops
        return {label for loop in loops for label in loop.labels}

    def _is_passed(self, accesses: list[_Access], members: list[int]) -> bool:
        """Whether members of a family would pass over an access that may alias."""
        first, last = members[0], members[-1]
        inside = set(members)
        moves_down = accesses[first].is_store
        passed = [
            index
            for index in range(first + 1, last)
            if index not in inside and (moves_down or accesses[index].is_store)
        ]
        if len(members) * len(passed) > _MOST_PAIRS:
            return True
        return any(
            (other > member) == moves_down and self._may_alias(accesses[member], accesses[other])
            for other in passed
            for member in members
        )

    def _access(self, item: Instruction) -> _Access | None:
        address = item.address
        if item.opcode not in ("load", "store") or address is None:
            return None
        form = self._forms.of(address)
        terms = {monomial: factor for monomial, factor in form.monomials.items() if monomial}
        loose = self._loose_forms.of(address).monomials.items()
        family = frozenset((monomial, factor) for monomial, factor in loose if monomial)
        roots = frozenset(self._roots.of(address.text))
        size = size_of_access(item) or 0
        return _Access(item.opcode == "store", roots, terms, form.constant, size, family)

    def _may_be_wide(self, access: _Access) -> bool:
        """Whether neighbouring threads may be a constant step apart that is not the element."""
        return any(
            access.nbytes < abs(factor) <= _WIDEST * access.nbytes
            if len(monomial) == 1 and monomial[0] in THREAD
            else self._may_step(monomial)
            for monomial, factor in access.family
            if any(each.value in self._varying for each in monomial)
        )

    def _may_step(self, monomial: Monomial) -> bool:
        """Whether a product may change by a constant from thread to thread, once the size of the
        block is one. With anything else as a factor it does not, nor does what was read."""
        moving = [
            each for each in monomial if len(monomial) == 1 or not self._is_of_block(each.value)
        ]
        items = [self._items.get(each.value) for each in moving]
        # A thread's own memory is a constant number of bytes from its neighbour's.
        return len(moving) < 2 and not any(item and item.opcode == "load" for item in items)

    def _is_of_block(self, name: str) -> bool:
        """Whether a value is made from the block's size and nothing else."""
        waiting, seen = [name], set()
        while waiting:
            current = waiting.pop()
            if current in seen or current in _BLOCK:
                continue
            seen.add(current)
            item = self._items.get(current)
            if item is None or item.opcode == "load" or not item.uses:
                return False
            waiting.extend(item.uses)
        return True

    def _may_alias(self, one: _Access, other: _Access) -> bool:
        """Whether two accesses of one thread may be of the same memory."""
        if one.terms == other.terms:
            low, high = sorted((one, other), key=lambda access: access.offset)
            return not low.nbytes or low.offset + low.nbytes > high.offset
        if ANYWHERE in one.roots | other.roots or one.roots & other.roots:
            return True
        # Two arrays that a kernel was given may be one.
        return not (one.roots <= self._storage or other.roots <= self._storage)
