"""Where the current bytes of one storage are: they are copied only when a place needs them.

A storage is a run of bytes with a copy on the host and on each device that has used it. Each copy
has the ranges of bytes that are current in it. Who wants to use bytes acquires them at a place to
read ('r'), to read and write ('rw') or to overwrite all of them ('w'), hands its work to the stream
that it named, and releases them. Reading brings in what is not current there; releasing after a
write leaves the other copies of these bytes out of date. Nothing is copied back before someone
looks.

Streams are ordered by events, and only where the work of another stream is not done yet: users in
one stream pay for nothing.

The host can also write through views that it was given (see `leases`). Where a device reaches the
host's memory itself, as with mapped and managed memory, there is one copy for both, and nothing to
be moved.

Where a device has no room, copies on it that nobody uses give way: see `giving_way`.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import numpy as np

from haulage import forks
from haulage.errors import CoherenceError, HaulageError, OutOfMemory
from haulage.runtime import eviction, memory
from haulage.runtime.arrays import transfer
from haulage.runtime.arrays.address import address_of
from haulage.runtime.coherence import leases, moving, refreshing
from haulage.runtime.coherence.copies import Copy, Site
from haulage.runtime.coherence.exports import Exports
from haulage.runtime.coherence.given import Given
from haulage.runtime.coherence.giving_way import GivingWay
from haulage.runtime.coherence.guard import Guard
from haulage.runtime.coherence.leases import Leases
from haulage.runtime.coherence.lost import Lost
from haulage.runtime.device import Device
from haulage.runtime.memory import Block, owners
from haulage.runtime.ranges import Ranges
from haulage.runtime.stream import Stream
from haulage.runtime.stream_arguments import StreamLike, resolve
from haulage.runtime.transfers.account import Account
from haulage.runtime.transfers.entry import HOST, View
from haulage.runtime.transfers.named import Named

Place = Device | Literal["host"]
Mode = Literal["r", "rw", "w"]

T = TypeVar("T")

_alive: "weakref.WeakSet[Coherence]" = weakref.WeakSet()

# Where the host has written to so many places, all of it is brought there.
_MANY_RUNS = 64

# Seconds in which others at work with a storage are done, unless they wait for one who waits.
_PATIENCE = 10


class Coherence(GivingWay):
    """The copies of one storage of `nbytes` bytes, and which bytes of them are current.

    At first none is: the bytes are undefined, and the first place where some are acquired gets them
    so, without a copy. All methods can be called from several threads. `part` is the bytes that are
    meant, all where it is None.

    Args:
        nbytes: size of the storage.
        what: what it is, in words; it is called that, and by the line that makes it now.
        host: host memory that holds the bytes, which are then current on the host: an array with
            one axis and dtype uint8, without gaps, writeable. None: allocated when needed.
        shared: the block that `host` lies in, where that is memory which devices reach too.
        is_defined: False: what is in `host` is not defined.
        grain: bytes of an element, which is written as a whole.

    Attributes:
        name: what it is called in transfers and in messages.
        account: its transfers with their causes, and what needed none.
        transfers: the last of these.
    """

    def __init__(
        self,
        nbytes: int,
        what: str,
        host: np.ndarray | None = None,
        shared: Block | None = None,
        is_defined: bool = True,
        grain: int = 1,
    ) -> None:
        self.nbytes = nbytes
        mark = owners.mark()
        self.name = name = Named(what, mark)
        self.account = Account(name, nbytes)
        self.transfers = self.account.recent
        self._whole = Ranges.of(0, nbytes)
        self._defined = self._whole if host is not None and is_defined else Ranges()
        self._host = host
        self._shared = shared
        # Streams of devices that work with shared memory, and those of them that write.
        self._host_writers: tuple[Stream, ...] = ()
        self._on_host = Site(self._defined)
        # Streams that may still read pinned host memory for an upload.
        self._uploading: list[Stream] = []
        self._copies: dict[Device, Copy] = {}
        # What is being written on the host between `acquire` and `release`.
        self._host_writing: list[Ranges] = []
        # Views of `host_view` with mode 'w' in which nothing counts as written yet.
        self._open: list[leases.Record] = []
        self._leases = Leases(name)
        self._exports = Exports(name, grain)
        self._given = Given(grain)
        self._lost = Lost(name)
        self._written_at: Place | None = None
        # Where a copy gave way that was current and `seen`: what was written there came along.
        self._gone: set[Device] = set()
        self._guard = Guard()
        _alive.add(self)
        if self._defined:
            self._on_host.mark = mark
            self.account.wrote(mark, self._defined)

    # ---- the protocol -----------------------------------------------------------------------

    def acquire_host(
        self, mode: Mode, why: str, part: Ranges | None = None, around: int = 0
    ) -> np.ndarray:
        """All bytes on the host, as an array of uint8, once nothing else uses `part` of them.

        With 'r' and 'rw' that part is current; with 'w' it must all be written before `release`.
        If it has to be brought there, the blocks of `around` bytes that it is in come with it.

        Raises:
            KernelError: a kernel that was waited for had failed.
            CoherenceError: a view was written to at the same time as a device.
        """
        _check_mode(mode)
        own = self._part(part)
        if self._exports.records:
            self._wait_for_others(None, mode != "r")
        with self._guard:
            host = self._acquired_on_host(mode, why, own, around)
            if mode != "r":
                self._host_writing.append(own)
            return host

    def _acquired_on_host(self, mode: Mode, why: str, part: Ranges, around: int = 0) -> np.ndarray:
        host = self._host
        if mode == "r" and host is not None and self._is_at_rest(part):
            return host
        self._settle(None, part)
        self._look_for_lost(mode, part)
        if around and not self._on_host.valid.covers(part):
            part |= self._not_being_written(part.blocks(around, self.nbytes))
        host = self._bring_to_host(mode, why, part)
        self._on_host.acquired |= part
        return host

    def host_alone(self, part: Ranges) -> np.ndarray | None:
        """All bytes on the host, to write `part` of them at once, if it is current there and
        nowhere else, so that nothing is to be moved and nothing gets out of date by it."""
        with self._guard:
            if (
                self._host is None
                or not self._is_at_rest(part)
                or any(copy.valid or copy.acquired for copy in self._copies.values())
            ):
                return None
            self._written(HOST, part, (), owners.mark())
            return self._host

    def _is_at_rest(self, part: Ranges) -> bool:
        """Whether the host can read some bytes as they are, and nothing is to be noted before."""
        return not (
            self._leases.records or self._uploading or self._shared or self._exports.records
        ) and self._on_host.valid.covers(part)

    def is_at_rest_on(self, device: Device, part: Ranges) -> bool:
        """Whether a device can read and write some bytes as they are, and nothing is to be moved
        or noted before."""
        copy = self._copies.get(device)
        return (
            copy is not None
            and not (self._leases.records or self._lost.pieces or copy.block.closed)
            and not self._exports.records
            and copy.valid.covers(part)
        )

    def lease_host(self, mode: Mode, why: str, part: Ranges | None = None) -> np.ndarray:
        """`acquire_host`, for an array through which `part` can be written at any time: as long as
        it or any view of it lives, that counts as changed whenever a device needs it.

        Raises:
            KernelError, CoherenceError: as `acquire_host`.
        """
        _check_mode(mode)
        if self._exports.records:
            self._wait_for_others(None, mode != "r")
        with self._guard:
            own, mark = self._part(part), owners.mark()
            host = self._acquired_on_host(mode, why, own)
            if mode == "w":
                self._written(HOST, own, (), mark)
            leased, record = leases.view(host, own, mark, why, mode == "w")
            self._leases.records.append(record)
            self._agree()
            return leased

    @contextmanager
    def host_view(self, mode: Mode, why: str, part: Ranges | None = None) -> Iterator[np.ndarray]:
        """`lease_host` for the body of a `with`, at whose end `part` was written.

        With mode 'w' it counts as written before if somebody needs it before. Else, where the body
        raises, it is as for `cancel`.

        Raises:
            KernelError: as `acquire_host`.
            CoherenceError: as `acquire_host`; and at the end, if a device was written meanwhile.
        """
        _check_mode(mode)
        own = self._part(part)
        self._wait_for_others(None, mode != "r")
        with self._guard:
            host = self._acquired_on_host(mode, why, own)
            leased, record = leases.view(host, own, owners.mark(), why, mode == "w")
            self._leases.records.append(record)
            if mode == "w":
                self._host_writing.append(own)
                self._open.append(record)
            else:
                self._agree()
        del host
        try:
            yield leased
        except BaseException:
            with self._guard:
                is_open = self._is_closed(record)
                if is_open:
                    self.cancel(HOST, own)
            if not is_open:
                self._count_view(record)
            raise
        with self._guard:
            is_open = self._is_closed(record)
            if is_open:
                self.release(HOST, mode, part=own)
                self._agree()
        if not is_open:
            self._count_view(record)
            with self._guard:
                self._leases.check(record, record.stale, self._host)

    def _is_closed(self, record: leases.Record) -> bool:
        """No longer count a view as open; whether it was."""
        is_open = record in self._open
        if is_open:
            self._open.remove(record)
        return is_open

    def _count_open(self, part: Ranges) -> None:
        """Count views as written whose `with` goes on, if somebody needs some of their bytes."""
        for record in [record for record in self._open if record.part & part]:
            self._open.remove(record)
            self._is_written_on_host(record.part)
            self._written(HOST, record.part, (), record.mark, record.view)

    def acquire_device(
        self,
        device: Device,
        mode: Mode,
        stream: StreamLike,
        why: str,
        part: Ranges | None = None,
    ) -> Block:
        """The block with the bytes on `device`, for work that is handed to `stream` from now on.

        With 'r' and 'rw' the bytes are current for that work; with 'w' it must write them all.
        The bytes stay at that place as long as somebody holds the block, or until `release`.

        Raises:
            DeviceMismatch: the stream is of another device.
            OutOfMemory: the device has no room for them.
            ValueError: mode is unknown, or the block was given back.
            CoherenceError: a view was written to at the same time as a device.
        """
        bound = resolve(stream, device)
        self._wait_for_others(device, mode != "r")
        with self._guard:
            # The block before the lock is given up: who holds it uses it.
            found = self._acquired_on(device, mode, bound, why, self._part(part))
            return found if isinstance(found, Block) else found.block

    def acquire_array(
        self,
        device: Device,
        mode: Mode,
        stream: Stream,
        why: str,
        make: Callable[[Block], T],
        key: Any = None,
        part: Ranges | None = None,
        given: int = 0,
        ways: int = 0,
    ) -> T:
        """`acquire_device`, for what `make(block)` gives: the same for one block and key, mostly.

        It is for an argument of a kernel or the like of `given` bytes, unless `ways` is 0: see
        `Account.launched`.

        Raises:
            OutOfMemory, ValueError, CoherenceError: as `acquire_device`.
        """
        if self._exports.records:
            self._wait_for_others(device, mode != "r")
        with self._guard:
            found = self._acquired_on(device, mode, stream, why, self._part(part))
            if ways:
                self.account.launched(given, ways)
            if isinstance(found, Block):
                return make(found)
            array: T | None = found.arrays.get(key)
            if array is None:
                array = make(found.block)
                found.keep(key, array)
            return array

    def give(self, part: Ranges, loan: Block) -> None:
        """Note that the program has an array over `loan`, and may write to it before it calls
        `mark_changed`."""
        with self._guard:
            self._given.add(part, loan)
            if self._leases.records:
                self._agree()

    def take_over(self, block: Block, stream: Stream) -> None:
        """Have a block of as many bytes as the copy on its device, whose bytes work of `stream` has
        made. Nothing is current anywhere yet, and nobody else uses the block."""
        with self._guard:
            self._copies[block.device] = Copy(block)
            eviction.add(self)
            self._written(block.device, self._whole, (stream,), owners.mark())

    def release(
        self, place: Place, mode: Mode, stream: StreamLike = 0, part: Ranges | None = None
    ) -> None:
        """Say that all work on an acquired place has been handed to the stream of `acquire`.

        After a write ('rw' or 'w') the bytes are current at this place only.

        Raises:
            CoherenceError: another place was written since `acquire`; what was written here is out
                of date.
            ValueError: mode is unknown.
        """
        _check_mode(mode)
        if mode == "r":
            return
        own = self._part(part)
        with self._guard:
            site = self._site(place)
            if isinstance(site, Copy):
                site.writing -= own
            elif isinstance(place, str):
                self._is_written_on_host(own)
            if not site.acquired.covers(own):
                raise self._written_twice(place)
            writers = () if isinstance(place, str) else (resolve(stream, place),)
            self._written(place, own, writers, owners.mark(2))

    def cancel(self, place: Place, part: Ranges | None = None) -> None:
        """Say that work for which bytes were acquired with 'w' was not done: nothing was written,
        or something that nobody wants; but on the host, what was current there counts as written,
        as it may have been."""
        own = self._part(part)
        with self._guard:
            site = self._site(place)
            if isinstance(site, Copy):
                site.writing -= own
                return
            if isinstance(place, str):
                self._is_written_on_host(own)
            # What views show of it is as out of date as it was before.
            for device, copy in self._copies.items():
                self._go_stale(device, own & copy.valid - site.valid, copy.mark)
            maybe_written = own & site.valid
            if place == HOST and maybe_written:
                self._written(HOST, maybe_written, (), owners.mark())

    def mark_changed(self, place: Place, part: Ranges | None = None) -> None:
        """Say that the bytes at a place were written outside of `acquire` and `release`.

        On a device, by work in the default stream or in a stream that its block has noted. Whoever
        writes so has seen to it that all earlier work with the bytes there is done.

        Raises:
            CoherenceError: the bytes were not current there before, so that the rest of them is
                not either.
        """
        self._wait_for_others(None if isinstance(place, str) else place, True)
        with self._guard:
            own = self._part(part)
            self._forget_closed()
            self._count_open(own)
            self._merge()
            if not isinstance(place, str):
                self._count_views_beside(place, own)
            if place in self._gone:
                self._written(HOST, own, (), owners.mark())
                return
            site = self._sites().get(HOST if self._is_shared_with(place) else place)
            if site is None or not (site.valid & self._defined).covers(own):
                raise CoherenceError(
                    f"{self.name}: mark_changed({str(place)!r}), but the bytes there are not "
                    f"current{self._last_written()}; call get({str(place)!r}) before writing there"
                )
            users: tuple[Stream, ...] = ()
            if isinstance(site, Copy):
                users = site.users()
            elif not isinstance(place, str) and self._shared is not None:
                users = self._shared.users()
            self._written(place, own, users, owners.mark())

    # ---- what is where ----------------------------------------------------------------------

    def valid(self, place: Place) -> Ranges:
        """The bytes that are current at a place."""
        with self._guard:
            self._forget_closed()
            shared = isinstance(place, str) or self._is_shared_with(place)
            site = self._sites().get(HOST if shared else place)
            if site is None:
                return Ranges()
            found = site.valid & self._defined
            if self._leases.records and not shared:
                found -= self._leases.not_counted() & self._on_host.valid
            if self._exports.records:
                found -= self._exports.not_counted(None if isinstance(place, str) else place)
            return found

    def is_current(self, place: Place, part: Ranges | None = None) -> bool:
        """Whether all bytes at a place are current."""
        if not self.nbytes:
            return isinstance(place, str) or place in self._copies
        return self._defined.covers(self._part(part)) and self.valid(place).covers(self._part(part))

    def current(self, part: Ranges | None = None) -> list[Place]:
        """The places where all bytes are current, the host first."""
        places: list[Place] = [HOST, *tuple(self._copies)]
        if self._shared is not None and self._shared.device not in places:
            places.append(self._shared.device)
        return [place for place in places if self.is_current(place, part)]

    @property
    def is_shared(self) -> bool:
        """Whether devices reach the host's memory itself."""
        return self._shared is not None

    def start_in(self, block: Block) -> int:
        """Where the first byte is in a block that was acquired."""
        if block is not self._shared or self._host is None:
            return 0
        return address_of(self._host) - block.host_ptr

    def has_copy_in(self, block: Block) -> bool:
        """Whether a device's copy has memory in common with a block."""
        start, stop = block.device_ptr, block.device_ptr + block.nbytes
        with self._guard:
            return any(
                copy.block.device_ptr < stop and start < copy.block.device_ptr + copy.block.nbytes
                for copy in self._copies.values()
                if copy.block.device is block.device
            )

    # ---- what nobody tells ------------------------------------------------------------------

    def _settle(self, place: Device | None, part: Ranges, needed: Ranges | None = None) -> None:
        """Count what was written through views, by those that live of the bytes that are `needed`
        on a device, by those that are gone all; and by others that have a device's memory, when
        `part` is needed at another `place` (None: the host).

        Raises:
            CoherenceError: the same was written in two places.
        """
        if self._open:
            self._count_open(part)
        if self._exports.records:
            self._merge()
            self._count_others(place, part)
        if self._leases.records:
            self._count_views(needed)

    def _count_views(self, needed: Ranges | None = None) -> None:
        known = self._exports.all_common()
        for own, record in self._leases.written(needed, self._host):
            self._count_as_written(own - known, record, record.view)

    def _count_view(self, record: leases.Record) -> None:
        """Count what was written through one view."""
        if self._exports.records:
            self._wait_for_others(None, True)
        with self._guard:
            self._merge()
            self._count_as_written(record.fresh - self._exports.all_common(), record)

    def _count_views_beside(self, device: Device, part: Ranges) -> None:
        """Count what was written through views since the program was given the array of a device
        that it has written to."""
        part &= self._given.common(device)
        if part and self._host is not None:
            changed = self._given.changed(part, self._host)
            for record in self._leases.records:
                self._count_as_written(record.fresh & changed, record, record.view)

    def _count_as_written(
        self, part: Ranges, record: leases.Record, view: View | None = None
    ) -> None:
        part &= self._on_host.valid
        if part:
            self._written(HOST, part, (), record.mark, view)

    def _go_stale(self, device: Device, part: Ranges, since: owners.Mark) -> None:
        """Note on the views of `part` that they are out of date."""
        if self._leases.records:
            assert self._host is not None
            if self._leases.become_stale(part, self._host, device, since):
                refreshing.expect(self, device)

    def refresh(self, device: Device, why: str) -> bool:
        """Bring views that live up to date with what a device wrote; False if somebody is at work
        with the storage and does not come to an end, as he may wait for this thread.

        Raises:
            KernelError: a kernel that was waited for had failed.
            CoherenceError: such a view was written to at the same time as a device.
        """
        if not self._guard.entered_within(_PATIENCE):
            return False
        try:
            self._merge()
            if any(self._leases.out_of_date(device)):
                # What is gone is no longer to be brought up to date.
                self._count_views()
            for part in self._leases.out_of_date(device):
                self._look_for_lost("r", part)
                self._bring_to_host("r", why, part)
            self._agree()
            return True
        except HaulageError:
            if not self._lost.pieces:
                # That is told once, and the next wait brings them up to date.
                refreshing.expect(self, device)
            raise
        finally:
            self._guard.__exit__()

    def writers(self, device: Device) -> tuple[Stream, ...]:
        """The streams whose work may still write what is current on a device."""
        copy = self._copies.get(device)
        return copy.writers if copy is not None else ()

    # ---- copies -----------------------------------------------------------------------------

    @property
    def _is_pinned(self) -> bool:
        return self._host is not None and transfer.block_of(self._host) is not None

    def _start_anew(self) -> None:
        """In a child that was forked: the lock may be held by a thread that it does not have; and a
        driver does not live on in it, so that nobody works with a device's memory."""
        self._guard = Guard()
        for device in {each.device for each in self._exports.records}:
            if not device.properties.host_memory_is_device_memory:
                self._exports.end(device)

    def _part(self, part: Ranges | None) -> Ranges:
        return self._whole if part is None else part

    def _is_shared_with(self, place: Place) -> bool:
        shared = self._shared
        return (
            shared is not None
            and not isinstance(place, str)
            and (shared.device is place or shared.is_mapped_for(place))
        )

    def _site(self, place: Place) -> Site:
        if isinstance(place, str) or self._is_shared_with(place):
            return self._on_host
        return self._copies[place]

    def _sites(self) -> dict[Place, Site]:
        sites: dict[Place, Site] = {HOST: self._on_host}
        for device, copy in self._copies.items():
            sites[device] = copy
        return sites

    def _acquired_on(
        self, device: Device, mode: Mode, bound: Stream, why: str, part: Ranges
    ) -> Copy | Block:
        _check_mode(mode)
        if self.is_at_rest_on(device, part):
            # What most launches find, without looking at what is missing.
            copy = self._copies[device]
            self.account.used(part.nbytes, True)
            moving.order(bound, copy.writers if mode == "r" else copy.users())
            copy.is_used(mode, bound, part)
            if mode != "r":
                self._is_to_be_written(copy, mode, bound, part)
            return copy
        if self._is_shared_with(device):
            return self._acquired_shared(mode, bound, why, part)
        known = self._copies.get(device)
        if self._leases.records or self._exports.records:
            # Who writes there has counted what views wrote before.
            self._settle(device, part, part if known is None else part - known.writing)
        self._look_for_lost(mode, part)
        copy = self._copies.get(device) or self._new_copy(device)
        is_there = mode == "w" or copy.valid.covers(part)
        missing = Ranges() if is_there else part - copy.valid
        sent = missing & self._defined
        self.account.used(part.nbytes, not sent)
        if sent:
            # Before anything is in the stream: this may have to wait for another device.
            source = self._bring_to_host("r", why, sent)
            moving.order(bound, copy.users())
            # Who has a view may write to it as soon as this returns, and the copy may run on.
            aside = self._is_pinned and self._leases.reach(sent)
            joined = sent.joined(moving.MOST_RUNS, self._on_host.valid - copy.writing)
            moving.upload(source, joined, copy, bound, self.account, why, aside)
            if bound.handle and not bound.idle():
                self._uploading.append(bound)
        else:
            moving.order(bound, copy.writers if mode == "r" else copy.users())
        if missing:
            copy.valid |= missing
            self._defined |= missing
        if sent and self._leases.records and self._given.records:
            self._agree()
        copy.is_used(mode, bound, part)
        if mode != "r":
            self._is_to_be_written(copy, mode, bound, part)
        return copy

    def _is_to_be_written(self, copy: Copy, mode: Mode, bound: Stream, part: Ranges) -> None:
        """See that each byte has one value also where a launch is interrupted, so that nobody says
        whether the kernel was handed over: that on the device, but where it was to be overwritten,
        that of the other places."""
        if copy.writers != (bound,):
            copy.writers = moving.with_earlier((bound,), copy.writers)
        if not self._on_host.valid.runs and len(self._copies) == 1:
            return
        others = [site for site in self._sites().values() if site is not copy]
        for site in others:
            if mode == "w":
                copy.valid -= site.valid & part
            else:
                site.valid -= part

    def _acquired_shared(self, mode: Mode, bound: Stream, why: str, part: Ranges) -> Block:
        """The host's memory, for work of a device that reaches it."""
        assert self._shared is not None
        self._settle(self._shared.device, part)
        self.account.used(part.nbytes, self._on_host.valid.covers(part & self._defined))
        if mode != "w":
            self._take_in(why, part - self._on_host.valid)
        else:
            self._overwrite_stale(why, part)
        moving.order(bound, self._host_writers if mode == "r" else self._shared.users())
        self._shared.use(bound)
        self._on_host.acquired |= part
        return self._shared

    def _look_for_lost(self, mode: Mode, part: Ranges) -> None:
        """See that the elements are anywhere, after memory was given back under them."""
        self._forget_closed()
        if mode != "w" and self._lost.pieces:
            self._lost.check(part)

    def _forget_closed(self) -> None:
        """Note which bytes are lost with copies whose memory was given back."""
        for device, copy in tuple(self._copies.items()):
            if copy.block.closed:
                own = copy.valid & self._defined
                del self._copies[device]
                for site in self._sites().values():
                    own -= site.valid
                for export in self._exports.end(device):
                    # Others may have written to it, whoever else has what was there before.
                    changed = export.part & copy.valid & self._defined
                    for site in self._sites().values():
                        site.is_overtaken(changed)
                    own |= changed
                if own:
                    self._lost.note(own, device, copy.block.closed_at)

    def _new_copy(self, device: Device) -> Copy:
        # A callback for want of room may make one itself.
        try:
            made = Copy(memory.allocate(device, self.nbytes))
        except OutOfMemory:
            if device not in self._copies:
                raise
            return self._copies[device]
        eviction.add(self)
        self._gone.discard(device)
        return self._copies.setdefault(device, made)

    def _bring_to_host(self, mode: Mode, why: str, part: Ranges) -> np.ndarray:
        while self._uploading:
            self._uploading[-1].finish()
            self._uploading.pop()
        if self._shared is not None:
            # To be read once it is written, and written once nobody reads it.
            for stream in self._host_writers if mode == "r" else self._shared.users():
                stream.finish()
            self._host_writers = ()
        host = self._host
        if host is None:
            host = self._host = memory.on_host(np.empty, self.nbytes, np.uint8)
        if mode != "w":
            self._take_in(why, part - self._on_host.valid)
            return host
        self._overwrite_stale(why, part)
        if len(self._on_host.valid.runs) > _MANY_RUNS:
            self._take_in(why, self._whole - self._on_host.valid)
        return host

    def _take_in(self, why: str, missing: Ranges) -> None:
        """Make bytes current on the host."""
        if not missing:
            return
        host = self._host
        assert host is not None
        if self._leases.records:
            missing = self._leases.whole_pieces(missing)
            self._leases.check_in(missing, host)
        try:
            self._download(why, host, missing)
        except BaseException:
            self._leases.leave_open(missing)
            raise
        self._on_host.valid |= missing
        self._defined |= missing
        self._leases.forget_stale(missing)
        self._agree()

    def _download(self, why: str, host: np.ndarray, missing: Ranges) -> None:
        """Bring bytes to the host from the copies that have them."""
        for device, copy in tuple(self._copies.items()):
            found = missing & self._defined & copy.valid - self._on_host.valid
            if found:
                # Who has a view, and another thread, may write between them.
                same = self._not_being_written(self._leases.out_of_reach(copy.valid))
                joined = found.joined(moving.MOST_RUNS, same)
                self._wait_for_readers()
                moving.download(host, joined, device, copy, self.account, why)
                self._on_host.valid |= found

    def _wait_for_readers(self) -> None:
        """Wait for work of devices that reach the host's memory, before that is written to."""
        if self._shared is not None:
            for stream in self._shared.users():
                stream.finish()

    def _overwrite_stale(self, why: str, part: Ranges) -> None:
        """What views show of `part` is up to date when the host has written all of it."""
        if self._leases.records:
            self._take_in(why, self._leases.partly_stale(part) - self._on_host.valid)
            self._leases.check_in(part, self._host)
            self._leases.forget_stale(part)

    def _written(
        self,
        place: Place,
        part: Ranges,
        writers: tuple[Stream, ...],
        mark: owners.Mark,
        view: View | None = None,
    ) -> None:
        own = self._site(place)
        self._written_at = place
        own.mark = mark
        self.account.wrote(mark, part, view)
        if isinstance(own, Copy) and own.valid.covers(part) and self._is_only_there():
            own.seen = False
            if own.writers != writers:
                own.writers = moving.with_earlier(writers, own.writers)
            return
        self._defined |= part
        if self._lost.pieces:
            self._lost.forget(part)
        if not isinstance(place, str) and own is not self._on_host:
            self._go_stale(place, part, mark)
        own.valid |= part
        if own is not self._on_host:
            self._on_host.is_overtaken(part)
        for copy in self._copies.values():
            if copy is not own:
                copy.is_overtaken(part)
            copy.seen = copy.seen and copy is not own and bool(copy.valid)
        if isinstance(own, Copy):
            own.writers = moving.with_earlier(writers, own.writers)
        elif writers:
            self._host_writers = moving.with_earlier(writers, self._host_writers)
        self._gone.clear()
        if self._given.parts:
            self._given.forget(part)
        if self._exports.records:
            self._write_through(part)

    def _is_only_there(self) -> bool:
        """Whether there is one copy, and nothing but the account of what it has can change when it
        is written where it is current."""
        host = self._on_host
        return len(self._copies) == 1 and not (
            host.valid.runs
            or host.acquired.runs
            or self._leases.records
            or self._exports.records
            or self._lost.pieces
            or self._gone
        )

    def _written_twice(self, place: Place) -> CoherenceError:
        return CoherenceError(
            f"{self.name}: {place} and {self._written_at} were written at the same time"
            f"{self._last_written()}, {place} at {owners.site(owners.mark())}; order these writes, "
            "or give each of them an array of its own"
        )

    def _last_written(self) -> str:
        """In words, behind a sentence."""
        last = self._written_at
        if last is None:
            return ""
        site = self._sites().get(HOST if self._is_shared_with(last) else last)
        mark = site.mark if site is not None else ()
        return f"; {last} was written last{f' at {owners.site(mark)}' if mark else ''}"

    def __repr__(self) -> str:
        places = ", ".join(map(str, self.current())) or "nowhere"
        return f"<Coherence of {self.name}, current: {places}>"


def _check_mode(mode: str) -> None:
    if mode not in ("r", "rw", "w"):
        raise ValueError(f"mode {mode!r}: expected 'r', 'rw' or 'w'")


def _start_anew() -> None:
    for storage in tuple(_alive):
        storage._start_anew()


forks.in_child(_start_anew)
