"""Proves that no two threads of a launch access a common byte of an array.

What is added to the array's address is a sum of products: numbers that the launch knows times the
indices of the thread and the block, and times the iterations of loops. These are its digits, if
each number is larger than all that the smaller ones come to; then threads that differ in an index
differ in a digit, in whatever iterations they are. Digits are limited by the conditions on the way
to an access: of `row * n + column` the column is one where `column < n`. Where a kernel takes a
number apart by divisions, `i // n` and `i % n`, these are digits of `i`.

That numbers are the digits of a mixed radix is how LLVM and Polly find out that accesses of
linearised arrays are those of different elements (Grosser et al., "Optimistic Delinearization of
Parametrically Sized Arrays", ICS 2015); here it is decided with the numbers of one launch. What it
does not prove is checked as the kernel runs.
"""

from collections.abc import Iterable, Sequence, Set

from haulage.compiler.checks.launch_values import (
    Access,
    Ends,
    Launch,
    Limits,
    Sum,
    ends_of,
    most_of,
)

_MOST_ACCESSES = 64


def are_private(
    launch: Launch, accesses: Sequence[tuple[Access, bool]], indices: Sequence[str]
) -> bool:
    """Whether no two threads that differ in some of `indices` access a common byte which one of
    them writes; each access is told with whether it is a write."""
    # Most often all are of one place for each thread.
    if _separates(launch, [each for each, _ in accesses], indices):
        return True
    if len(accesses) > _MOST_ACCESSES:
        return False
    for number, (one, writes) in enumerate(accesses):
        for other, too in accesses[number:]:
            if (writes or too) and not (
                _separates(launch, [one, other], indices) or _are_apart(launch, one, other)
            ):
                return False
    return True


def _separates(launch: Launch, accesses: Sequence[Access], indices: Iterable[str]) -> bool:
    """Whether threads that differ in some of `indices` never access a common byte."""
    here = [_Here(each, *launch.known_at(each.label)) for each in accesses]
    wanted = [
        name
        for name in indices
        if len({each.limits[name] for each in here}) > 1 or not here[0].is_fixed(name)
    ]
    digits = {name for each in here for name in each.offset.factors if name in launch.digits}
    whole = [launch.digits[name].whole for name in digits]
    covered = {name for each in whole for name in each.factors if name in wanted}
    if not all(_is_taken_apart(launch, each, digits, accesses, covered) for each in whole):
        return False
    wanted = [*(name for name in wanted if name not in covered), *digits]
    for name in (*wanted, *covered):
        factors = {each.offset.factors.get(name, 0) for each in here}
        if len(factors) != 1 or (0 in factors) != (name in covered):
            return False
    loops = {
        abs(factor)
        for each in here
        for name, factor in each.offset.factors.items()
        if name not in wanted
    }
    radices = {abs(here[0].offset.factors[name]): name for name in wanted}
    if len(radices) < len(wanted) or loops & radices.keys():
        return False
    for each in here:
        each.begin(sorted(loops, reverse=True))
    for radix in sorted(loops | radices.keys()):
        low, high = min(each.low for each in here), max(each.high for each in here)
        if radix <= high - low:
            return False
        for each in here:
            each.add(radix)
        if radix in radices and min(each.low for each in here) < 0:
            return False
    return min(each.low for each in here) >= 0


def _are_apart(launch: Launch, one: Access, other: Access) -> bool:
    """Whether two accesses never are of a common byte, whatever threads make them: one digit
    is never the same."""
    here = [_Here(each, *launch.known_at(each.label)) for each in (one, other)]
    radices = {abs(factor) for each in here for factor in each.offset.factors.values()}
    for radix in (1, *radices):
        first, second = (each.parts(radix) for each in here)
        if first and second and any(map(_are_disjoint, first, second)):
            return True
    return False


def _is_taken_apart(
    launch: Launch, whole: Sum, names: Set[str], accesses: Sequence[Access], indices: Set[str]
) -> bool:
    """Whether some digits are all those of a sum, which is another one for threads that differ
    in those of `indices` that are in it."""
    digits = sorted(
        (each for name in names if (each := launch.digits[name]).whole == whole),
        key=lambda each: each.low,
    )
    ends = [1, *(each.high for each in digits)]
    most = max(
        whole.constant + most_of(whole.factors, *launch.known_at(each.label)) for each in accesses
    )
    if ends[:-1] != [each.low for each in digits] or ends[-1] <= most:
        return False
    parts = [Access(whole, 1, each.label) for each in accesses]
    return _separates(launch, parts, [name for name in indices if name in whole.factors])


def _are_disjoint(one: Ends, other: Ends) -> bool:
    return one[1] < other[0] or other[1] < one[0]


class _Here:
    """An access, and what the sum of its smaller digits comes to."""

    def __init__(self, access: Access, known: list[Sum], limits: Limits) -> None:
        self._known, self.limits, self._nbytes = known, limits, access.nbytes
        self.offset = access.offset.at(limits)
        self._added: dict[str, int] = {}
        self._more: dict[int, int] = {}
        self._constant = 0
        self.low: float = 0
        self.high: float = 0

    def is_fixed(self, name: str) -> bool:
        """Whether an index is one number only for the threads that make the access."""
        low, high = self.limits[name]
        return low == high

    def parts(self, radix: int) -> tuple[Ends, Ends] | None:
        """Between which numbers the offset is, divided by a radix, and the rest, with the bytes of
        the access; None if that is as large as the radix."""
        whole, rest = divmod(self.offset.constant, radix)
        factors = self.offset.factors
        high = ends_of(
            {n: f for n, f in factors.items() if f % radix == 0}, self._known, self.limits
        )
        low = ends_of({n: f for n, f in factors.items() if f % radix}, self._known, self.limits)
        if radix == 1:
            return (high[0] + whole, high[1] + whole + self._nbytes - 1), (0, 0)
        rests = rest + low[0], rest + low[1] + self._nbytes - 1
        if rests[0] < 0 or rests[1] >= radix:
            return None
        return (whole + high[0] / radix, whole + high[1] / radix), rests

    def begin(self, loops: Sequence[int]) -> None:
        """Begin with the constant, without what iterations may add as well."""
        rest = self.offset.constant
        for radix in loops:
            self._more[radix], rest = divmod(rest, radix)
        self._constant = rest
        self.low, self.high = rest, rest + self._nbytes - 1

    def add(self, radix: int) -> None:
        """Add the digits with a radix."""
        more = self._more.get(radix, 0) * radix
        self._constant += more
        low, high = self.low + more, self.high + more
        for name, factor in self.offset.factors.items():
            if abs(factor) == radix:
                ends = [factor * end if end else 0 for end in self.limits[name]]
                low, high = low + min(ends), high + max(ends)
                self._added[name] = factor
        most = most_of(self._added, self._known, self.limits)
        self.low, self.high = low, min(high, most + self._constant + self._nbytes - 1)
