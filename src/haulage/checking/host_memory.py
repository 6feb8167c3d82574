"""The memory check of the host's part: what is used or freed after it was freed, and what the
program still has to give back when it ends."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from haulage.checking.findings import FREED, LEAK, Access, Finding, Findings
from haulage.checking.memory_map import Piece, Pieces, Use
from haulage.checking.places import place_of
from haulage.runtime.buffers.pinned_memory import registered
from haulage.runtime.exchange.ipc import opened
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite

if TYPE_CHECKING:
    from haulage.runtime.memory import Block

# So many pieces of memory that are free again are known.
_MOST_FREED = 4096


class MemoryCheck:
    """Finds what is used after it was given back.

    Memory is free that a block had, that no other has now, and that Haulage holds for later ones:
    what it gave back to the system may be anybody's.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._held = Pieces()
        self._freed = Pieces()
        self._order: dict[int, None] = {}
        # The blocks, by their generation, whose memory later ones may have.
        self._own: set[int] = set()
        # Where host memory was pinned, by its address.
        self.registrations: dict[int, CallSite] = {}

    # ---- what is told ---------------------------------------------------------------------------

    def driver_gave(self, address: int, nbytes: int) -> None:
        """The driver gave memory to Haulage."""
        self._held.add(Piece(None, address, address + nbytes, (), []))

    def driver_takes(self, address: int, nbytes: int = 1) -> None:
        """Memory goes back to the driver."""
        self._held.remove_all(address, address + nbytes)

    def registered(self, address: int) -> None:
        """Host memory is pinned."""
        self.registrations[address] = call_sites.current()

    def allocated(self, block: "Block") -> None:
        """A block has memory."""
        if block.pool is None:
            return  # of whoever names an address
        self._freed.remove_all(block.device_ptr, block.device_ptr + block.nbytes)
        if block.release is not None:
            return  # an allocator of the program's may do with it what it likes
        self._own.add(block.generation)
        if not self.is_held(block.device_ptr):
            with suppress(ValueError):  # it has its memory from the driver by itself
                self.driver_gave(*block.unit)  # before the check began

    def freed(self, block: "Block") -> None:
        """A block's memory is given back."""
        if block.generation not in self._own:
            return
        self._own.discard(block.generation)
        where = block.closed_at or call_sites.current()
        start = block.device_ptr
        self._freed.add(Piece(where, start, start + block.nbytes, block.call_site, []))
        self._order[start] = None
        if len(self._order) > _MOST_FREED:
            oldest = next(iter(self._order))
            del self._order[oldest]
            self._freed.remove(oldest)

    def is_held(self, address: int) -> bool:
        """Whether Haulage has the memory at an address from a driver."""
        return self._held.find(address) is not None

    # ---- what is found --------------------------------------------------------------------------

    def used(self, use: Use) -> None:
        """Work uses memory that no block has."""
        address = use.region.extent[0]
        piece = self._freed.find(address)
        if piece is None or not self.is_held(address):
            return
        name = f" {use.array!r}" if use.array else ""
        self._findings.add(
            Finding(
                FREED,
                f"{use.what} is given memory{name} of {piece.stop - piece.start} bytes that was "
                "given back: keep the array that it is of until the work is done",
                use.access,
                Access(place_of(piece.key), "free"),
                use.array,
                allocated=place_of(piece.call_site),
            )
        )

    def used_after_close(self, block: "Block") -> None:
        """A closed block is about to be used."""
        self._misused(
            block,
            "use",
            f"memory of {block.nbytes} bytes is used after it was closed: close it later, or "
            "allocate a new array",
        )

    def freed_again(self, block: "Block") -> None:
        """A closed block is freed by hand."""
        self._misused(block, "free", f"memory of {block.nbytes} bytes is freed twice: free it once")

    def _misused(self, block: "Block", what: str, message: str) -> None:
        self._findings.add(
            Finding(
                FREED,
                message,
                Access(place_of(call_sites.current()), what),
                Access(place_of(block.closed_at), "free"),
                allocated=place_of(block.call_site),
            )
        )


def leaks(check: MemoryCheck) -> Iterator[Finding]:
    """What the program was to give back by hand and has not, now that it ends: memory of other
    processes that it opened, and host arrays that it pinned.

    Arrays that are alive are no leak: Python frees them where nothing has them any more, and what
    the program still has goes with the process.
    """
    for block in tuple(opened):
        if not block.closed:
            yield _leak(
                f"memory of another process, {block.nbytes} bytes, was opened and not closed: "
                "close() the IPC handle, or open it by `with`",
                "open",
                block.call_site,
            )
    for start, (stop, *_) in registered.items():
        if start in check.registrations:
            yield _leak(
                f"a host array of {stop - start} bytes was pinned and not unpinned: deregister() "
                "it, or pin it by `with`",
                "pin",
                check.registrations[start],
            )


def _leak(message: str, what: str, call_site: CallSite) -> Finding:
    place = place_of(call_site)
    return Finding(LEAK, message, Access(place, what), allocated=place)
