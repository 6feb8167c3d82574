"""Where the current bytes of one storage are: they are copied only when a place needs them.

A storage is a run of bytes with a replica on the host and on each device that has used it. Each
replica has ranges of bytes that are valid in it. Whoever wants to use bytes acquires them at a
place to read ('r'), to read and write ('rw') or to overwrite all of them ('w'), hands its work to
the stream that it named, and releases them. Reading brings in what is not valid there; releasing
after a write leaves the other replicas of these bytes out of date. Nothing is copied back before
someone looks.

Streams are ordered by events, and only where the work of another stream is not done yet: users in
one stream pay for nothing.

The host can also write through views that it has borrowed (`borrows`), and other libraries
through memory that was exported (`exports`). Where a device reaches the host's memory itself, as
with mapped and managed memory, there is one replica for both, and nothing to be moved.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from haulage.runtime.coherence import acquisition, borrows, eviction, refresh, writes
from haulage.runtime.coherence.exports import HandedOutBlock, Hold
from haulage.runtime.coherence.state import DeviceReplica, Mode, Place, State, in_child
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, resolve
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.memory import Block
from haulage.runtime.process import call_sites, runtime
from haulage.runtime.process.runtime import Runtime
from haulage.runtime.transfers.account import StorageName
from haulage.runtime.transfers.entries import HOST

T = TypeVar("T")


class Coherence:
    """The replicas of one storage of `nbytes` bytes, and which bytes of them are current.

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
        state: what is where, for the services of this package.
    """

    __slots__ = ("__weakref__", "account", "name", "state", "transfers")

    def __init__(
        self,
        nbytes: int,
        what: str,
        host: np.ndarray | None = None,
        shared: Block | None = None,
        is_defined: bool = True,
        grain: int = 1,
    ) -> None:
        runtime.current.once(_subscribe)
        call_site = call_sites.current()
        self.name = StorageName(what, call_site)
        self.state = state = State(nbytes, self.name, host, shared, is_defined, grain)
        self.account = state.account
        self.transfers = self.account.recent
        if state.defined:
            state.on_host.call_site = call_site
            self.account.wrote(call_site, state.defined)

    # ---- on the host ------------------------------------------------------------------------

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
        state = self.state
        own = state.whole if part is None else part
        if state.exports.records:
            writes.wait_for_exports(state, HOST, mode != "r")
        with state.lock:
            host = acquisition.on_host(state, mode, why, own, around)
            if mode != "r":
                state.host_writing.append(own)
            return host

    def host_alone(self, part: Ranges) -> np.ndarray | None:
        """All bytes on the host, to write `part` of them at once, if it is current there and
        nowhere else, so that nothing is to be moved and nothing gets out of date by it."""
        state = self.state
        with state.lock:
            if (
                state.host is None
                or not state.is_at_rest_on_host(part)
                or any(each.valid or each.acquired for each in state.replicas.values())
            ):
                return None
            writes.record(state, HOST, part, (), call_sites.current())
            return state.host

    def borrow_host(self, mode: Mode, why: str, part: Ranges | None = None) -> np.ndarray:
        """`acquire_host`, for an array through which `part` can be written at any time: as long as
        it or any view of it lives, that counts as changed whenever a device needs it.

        Raises:
            KernelError, CoherenceError: as `acquire_host`.
        """
        state = self.state
        if state.exports.records:
            writes.wait_for_exports(state, HOST, mode != "r")
        with state.lock:
            own, call_site = state.whole if part is None else part, call_sites.current()
            host = acquisition.on_host(state, mode, why, own)
            if mode == "w":
                writes.record(state, HOST, own, (), call_site)
            view, borrow = borrows.borrow(host, own, call_site, why, mode == "w")
            state.borrows.records.append(borrow)
            state.take_baselines()
            return view

    @contextmanager
    def host_view(self, mode: Mode, why: str, part: Ranges | None = None) -> Iterator[np.ndarray]:
        """`borrow_host` for the body of a `with`, at whose end `part` was written.

        With mode 'w' it counts as written before if somebody needs it before. Else, where the body
        raises, it is as for `cancel`.

        Raises:
            KernelError: as `acquire_host`.
            CoherenceError: as `acquire_host`; and at the end, if a device was written meanwhile.
        """
        state = self.state
        own = state.whole if part is None else part
        writes.wait_for_exports(state, HOST, mode != "r")
        with state.lock:
            host = acquisition.on_host(state, mode, why, own)
            view, borrow = borrows.borrow(host, own, call_sites.current(), why, mode == "w")
            state.borrows.records.append(borrow)
            if mode == "w":
                state.host_writing.append(own)
                state.borrows.pending.append(borrow)
            else:
                state.take_baselines()
        del host
        try:
            yield view
        except BaseException:
            with state.lock:
                is_pending = state.borrows.no_longer_pending(borrow)
                if is_pending:
                    self.cancel(HOST, own)
            if not is_pending:
                writes.count_borrow(state, borrow)
            raise
        with state.lock:
            is_pending = state.borrows.no_longer_pending(borrow)
            if is_pending:
                self.release(HOST, mode, part=own)
                state.take_baselines()
        if not is_pending:
            writes.count_borrow(state, borrow)
            with state.lock:
                state.borrows.check(borrow, state.host)

    # ---- on devices -------------------------------------------------------------------------

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
        state, bound = self.state, resolve(stream, device)
        writes.wait_for_exports(state, device, mode != "r")
        with state.lock:
            # The block before the lock is given up: who holds it uses it.
            own = state.whole if part is None else part
            found = acquisition.on_device(state, device, mode, bound, why, own)
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
        argument_bytes: int = 0,
        ways: int = 0,
    ) -> T:
        """`acquire_device`, for what `make(block)` gives: the same for one block and key, mostly.

        It is for an argument of a kernel or the like of `argument_bytes` bytes, unless `ways` is 0:
        see `Account.launched`.

        Raises:
            OutOfMemory, ValueError, CoherenceError: as `acquire_device`.
        """
        state = self.state
        own = state.whole if part is None else part
        at_rest: T | None = state.array_if_at_rest(stream, mode, own, key, argument_bytes, ways)
        if at_rest is not None:
            return at_rest
        if state.exports.records:
            writes.wait_for_exports(state, device, mode != "r")
        with state.lock:
            found = acquisition.on_device(state, device, mode, stream, why, own)
            if ways:
                state.account.launched(argument_bytes, ways)
            if isinstance(found, Block):
                replica, block = state.on_host, found
            else:
                replica, block = found, found.block
            array: T | None = replica.arrays.get(key)
            if array is None:
                array = make(block)
                replica.keep(key, array)
            return array

    def adopt(self, block: Block, stream: Stream) -> None:
        """Have a block of as many bytes as the replica on its device, whose bytes work of `stream`
        has made. Nothing is current anywhere yet, and nobody else uses the block."""
        state = self.state
        with state.lock:
            state.replicas[block.device] = DeviceReplica(block)
            writes.record(state, block.device, state.whole, (stream,), call_sites.current())

    # ---- the end of a use -------------------------------------------------------------------

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
        acquisition.check_mode(mode)
        if mode == "r":
            return
        state = self.state
        own = state.whole if part is None else part
        with state.lock:
            replica = state.replica(place)
            if isinstance(replica, DeviceReplica):
                replica.writing -= own
            elif isinstance(place, str):
                state.end_host_write(own)
            call_site = call_sites.current()
            if replica is None or not replica.acquired.covers(own):
                raise writes.conflict(state, place, call_site)
            writers = () if isinstance(place, str) else (resolve(stream, place),)
            writes.record(state, place, own, writers, call_site)

    def cancel(self, place: Place, part: Ranges | None = None) -> None:
        """Say that work for which bytes were acquired with 'w' was not done: nothing was written,
        or something that nobody wants; but on the host, what was current there counts as written,
        as it may have been."""
        state = self.state
        own = state.whole if part is None else part
        with state.lock:
            replica = state.replica(place)
            if replica is None:
                return
            if isinstance(replica, DeviceReplica):
                replica.writing -= own
                return
            if isinstance(place, str):
                state.end_host_write(own)
            # What views show of it is as out of date as it was before.
            for device, other in state.replicas.items():
                writes.outdate_views(
                    state, device, own & other.valid - replica.valid, other.call_site
                )
            maybe_written = own & replica.valid
            if place == HOST and maybe_written:
                writes.record(state, HOST, maybe_written, (), call_sites.current())

    def mark_changed(self, place: Place, part: Ranges | None = None) -> None:
        """Say that the bytes at a place were written outside of `acquire` and `release`.

        On a device, by work in the default stream or in a stream that its block has noted. Whoever
        writes so has seen to it that all earlier work with the bytes there is done.

        Raises:
            CoherenceError: the bytes were not current there before, so that the rest of them is
                not either.
        """
        state = self.state
        writes.wait_for_exports(state, place, True)
        with state.lock:
            own = state.whole if part is None else part
            state.forget_closed()
            writes.count_pending(state, own)
            writes.merge_with_exports(state)
            if not isinstance(place, str):
                writes.count_borrows_beside(state, place, own)
            if place in state.evicted:
                writes.record(state, HOST, own, (), call_sites.current())
                return
            replica = state.replica(place)
            if replica is None or not (replica.valid & state.defined).covers(own):
                raise writes.not_current(state, place)
            users: tuple[Stream, ...] = ()
            if isinstance(replica, DeviceReplica):
                users = replica.users()
            elif not isinstance(place, str) and state.shared is not None:
                users = state.shared.users()
            writes.record(state, place, own, users, call_sites.current())

    # ---- arrays for the program, and for other libraries ------------------------------------

    def hand_out(self, block: Block, part: Ranges, writable: bool) -> Block:
        """A block that was acquired, for an array over `part` of it that the program is handed: it
        may write to it, if that is `writable`, before it calls `mark_changed`."""
        made, state = HandedOutBlock(block, self), self.state
        if writable:
            with state.lock:
                state.handed_out.add(part, made)
                if state.borrows.records:
                    state.take_baselines()
        return made

    def export(self, block: Block, start: int, stop: int, readonly: bool) -> Hold | None:
        """What another library is to hold as long as it has bytes of a block that was acquired; it
        has the current ones. None: the block is no replica of this storage any more.

        Raises:
            CoherenceError: another library may write to these bytes on another device.
            ValueError, OutOfMemory, KernelError: as `acquire_device`.
        """
        state, device = self.state, block.device
        first = state.start_in(block)
        part, call_site = (
            Ranges.of(start - first, stop - first) & state.whole,
            call_sites.of_program(),
        )
        if not part:
            return None
        there = self.acquire_device(device, "r", device.default_stream, "another library", part)
        if there is not block:
            return None
        with state.lock:
            hold = state.exports.add(device, part, not readonly, call_site)
            state.take_baselines()
            return hold

    # ---- what is where ----------------------------------------------------------------------

    def valid(self, place: Place) -> Ranges:
        """The bytes that are current at a place."""
        state = self.state
        with state.lock:
            state.forget_closed()
            replica = state.replica(place)
            if replica is None:
                return Ranges()
            found = replica.valid & state.defined
            if state.borrows.records and replica is not state.on_host:
                found -= state.borrows.not_counted() & state.on_host.valid
            if state.exports.records:
                found -= state.exports.not_counted(None if isinstance(place, str) else place)
            return found

    def is_current(self, place: Place, part: Ranges | None = None) -> bool:
        """Whether all bytes at a place are current."""
        state = self.state
        if not state.nbytes:
            return isinstance(place, str) or place in state.replicas
        own = state.whole if part is None else part
        return state.defined.covers(own) and self.valid(place).covers(own)

    def current(self, part: Ranges | None = None) -> list[Place]:
        """The places where all bytes are current, the host first."""
        state = self.state
        places: list[Place] = [HOST, *tuple(state.replicas)]
        if state.shared is not None and state.shared.device not in places:
            places.append(state.shared.device)
        return [place for place in places if self.is_current(place, part)]

    def is_at_rest_on(self, device: Device, part: Ranges) -> bool:
        """Whether a device can read and write some bytes as they are, with nothing to be moved or
        noted before."""
        return self.state.is_at_rest_on(device, part)

    @property
    def is_shared(self) -> bool:
        """Whether devices reach the host's memory itself."""
        return self.state.shared is not None

    def start_in(self, block: Block) -> int:
        """Where the first byte is in a block that was acquired."""
        return self.state.start_in(block)

    def has_replica_in(self, block: Block) -> bool:
        """Whether a device's replica has memory in common with a block."""
        start, stop = block.device_ptr, block.device_ptr + block.nbytes
        with self.state.lock:
            return any(
                own.device_ptr < stop and start < own.device_ptr + own.nbytes
                for own in (replica.block for replica in self.state.replicas.values())
                if own.device is block.device
            )

    def __repr__(self) -> str:
        places = ", ".join(map(str, self.current())) or "nowhere"
        return f"<Coherence of {self.name}, current: {places}>"


def _subscribe(to: Runtime) -> None:
    eviction.subscribe(to)
    refresh.subscribe(to)
    to.in_child.append(in_child)
