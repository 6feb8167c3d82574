"""What is expected of a kernel, by comments of its lines, and what is found.

    out[0] = t  # race                        a finding of this kind names this line
    out[0] = t  # race: unguarded             it does so where the mistake "unguarded" is planted
    out[0] = t  # maybe race: unguarded       it may do so there, as the data decide

All lines that findings name are compared, the second one of a race as well.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from haulage.checking.session import Session

_MARK = re.compile(r"# (maybe )?(race|bounds|barrier|uninitialized)(?:: (.*))?$")


@dataclass(frozen=True)
class Case:
    """A kernel, a function that launches it once, the mistakes that are planted in it, functions
    that it calls, whose marks count as well, the checks that are made, and whether it is launched
    with several blocks."""

    name: str
    kernel: object
    launch: Callable[[], object] = field(repr=False)
    planted: frozenset = frozenset()
    calls: tuple = ()
    checks: tuple = ("race", "barrier", "bounds")
    of_blocks: bool = False

    def __str__(self):
        return self.name


def expected(case, *, maybe=False):
    """(kind, line) of all that is to be found of a case, or of what may be found besides."""
    found = set()
    for function in (case.kernel, *case.calls):
        lines, first = inspect.getsourcelines(function.py_func)
        for number, line in enumerate(lines, first):
            for mark in _MARK.finditer(line.rstrip()):
                perhaps, kind, where = mark.groups()
                words = {word.strip() for word in (where or "").split(",")}
                if bool(perhaps) == maybe and (where is None or words & case.planted):
                    found.add((kind, number))
    return found


def findings(work, checks=Case.checks):
    """What is found of what `work()` does and launches."""
    session = Session(checks)
    session.begin()
    try:
        work()
        session.wait()
    finally:
        session.end()
    return list(session.findings)


def lines_of(found):
    """(kind, line) of all that findings name."""
    accesses = [(each.kind, at) for each in found for at in (each.access, each.other) if at]
    return {(kind, at.place.line) for kind, at in accesses}


def found_in(case):
    """(kind, line) of all that is found of a case."""
    return lines_of(findings(case.launch, case.checks))


def check(case):
    """Assert that all is found in a case that is to be, and nothing else."""
    found = found_in(case)
    wanted, perhaps = expected(case), expected(case, maybe=True)
    assert wanted <= found <= wanted | perhaps
