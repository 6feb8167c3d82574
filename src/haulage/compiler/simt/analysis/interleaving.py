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
work-item loop. So accesses in loops are looked at as if they were unrolled.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from haulage.compiler.simt.analysis import control_flow, induction
from haulage.compiler.simt.analysis.affine import THREAD, AffineForms, Monomial, Symbol
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import ANYWHERE, UnderlyingObjects
from haulage.compiler.simt.analysis.strides import size_of_access
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Function, Instruction, RegionEnd, value_name

_BLOCK = frozenset(f"%blockDim.{axis}" for axis in AXES)

# LLVM makes no wide access of more elements than this.
_WIDEST = 8
# Beyond so many pairs a region is taken for one with such accesses.
_MOST_PAIRS = 20_000
# Copies of instructions beyond which a loop is taken for one that is not unrolled.
_MOST_COPIES = 2000


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

    def __init__(self, function: Function, storage: Set[str], varying: Set[str]) -> None:
        self._function = function
        self._storage = storage
        self._varying = varying
        self._roots = UnderlyingObjects(Analyses(function))
        # With the copies of what loops make.
        self._items = function.items()
        self._origins: dict[str, str] = {}
        self._forms = AffineForms(self._items)
        self._loose_forms = AffineForms(self._items, wraparound=False)

    def changes_order(self, labels: Sequence[str]) -> bool:
        """Whether LLVM may move an access over another one that may alias; `labels` are the blocks
        of a region in the order in which they run."""
        items = (item for label in labels for item in self._function.blocks[label].body)
        if not any(item.opcode == "store" for item in items):
            return False
        listing = unrolled(self._function, labels)
        for step in listing.steps:
            if step.item.result is not None:
                self._items[step.item.result] = step.item
        self._origins |= listing.origins
        accesses: list[_Access] = []
        families: dict[object, list[int]] = {}
        for step in listing.steps:
            access = self._access(step)
            if access is None:
                continue
            index = len(accesses)
            accesses.append(access)
            if self._may_be_wide(access):
                symbols = {each.value for monomial, _ in access.family for each in monomial}
                if step.repeated or symbols & listing.looped:
                    # Iterations, and values that may be known once the loop is unrolled.
                    return True
                families.setdefault((access.is_store, access.family), []).append(index)
        return any(self._is_passed(accesses, members) for members in families.values())

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

    def _access(self, step: "Step") -> _Access | None:
        address, original = step.item.address, step.original.address
        if step.item.opcode not in ("load", "store") or address is None or original is None:
            return None
        form = self._forms.of(address)
        terms = {monomial: factor for monomial, factor in form.monomials.items() if monomial}
        loose = self._loose_forms.of(address).monomials.items()
        family = frozenset((monomial, factor) for monomial, factor in loose if monomial)
        roots = frozenset(self._roots.of(original.text))
        size = size_of_access(step.item) or 0
        return _Access(step.item.opcode == "store", roots, terms, form.constant, size, family)

    def _may_be_wide(self, access: _Access) -> bool:
        """Whether neighbouring threads may be a constant step apart that is not the element."""
        return any(
            access.nbytes < abs(factor) <= _WIDEST * access.nbytes
            if len(monomial) == 1 and monomial[0] in THREAD
            else self._may_step(monomial)
            for monomial, factor in access.family
            if any(map(self._is_varying, monomial))
        )

    def _is_varying(self, symbol: Symbol) -> bool:
        return self._origins.get(symbol.value, symbol.value) in self._varying

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


# ---- a region with its loops unrolled --------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """An instruction of a copy of a loop's body, the one that it is a copy of, and whether it is
    in a loop that is not unrolled here."""

    item: Instruction
    original: Instruction
    repeated: bool


@dataclass
class Listing:
    """The steps in order; the names that the copies have, with those of what they are copies of;
    and all names made in loops, which may become constants."""

    steps: list[Step] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    looped: set[str] = field(default_factory=set)


def unrolled(function: Function, labels: Sequence[str]) -> Listing:
    """What a region does; `labels` are its blocks, each in front of those that it goes to, but for
    the back edges of loops."""
    inside = set(labels)
    successors = {
        label: ()
        if isinstance(function.blocks[label].terminator, RegionEnd)
        else tuple(each for each in function.blocks[label].successors if each in inside)
        for label in labels
    }
    # Outer loops come first: the last ones found.
    loops = control_flow.natural_loops(successors, labels[0])[::-1]
    unroller = _Unroller(function)
    unroller.list_blocks(labels, loops, {}, repeated=False)
    return unroller.listing


class _Unroller:
    def __init__(self, function: Function) -> None:
        self._function = function
        self.listing = Listing()

    def list_blocks(
        self, labels: Sequence[str], loops: Sequence[Loop], names: Mapping[str, str], repeated: bool
    ) -> None:
        """List the instructions of blocks, with `names` for the values of what is around them."""
        listed: set[str] = set()
        for label in labels:
            if label in listed:
                continue
            loop = next((each for each in loops if label in each.labels), None)
            if loop is None:
                self._list_block(label, names, repeated)
                continue
            within = [each for each in labels if each in loop.labels]
            listed |= loop.labels
            self._list_loop(loop, within, [each for each in loops if each != loop], names, repeated)

    def _list_block(self, label: str, names: Mapping[str, str], repeated: bool) -> None:
        block = self._function.blocks[label]
        for item in (*block.phis, *block.body):
            copy = item.renamed(names)
            origin = self.listing.origins.get(copy.result or "", copy.result)
            if origin == item.result:
                # A phi that is another value in this iteration is none.
                self.listing.steps.append(Step(copy, item, repeated))

    def _list_loop(
        self,
        loop: Loop,
        labels: Sequence[str],
        inner: Sequence[Loop],
        around: Mapping[str, str],
        repeated: bool,
    ) -> None:
        made = [
            item.result
            for label in labels
            for item in self._function.blocks[label].instructions()
            if item.result is not None
        ]
        self.listing.looped |= {around.get(name, name) for name in made}
        count = induction.trip_count(self._function, loop)
        if count is None or (count + 1) * len(made) + len(self.listing.steps) > _MOST_COPIES:
            self.list_blocks(labels, inner, around, repeated=True)
            return
        before: dict[str, str] = {}
        for iteration in range(count + 1):
            names = dict(around)
            for name in made:
                names[name] = value_name(around.get(name, name), f"iteration.{iteration}")
                self.listing.origins[names[name]] = name
            self.listing.looped |= {names[name] for name in made}
            for phi in self._function.blocks[loop.header].phis:
                value = induction.entering(phi, loop, first=not iteration)
                if value is None or phi.result is None:
                    continue
                arriving = (around if not iteration else before).get(value.text, value.text)
                if value.is_local or value.number is not None:
                    names[phi.result] = arriving
            self.list_blocks(labels, inner, names, repeated)
            before = names
