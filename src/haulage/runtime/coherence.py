"""Where the current bytes of one storage are: it is copied only when a place needs them.

A storage is a run of bytes with a copy on the host and on each device that has used it. Each copy
has the ranges of bytes that are current in it. Who wants to use a copy acquires its place to read
('r'), to read and write ('rw') or to overwrite all of it ('w'), hands its work to the stream that
it named, and releases it. Reading brings in what is not current there; releasing after a write
leaves the other copies out of date. Nothing is copied back before someone looks.

Streams are ordered by events, and only where the work of another stream is not done yet: users in
one stream pay for nothing.

Where a device has no room, copies on it that nobody uses give way: see `eviction`.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from haulage.errors import CoherenceError, OutOfMemory
from haulage.runtime import eviction, memory
from haulage.runtime.arrays import transfer
from haulage.runtime.arrays.address import address_of
from haulage.runtime.device import Device
from haulage.runtime.event import Event
from haulage.runtime.memory import Block
from haulage.runtime.stream import Stream
from haulage.runtime.stream_arguments import StreamLike, resolve
from haulage.runtime.transfers.account import Account
from haulage.runtime.transfers.entry import HOST

Place = Device | Literal["host"]
Mode = Literal["r", "rw", "w"]

T = TypeVar("T")

# Bytes of a copy that are compared with the host's at a time.
_COMPARED = 4 << 20


@dataclass(frozen=True, slots=True)
class Ranges:
    """Bytes of a storage, as runs (start, stop) that lie in order and do not touch."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def whole(cls, nbytes: int) -> "Ranges":
        """All bytes of a storage of `nbytes` bytes."""
        return cls(((0, nbytes),)) if nbytes else cls()

    @property
    def nbytes(self) -> int:
        """How many bytes they are."""
        return sum(stop - start for start, stop in self.runs)

    def covers(self, other: "Ranges") -> bool:
        """Whether all bytes of `other` are among these."""
        return self.runs == other.runs or all(
            any(start <= first and last <= stop for start, stop in self.runs)
            for first, last in other.runs
        )


class _Copy:
    """The copy of a storage on a device: its block, what is current in it, and who wrote that.

    Attributes:
        array: what its users make of the block, kept for the next one.
        used: when it was acquired last, by `eviction.now`.
        writing: acquired to be written, and not released since.
        seen: acquired to be read since the last write, which may turn out to have been written.
    """

    __slots__ = ("array", "block", "seen", "used", "valid", "writers", "writing")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.valid = Ranges()
        self.writers: tuple[Stream, ...] = ()
        self.array: Any = None
        self.used = 0
        self.writing = self.seen = False

    def is_in_use(self) -> bool:
        """Whether anybody may use it without acquiring it once more."""
        block = self.block
        if self.writing or block.closed or block.exported:
            return True
        del block
        return eviction.is_held(self, "array", "block")

    def users(self) -> tuple[Stream, ...]:
        """The streams that may still read or write it. (Blocks do not note the default stream.)"""
        return self.block.users()


class Coherence:
    """The copies of one storage of `nbytes` bytes, and which of them are current.

    At first none is: the bytes are undefined, and the first place to be acquired gets them so,
    without a copy. All methods can be called from several threads.

    Args:
        nbytes: size of the storage.
        name: what it is called in transfers and in messages.
        host: host memory that holds the bytes, which are then current on the host: an array with
            one axis and dtype uint8, without gaps, writeable. None: allocated when needed.

    Attributes:
        account: its transfers with their causes, and what needed none.
        transfers: the last of these.
    """

    def __init__(self, nbytes: int, name: str, host: np.ndarray | None = None) -> None:
        self.nbytes = nbytes
        self.name = name
        self.account = Account(name, nbytes)
        self.transfers = self.account.recent
        self._whole = Ranges.whole(nbytes)
        self._defined = host is not None or nbytes == 0
        self._host = host
        self._host_valid = Ranges() if host is None else self._whole
        # Streams that may still read pinned host memory for an upload.
        self._uploading: list[Stream] = []
        self._copies: dict[Device, _Copy] = {}
        # Counts writes; each place has the count at which it was acquired last.
        self._writes = 0
        self._written_at: Place | None = None
        self._acquired: dict[Place, int] = {}
        # Where a copy gave way that was current and `seen`: what was written there came along.
        self._gone: set[Device] = set()
        self._lock = threading.RLock()
        # How many calls of its own thread are in the midst of a change.
        self._inside = 0
        if host is not None:
            self.account.wrote()

    # ---- the protocol -----------------------------------------------------------------------

    def acquire_host(self, mode: Mode, why: str) -> np.ndarray:
        """The bytes on the host, as an array of uint8, once nothing else uses them.

        With 'r' and 'rw' they are current; with 'w' they must all be written before `release`.

        Raises:
            KernelError: a kernel that was waited for had failed.
        """
        _check_mode(mode)
        with self._lock:
            self._inside += 1
            try:
                host = self._bring_to_host(mode, why)
                self._acquired[HOST] = self._writes
                return host
            finally:
                self._inside -= 1

    def acquire_device(self, device: Device, mode: Mode, stream: StreamLike, why: str) -> Block:
        """The block with the bytes on `device`, for work that is handed to `stream` from now on.

        With 'r' and 'rw' the bytes are current for that work; with 'w' it must write them all.
        The bytes stay at that place as long as somebody holds the block, or until `release`.

        Raises:
            DeviceMismatch: the stream is of another device.
            OutOfMemory: the device has no room for them.
            ValueError: mode is unknown, or the block was given back.
        """
        bound = resolve(stream, device)
        with self._lock:
            # The block before the lock is given up: who holds it uses it.
            return self._acquired_on(device, mode, bound, why).block

    def acquire_array(
        self, device: Device, mode: Mode, stream: Stream, why: str, make: Callable[[Block], T]
    ) -> T:
        """`acquire_device`, for what `make(block)` gives: the same each time for one block.

        Raises:
            OutOfMemory, ValueError: as `acquire_device`.
        """
        with self._lock:
            copy = self._acquired_on(device, mode, stream, why)
            if copy.array is None:
                copy.array = make(copy.block)
            array: T = copy.array
            return array

    def release(self, place: Place, mode: Mode, stream: StreamLike = 0) -> None:
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
        with self._lock:
            if not isinstance(place, str) and place in self._copies:
                self._copies[place].writing = False
            if self._acquired.get(place) != self._writes and self._written_at != place:
                raise CoherenceError(
                    f"{self.name}: {place} and {self._written_at} were written at the same time; "
                    "order these writes, or give each of them an array of its own"
                )
            self._written(place, () if isinstance(place, str) else (resolve(stream, place),))

    def mark_changed(self, place: Place) -> None:
        """Say that the bytes at a place were written outside of `acquire` and `release`.

        On a device, by work in the default stream or in a stream that its block has noted. Whoever
        writes so has seen to it that all earlier work with the bytes there is done.

        Raises:
            CoherenceError: the bytes were not current there before, so that the rest of them is
                not either.
        """
        with self._lock:
            if place in self._gone:
                self._written(HOST, ())
                return
            if not self.is_current(place):
                last = f"; {self._written_at} was written last" if self._written_at else ""
                raise CoherenceError(
                    f"{self.name}: mark_changed({str(place)!r}), but the bytes there are not "
                    f"current{last}; call get({str(place)!r}) before writing there"
                )
            self._written(place, () if isinstance(place, str) else self._copies[place].users())

    # ---- what is where ----------------------------------------------------------------------

    def is_current(self, place: Place) -> bool:
        """Whether all bytes at a place are current."""
        if isinstance(place, str):
            return self._defined and self._host_valid.covers(self._whole)
        copy = self._copies.get(place)
        return copy is not None and self._defined and copy.valid.covers(self._whole)

    def current(self) -> list[Place]:
        """The places where all bytes are current, the host first."""
        places: list[Place] = [HOST, *tuple(self._copies)]
        return [place for place in places if self.is_current(place)]

    # ---- giving way -------------------------------------------------------------------------

    def used(self, device: Device) -> int | None:
        """When the copy on a device was used last; see `eviction.Storage`."""
        copy = self._copies.get(device)
        if copy is None:
            return None
        return copy.used if copy.valid.covers(self._whole) else 0

    def give_way(self, device: Device, copying: bool, why: str) -> int:
        """Give the memory of the copy on a device back if nobody uses it; how many bytes.

        See `eviction.Storage`.

        Raises:
            KernelError: a kernel that was waited for had failed.
        """
        # Who holds the lock may itself wait for the thread that looks for room.
        if not self._lock.acquire(blocking=False):
            return 0
        try:
            copy = self._copies.get(device)
            if self._inside or not self.nbytes or copy is None or copy.is_in_use():
                return 0
            self._inside += 1
            try:
                if not self._is_safe_without(device, copy, copying, why):
                    return 0
            finally:
                self._inside -= 1
            if copy.seen and copy.valid.covers(self._whole):
                self._gone.add(device)
            del self._copies[device]
            return self.nbytes
        finally:
            self._lock.release()

    def _is_safe_without(self, device: Device, copy: _Copy, copying: bool, why: str) -> bool:
        """Whether no byte is lost with a copy, or, `copying`, none is any more."""
        if not (self._defined and copy.valid.covers(self._whole)):
            self._note(str(device), HOST, device.default_stream, why, 0)
            return True
        if copy.seen:
            # Work that writes may be in any stream.
            copy.writers = copy.users()
        if any(place is not device for place in self.current()):
            if not copy.seen:
                self._note(str(device), HOST, device.default_stream, why, 0)
                return True
            return copying and self._is_as_on_host(device, copy, why)
        if not copying:
            return False
        if self._host is None:
            self._host = _host_room(device, self.nbytes)
        if self._host is None:
            return False
        self._bring_to_host("r", why)
        return True

    def _is_as_on_host(self, device: Device, copy: _Copy, why: str) -> bool:
        """Whether a copy has the host's bytes, or somebody has written and not said so yet."""
        if not self.is_current(HOST) or self._host is None:
            return False
        stream = device.default_stream
        _order(stream, copy.users())
        copy.block.use(stream)
        found = np.empty(min(_COMPARED, self.nbytes), np.uint8)
        for start in range(0, self.nbytes, _COMPARED):
            expected = self._host[start : start + _COMPARED]
            part = found[: expected.size]
            self._move(part, stream, address_of(part), copy.block.device_ptr + start)
            if not np.array_equal(part, expected):
                return False
        self._note(str(device), HOST, stream, why)
        return True

    # ---- copies -----------------------------------------------------------------------------

    def _acquired_on(self, device: Device, mode: Mode, bound: Stream, why: str) -> _Copy:
        _check_mode(mode)
        self._inside += 1
        try:
            return self._ready_copy(device, mode, bound, why)
        finally:
            self._inside -= 1

    def _ready_copy(self, device: Device, mode: Mode, bound: Stream, why: str) -> _Copy:
        copy = self._copies.get(device) or self._new_copy(device)
        missing = mode != "w" and not copy.valid.covers(self._whole)
        self.account.used(self.nbytes, not (missing and self._defined))
        if missing and self._defined:
            # Before anything is in the stream: this may have to wait for another device.
            source = self.acquire_host("r", why)
            _order(bound, copy.users())
            self._upload(source, copy, bound, why)
        else:
            _order(bound, copy.writers if mode == "r" else copy.users())
        if missing:
            copy.valid = self._whole
            self._defined = True
        copy.block.use(bound)
        copy.used = eviction.now()
        if mode == "r":
            copy.seen = True
        else:
            copy.writing = True
        self._acquired[device] = self._writes
        return copy

    def _new_copy(self, device: Device) -> _Copy:
        # A callback for want of room may make one itself.
        try:
            made = _Copy(memory.allocate(device, self.nbytes))
        except OutOfMemory:
            if device not in self._copies:
                raise
            return self._copies[device]
        eviction.add(self)
        self._gone.discard(device)
        return self._copies.setdefault(device, made)

    def _bring_to_host(self, mode: Mode, why: str) -> np.ndarray:
        while self._uploading:
            self._uploading[-1].synchronize()
            self._uploading.pop()
        if self._host is None:
            self._host = np.empty(self.nbytes, np.uint8)
        if mode != "w" and not self._host_valid.covers(self._whole):
            if self._defined:
                self._download(self._host, why)
            self._host_valid = self._whole
            self._defined = True
        return self._host

    def _written(self, place: Place, writers: tuple[Stream, ...]) -> None:
        self._writes += 1
        self._written_at = place
        self.account.wrote()
        self._defined = True
        self._host_valid = self._whole if place == HOST else Ranges()
        for device, copy in self._copies.items():
            copy.valid = self._whole if device is place else Ranges()
            copy.writers = writers if device is place else copy.writers
            copy.seen = False
        self._gone.clear()

    def _download(self, host: np.ndarray, why: str) -> None:
        device, copy = next(
            (device, copy)
            for device, copy in self._copies.items()
            if copy.valid.covers(self._whole)
        )
        # In the stream that wrote the bytes, there is nothing to be waited for.
        stream = copy.writers[-1] if copy.writers else device.default_stream
        _order(stream, copy.writers)
        copy.block.use(stream)
        self._move(host, stream, address_of(host), copy.block.device_ptr)
        if stream.handle:
            stream.synchronize()
        copy.writers = ()
        self._note(str(device), HOST, stream, why)

    def _upload(self, host: np.ndarray, copy: _Copy, stream: Stream, why: str) -> None:
        copy.block.use(stream)
        self._move(host, stream, copy.block.device_ptr, address_of(host))
        copy.writers = (stream,)
        if stream.handle and not stream.idle():
            self._uploading.append(stream)
        self._note(HOST, str(stream.device), stream, why)

    def _move(self, host: np.ndarray, stream: Stream, target: int, source: int) -> None:
        transfer.move_host(host, stream, target, (1,), source, (1,), (host.size,), 1)

    def _note(
        self, source: str, target: str, stream: Stream, why: str, nbytes: int | None = None
    ) -> None:
        if self.nbytes:
            copied = self.nbytes if nbytes is None else nbytes
            self.account.moved(source, target, copied, stream.handle, why)

    def __repr__(self) -> str:
        places = ", ".join(map(str, self.current())) or "nowhere"
        return f"<Coherence of {self.name}, current: {places}>"


def _check_mode(mode: str) -> None:
    if mode not in ("r", "rw", "w"):
        raise ValueError(f"mode {mode!r}: expected 'r', 'rw' or 'w'")


def _host_room(device: Device, nbytes: int) -> np.ndarray | None:
    """Memory of the host for bytes of a device; None if it has none left either."""
    if not device.properties.host_memory_is_device_memory:
        try:
            # Copies from and to it are faster.
            return transfer.pinned_array(device, (nbytes,), (1,), np.dtype(np.uint8))
        except OutOfMemory:
            pass  # pageable memory does as well
    try:
        return np.empty(nbytes, np.uint8)
    except MemoryError:
        return None


def _order(stream: Stream, others: Iterable[Stream]) -> None:
    """Let later work of `stream` start only when what `others`, streams of the same device, hold
    now is done."""
    for other in others:
        if other.handle != stream.handle and not other.idle():
            mark = Event(stream.device, timing=False)
            mark.record(other)
            mark.wait(stream)
