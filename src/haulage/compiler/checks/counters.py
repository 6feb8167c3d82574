"""The counters of coverage: which of them belong to a function, and code that adds to them.

Each function has a counter for each of the ways that `flow.py` names, the same for all signatures
that it is compiled for. Where a thread goes such a way the front end's module calls `COUNT`;
`counting.py` says what becomes of that.
"""

import os
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from haulage import forks
from haulage._core import check
from haulage.compiler.checks.flow import Flow, flow_of
from haulage.errors import CompileError

# The check that counts, and the function that is called, void (i64 counter).
COVERAGE = "coverage"
COUNT = "haulage.count"

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


class Counted(NamedTuple):
    """A function whose threads are counted: its code, whether it is a kernel, its flow, and the
    number of the counter of the first of `flow.counted`; the others follow."""

    code: CodeType
    is_kernel: bool
    flow: Flow
    start: int


class Counters:
    """The functions that were compiled with counters by now. Thread safe."""

    def __init__(self) -> None:
        # Code may be equal to other code that has its instructions in another file, or other lines.
        self._known: dict[tuple[str, bytes, bool, CodeType], Counted] = {}
        self._compiled: set[int] = set()
        self._used = 0
        self._lock = forks.lock()

    def of(self, code: CodeType, is_kernel: bool) -> Counted:
        """The counters of a function, or of a kernel, now taken if they are not yet.

        Raises:
            CompileError: all are taken.
        """
        key = code.co_filename, code.co_linetable, is_kernel, code
        with self._lock:
            if key not in self._known:
                made = Counted(code, is_kernel, flow_of(code), self._used)
                self._used += len(made.flow.counted)
                if self._used > check.COUNTERS:
                    raise CompileError(
                        f"coverage: there are {check.COUNTERS:,} counters for the branches of all "
                        f"kernels of a process, and {code.co_qualname} needs more; run a part of "
                        "the program"
                    )
                self._known[key] = made
            return self._known[key]

    def compiled(self, number: int) -> None:
        """Note that some code has a counter: where the types of a signature rule a branch out, its
        code has none."""
        with self._lock:
            self._compiled.add(number)

    def is_compiled(self, number: int) -> bool:
        """Whether some code has a counter."""
        return number in self._compiled

    def __iter__(self) -> Iterator[Counted]:
        with self._lock:
            return iter(tuple(self._known.values()))

    def counts(self) -> list[int]:
        """What all counters say now."""
        with self._lock:
            return check.counts(self._used)


COUNTERS = Counters()


def is_counted(code: CodeType) -> bool:
    """Whether a function is the program's, and not one that Haulage is written in."""
    return not code.co_filename.startswith(_OWN)
