"""What a storage does for other libraries that have memory of its copies: see `exports`."""

from typing import Literal

import numpy as np

from haulage.runtime.coherence import moving, refreshing
from haulage.runtime.coherence.copies import Copy, Site
from haulage.runtime.coherence.exports import Exports, Hold
from haulage.runtime.coherence.given import Given
from haulage.runtime.coherence.guard import Guard
from haulage.runtime.coherence.leases import Leases
from haulage.runtime.coherence.loans import Loan
from haulage.runtime.device import Device
from haulage.runtime.memory import Block, owners
from haulage.runtime.ranges import Ranges
from haulage.runtime.stream import Stream
from haulage.runtime.transfers.account import Account
from haulage.runtime.transfers.entry import OTHERS, View


class Lending:
    """The part of `Coherence` that lends, and lets nobody miss what somebody wrote unseen."""

    account: Account
    _whole: Ranges
    _defined: Ranges
    _host: np.ndarray | None
    _on_host: Site
    _host_writing: list[Ranges]
    _copies: dict[Device, Copy]
    _leases: Leases
    _exports: Exports
    _given: Given
    _guard: Guard

    def start_in(self, block: Block) -> int:
        """Where the first byte is in a block that was acquired."""
        raise NotImplementedError

    def acquire_device(
        self, device: Device, mode: Literal["r"], stream: Stream, why: str, part: Ranges
    ) -> Block:
        """The block with the bytes on `device`."""
        raise NotImplementedError

    def _site(self, place: Device) -> Site:
        raise NotImplementedError

    def _is_shared_with(self, place: Device) -> bool:
        raise NotImplementedError

    def _bring_to_host(self, mode: Literal["r"], why: str, part: Ranges) -> np.ndarray:
        raise NotImplementedError

    def _written(
        self,
        place: Device,
        part: Ranges,
        writers: tuple[Stream, ...],
        mark: owners.Mark,
        view: View | None = None,
    ) -> None:
        raise NotImplementedError

    # ---- giving away ------------------------------------------------------------------------

    def loan(self, block: Block) -> Loan:
        """A block that was acquired, for an array that the program is given."""
        return Loan(block, self)

    def lend(self, block: Block, start: int, stop: int, readonly: bool) -> Hold | None:
        """What another library is to hold as long as it has bytes of a block that was acquired; it
        has the current ones. None: the block is no copy of this storage any more.

        Raises:
            CoherenceError: another device's are in the hands of one that writes to them.
            ValueError, OutOfMemory, KernelError: as `acquire_device`.
        """
        device, before = block.device, self.start_in(block)
        part, mark = (
            Ranges.of(start - before, stop - before) & self._whole,
            owners.mark_of_program(),
        )
        if not part:
            return None
        stream = device.default_stream
        there = self.acquire_device(device, "r", stream, "another library", part)
        if there is not block:
            return None
        with self._guard:
            hold = self._exports.add(device, part, not readonly, mark)
            self._agree()
            return hold

    def _wait_for_others(self, place: Device | None, writing: bool) -> None:
        """Wait for what other libraries do with devices' memory that a place (None: the host) is to
        have. Before the lock is entered: their work may be what another thread waits for in it."""
        viewed = bool(self._leases.records)
        for device in self._exports.to_be_waited_for(place, writing, viewed):
            device.finish()

    def _is_written_on_host(self, part: Ranges) -> None:
        if part in self._host_writing:
            self._host_writing.remove(part)

    def _not_being_written(self, part: Ranges) -> Ranges:
        for own in self._host_writing:
            part -= own
        return part

    def _count_others(self, place: Device | None, needed: Ranges) -> None:
        """Count what others have written to devices' memory when some bytes are needed at a place;
        once the devices are waited for."""
        known = self._exports.all_common()
        for export, part in self._exports.written(place, needed):
            device = export.device
            if device in self._copies or self._is_shared_with(device):
                own = self._not_being_written(part - known) & self._site(device).valid
                if own:
                    view = View(OTHERS, export.is_alive)
                    self._written(device, own, (), export.mark, view)

    def _merge(self) -> None:
        """See who has written what a view of the host and another library can both write, and let
        both have it; once the devices are waited for.

        Raises:
            CoherenceError: both have written the same elements.
        """
        for device, copy in tuple(self._copies.items()):
            part = self._not_being_written(self._exports.common(device))
            if part and not copy.block.closed:
                self._merge_with(device, copy, part)

    def _merge_with(self, device: Device, copy: Copy, part: Ranges) -> None:
        host, exports, why = self._host, self._exports, "another library and a view"
        assert host is not None
        mine, theirs = exports.changed(part, host), Ranges()
        if exports.is_written(device):
            there = np.empty_like(host)
            moving.download(there, part, device, copy, self.account, why)
            theirs = exports.changed(part, there)
            for start, stop in theirs:
                host[start:stop] = there[start:stop]
        both, viewed = mine & theirs, self._leases.mark_of(mine)
        error = exports.collision(device, both, viewed) if both else None
        mine -= theirs
        if theirs:
            self.account.wrote(exports.mark_of(device, theirs), theirs)
        if mine:
            self.account.wrote(viewed, mine)
            joined = mine.joined(moving.MOST_RUNS, part)
            self._upload_now(device, copy, joined, why)
        changed = mine | theirs
        for other in self._copies.values():
            if other is not copy:
                other.is_overtaken(changed)
        exports.forget(changed)
        self._write_through(changed)
        if error is not None:
            raise error

    def _write_through(self, part: Ranges) -> None:
        """Let others have what was written elsewhere to bytes of which they have the memory."""
        self._exports.forget(part)
        for device, copy in tuple(self._copies.items()):
            missing = self._exports.of(device) & part - copy.valid
            if missing and not copy.block.closed:
                why = "another library"
                self._bring_to_host("r", why, missing)
                self._upload_now(
                    device, copy, missing.joined(moving.MOST_RUNS, self._on_host.valid), why
                )
                copy.valid |= missing
        self._agree()

    def _upload_now(self, device: Device, copy: Copy, part: Ranges, why: str) -> None:
        assert self._host is not None
        stream = device.default_stream
        moving.order(stream, copy.users())
        moving.upload(self._host, part, copy, stream, self.account, why, aside=False)
        stream.finish()
        copy.writers = ()

    def _agree(self) -> None:
        """Keep what views of the host have in common, from now on, with others' memory and with
        what the program was given on devices."""
        exports, given, host = self._exports, self._given, self._host
        viewed = self._leases.records and given.records
        if host is None or not (exports.records or viewed or given.parts):
            return
        given.let_go()
        for device, copy in tuple(self._copies.items()):
            same = self._on_host.valid & copy.valid & self._defined
            given.agree(device, self._leases.fresh_of(same & given.of(device)), host)
            if exports.records:
                part = self._leases.fresh_of(same & exports.of(device))
                exports.agree(device, part, host)
                if part:
                    refreshing.expect(self, device)
