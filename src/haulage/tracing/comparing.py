"""What a traced program copied again, by line."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from haulage.runtime.process.observing import DOWNLOAD, UPLOAD
from haulage.tracing.repeats import Repeats

if TYPE_CHECKING:
    from haulage.runtime.buffers.host_copy import HostCopy
    from haulage.runtime.memory import Block
    from haulage.runtime.transfers.entries import Transfer
    from haulage.tracing.recorder import Recorder


@dataclass(frozen=True)
class _Line:
    """The innermost line that asks for a copy, the argument of its launch, and with its callers."""

    line: int
    path: tuple[int, ...] | None
    place: int = field(compare=False)


class Comparing:
    """A watcher of copies that counts those that repeat unchanged data.

    It holds no memory, as the trace shows who does: of what the program has let go of nobody knows
    whether the device had it still, and a copy that repeats that counts and is `unsure`.
    """

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        self._repeats = Repeats(hold=False)
        # (kind, device, place of the copy before, place of this one) -> [how many, bytes]
        self.found: dict[tuple[str, str, int, int], list[int]] = {}
        # Copies, and their bytes, that were still on their way and could not be compared.
        self.not_compared = [0, 0]
        self.unsure = 0

    def moved(self, one: "Transfer") -> None:
        """SmartArrays copy what changed only."""

    def around(self, copy: "HostCopy", call: Callable[[], object]) -> None:
        """Compare a copy with those before."""
        recorder = self._recorder
        place = recorder.place(copy.call_site)
        path = None if copy.argument is None else copy.argument.path
        line = _Line(recorder.place(copy.call_site[:1]), path, place)

        def hand() -> None:
            with recorder.told():
                call()

        with recorder.untold():
            looked = self._repeats.around(copy, line, hand)
        nbytes = copy.nbytes
        if not looked.compared:
            self.not_compared[0] += 1
            self.not_compared[1] += nbytes
        elif looked.before is not None:
            known = looked.before.known
            first = place if known is None else known.row.place
            kind = DOWNLOAD if copy.to_host else UPLOAD
            found = self.found.setdefault((kind, str(copy.stream.device), first, place), [0, 0])
            found[0] += 1
            found[1] += nbytes
            self.unsure += looked.before.is_unsure

    def closing(self, block: "Block") -> None:
        """Look at what a block has before it is closed."""
        with self._recorder.untold():
            self._repeats.closing(block)

    def let_go(self) -> None:
        """It holds nothing."""
