"""Which memory the tasks of streams use, as far as can be seen from outside."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from haulage.backends.cpu_driver import copies
from haulage.backends.cpu_driver.memory import Memory
from haulage.backends.cpu_driver.tasks import Task

# Where the addresses stand in the arguments of copies, and whether bytes are written there.
_COPIES = (
    (copies.copy, ((0, True), (1, False))),
    (copies.copy_nd, ((0, True), (2, False))),
    (copies.fill, ((0, True),)),
)


class Touched:
    """Finds the allocations of `memory`, as it is now, that tasks use.

    A task that runs a kernel has one of the functions `kernels`, and as its second argument the
    bytes of a launch, whose first `header` bytes are not the kernel's arguments.
    """

    def __init__(self, memory: Memory, kernels: Sequence[Callable[..., None]], header: int) -> None:
        self._sizes = memory.sizes()
        self._starts = sorted(self._sizes)
        self._kernels = kernels
        self._header = header

    def __call__(self, task: Task) -> Iterator[tuple[int, bool]]:
        """(where memory starts, whether the task may write there) for each that it uses.

        Memory of others is named by the address that the task has.
        """
        if task.function in self._kernels:
            # Nothing says which of the arguments are pointers; what could be one is taken for one.
            words = memoryview(task.args[1])[self._header :]
            for word in words[: len(words) // 8 * 8].cast("Q"):
                start = self._allocation(word)
                if start is not None:
                    yield start, True
        for copy, places in _COPIES:
            if task.function is copy:
                for place, writes in places:
                    start = self._allocation(task.args[place])
                    yield task.args[place] if start is None else start, writes

    def _allocation(self, address: int) -> int | None:
        at = bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._starts[at] + self._sizes[self._starts[at]]:
            return self._starts[at]
        return None
