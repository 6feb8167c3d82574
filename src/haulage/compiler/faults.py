"""The ways in which a kernel's thread can stop, each with a number that compiled code can return.

A fault is noted where it is lowered: a `raise` with its exception, a barrier with its place in the
source (the fault is then that other threads never reach it). Numbers are positive, unique in this
process and small enough for 29 bits; they are made from what they stand for, so that code which
another process compiled can be loaded beside code of this one.
"""

from dataclasses import dataclass
from typing import Any

from haulage.compiler.numbers import BITS, Numbers
from haulage.errors import BarrierError, thread_error

# More than any fault's number.
FIGURES = 1 << BITS


@dataclass(frozen=True)
class Fault:
    """Why a thread stopped, and where in the source: an exception, or None for a barrier that it
    waits at in vain; `wave` if that is one of its wavefront only, `warp` of lanes of its warp,
    `grid` of the whole grid. `figures` says in words what a thread told of itself when it stopped,
    with a `{}` for each number; they come in a message whose number is minus the fault's, behind
    the indices of the thread and the block.
    `function` is the one with a `raise`, `array` the name of the array that an index is not of."""

    exception: type[BaseException] | None
    arguments: tuple[Any, ...]
    filename: str
    line: int
    wave: bool = False
    warp: bool = False
    grid: bool = False
    figures: str = ""
    function: str = ""
    array: str = ""

    def describe(self, kernel: str, figures: str = "", thread: str = "") -> Exception:
        """The exception for the user of `kernel`; `thread` says which one failed, if known, and
        the message then is in the order of Numba's."""
        place = f"{self.filename}:{self.line}"
        if self.wave:
            return BarrierError(
                f"kernel {kernel}: some work-items of a wavefront wait at the wavebarrier in "
                f"{place}, others of it at a barrier of the whole group; let every work-item of a "
                "wavefront reach the same barriers"
            )
        if self.warp:
            return BarrierError(
                f"kernel {kernel}: some threads of a warp wait in {place} for others that their "
                "mask names and that wait for something else; let every thread that a mask names "
                "come to the same words with the same mask"
            )
        if self.grid:
            return BarrierError(
                f"kernel {kernel}: some threads wait for the grid in {place}, where other threads "
                "of their block, or all those of another one, never come; let every block reach "
                "the same barriers of the grid"
            )
        if self.exception is None:
            return BarrierError(
                f"kernel {kernel}: some threads of a block wait at the barrier in {place}, "
                "which others, that have not returned before, never reach; let every thread of the "
                "block reach the same barriers, or return before"
            )
        text = ", ".join(str(argument) for argument in self.arguments)
        if not text and not figures:
            figures = self.figures.replace("{}", "?")
        ending = f": {text}" if text else ""
        raised = f"kernel {kernel}: a thread raised {self.exception.__name__}"
        if not thread:
            return thread_error(self.exception, f"{raised}{ending} in {place}{figures}")
        where = f"function {self.function!r}, " if self.function else ""
        where += f"file {self.filename}, line {self.line}, {thread}"
        return thread_error(self.exception, f"{raised}. In {where}{ending}{figures}")


class FaultTable:
    """Numbers for faults, given out as code is lowered; the same fault keeps its number."""

    def __init__(self) -> None:
        self._numbers = Numbers[Fault]()

    def number(self, module: Any, fault: Fault) -> int:
        """The number of `fault`, noted on the `llvmlite.ir` module whose code can give it."""
        number = self._numbers.of(fault)
        if not hasattr(module, "haulage_faults"):
            module.haulage_faults = set()
        module.haulage_faults.add(number)
        return number

    def barrier(self, module: Any, filename: str, line: int, *, wave: bool = False) -> int:
        """The number of the fault that the barrier, or wavebarrier, in this line can meet."""
        return self.number(module, Fault(None, (), filename, line, wave))

    def grid_barrier(self, module: Any, filename: str, line: int) -> int:
        """The number of the fault that the barrier of the grid in this line can meet."""
        return self.number(module, Fault(None, (), filename, line, grid=True))

    def error(
        self,
        module: Any,
        exception: type[BaseException],
        message: str,
        place: Any,
        figures: str,
        function: str = "",
        array: str = "",
    ) -> int:
        """The number of the fault of a word at a place (file, line) that stops its thread; the
        message may be in the figures alone."""
        return self.number(
            module,
            Fault(
                exception,
                (message,) if message else (),
                place[0],
                place[1],
                figures=figures,
                function=function,
                array=array,
            ),
        )

    def lanes(self, module: Any, filename: str, line: int) -> int:
        """The number of the fault that a word of warps in this line can meet."""
        return self.number(module, Fault(None, (), filename, line, warp=True))

    def select(self, numbers: set[int]) -> dict[int, Fault]:
        """The faults behind some numbers, in order."""
        return self._numbers.select(numbers)

    def claim(self, faults: dict[int, Fault]) -> bool:
        """Take the numbers that code of another process has; False if another fault has one."""
        return self._numbers.claim(faults)


TABLE = FaultTable()
