"""Where the current bytes of one storage are: it is copied only when a place needs them.

A storage is a run of bytes with a copy on the host and on each device that has used it. Each copy
has the ranges of bytes that are current in it. Who wants to use a copy acquires its place to read
('r'), to read and write ('rw') or to overwrite all of it ('w'), hands its work to the stream that
it named, and releases it. Reading brings in what is not current there; releasing after a write
leaves the other copies out of date. Nothing is copied back before someone looks.

Streams are ordered by events, and only where the work of another stream is not done yet: users in
one stream pay for nothing.
"""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from haulage.errors import CoherenceError
from haulage.runtime import memory
from haulage.runtime.arrays import transfer
from haulage.runtime.arrays.address import address_of
from haulage.runtime.device import Device
from haulage.runtime.event import Event
from haulage.runtime.memory import Block
from haulage.runtime.stream import Stream, StreamLike, resolve

HOST: Final = "host"

Place = Device | Literal["host"]
Mode = Literal["r", "rw", "w"]

# So many of the last transfers of a storage are remembered.
_REMEMBERED = 256


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


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy between two places.

    Attributes:
        array: whose storage, in words.
        source, target: 'host', or a device such as 'cpu:0'.
        nbytes: bytes copied.
        stream: handle of the stream that it was handed to.
        why: who needed the bytes at the target.
    """

    array: str
    source: str
    target: str
    nbytes: int
    stream: int
    why: str


class _Copy:
    """The copy of a storage on a device: its block, what is current in it, and who wrote that."""

    __slots__ = ("block", "valid", "writers")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.valid = Ranges()
        self.writers: tuple[Stream, ...] = ()

    def users(self) -> tuple[Stream, ...]:
        """The streams that may still read or write it. (Blocks do not note the default stream.)"""
        return self.block.users()


class Coherence:
    """The copies of one storage of `nbytes` bytes, and which of them are current.

    At first none is: the bytes are undefined, and the first place to be acquired gets them so,
    without a copy. All methods can be called from several threads.

    Args:
        nbytes: size of the storage.
        name: what it is called in `transfers` and in messages.
        host: host memory that holds the bytes, which are then current on the host: an array with
            one axis and dtype uint8, without gaps, writeable. None: allocated when needed.
    """

    def __init__(self, nbytes: int, name: str, host: np.ndarray | None = None) -> None:
        self.nbytes = nbytes
        self.name = name
        self.transfers: deque[Transfer] = deque(maxlen=_REMEMBERED)
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
        self._lock = threading.RLock()

    # ---- the protocol -----------------------------------------------------------------------

    def acquire_host(self, mode: Mode, why: str) -> np.ndarray:
        """The bytes on the host, as an array of uint8, once nothing else uses them.

        With 'r' and 'rw' they are current; with 'w' they must all be written before `release`.

        Raises:
            KernelError: a kernel that was waited for had failed.
        """
        _check_mode(mode)
        with self._lock:
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
            self._acquired[HOST] = self._writes
            return self._host

    def acquire_device(self, device: Device, mode: Mode, stream: StreamLike, why: str) -> Block:
        """The block with the bytes on `device`, for work that is handed to `stream` from now on.

        With 'r' and 'rw' the bytes are current for that work; with 'w' it must write them all.

        Raises:
            DeviceMismatch: the stream is of another device.
            OutOfMemory: the device has no room for them.
            ValueError: mode is unknown, or the block was given back.
        """
        _check_mode(mode)
        bound = resolve(stream, device)
        with self._lock:
            copy = self._copies.get(device)
            if copy is None:
                copy = self._copies[device] = _Copy(memory.allocate(device, self.nbytes))
            missing = mode != "w" and not copy.valid.covers(self._whole)
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
            self._acquired[device] = self._writes
            return copy.block

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

    # ---- copies -----------------------------------------------------------------------------

    def _written(self, place: Place, writers: tuple[Stream, ...]) -> None:
        self._writes += 1
        self._written_at = place
        self._defined = True
        self._host_valid = self._whole if place == HOST else Ranges()
        for device, copy in self._copies.items():
            copy.valid = self._whole if device is place else Ranges()
            copy.writers = writers if device is place else copy.writers

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
        transfer.move_host(host, stream, target, (1,), source, (1,), (self.nbytes,), 1)

    def _note(self, source: str, target: str, stream: Stream, why: str) -> None:
        if self.nbytes:
            self.transfers.append(
                Transfer(self.name, source, target, self.nbytes, stream.handle, why)
            )

    def __repr__(self) -> str:
        places = ", ".join(map(str, self.current())) or "nowhere"
        return f"<Coherence of {self.name}, current: {places}>"


def _check_mode(mode: str) -> None:
    if mode not in ("r", "rw", "w"):
        raise ValueError(f"mode {mode!r}: expected 'r', 'rw' or 'w'")


def _order(stream: Stream, others: Iterable[Stream]) -> None:
    """Let later work of `stream` start only when what `others`, streams of the same device, hold
    now is done."""
    for other in others:
        if other.handle != stream.handle and not other.idle():
            mark = Event(stream.device, timing=False)
            mark.record(other)
            mark.wait(stream)
