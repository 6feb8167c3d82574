"""The stream check: work and the host on the same memory, with nothing that orders them."""

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from haulage.backends.base import PINNED
from haulage.checking import memory_map
from haulage.checking.findings import STREAM, Finding, Findings
from haulage.checking.memory_map import Piece, Pieces, Region, Use
from haulage.checking.order import Moment, Order, StreamKey
from haulage.checking.places import place_of
from haulage.checking.seam import unseen
from haulage.checking.touched import Touched
from haulage.runtime.arrays.keys import ARRAY, RECORD
from haulage.runtime.buffers.pinned_memory import registered
from haulage.runtime.launch import packing
from haulage.runtime.process import call_sites

if TYPE_CHECKING:
    from haulage.runtime.memory import Block

_HOST = "the host"

Start = Callable[[int, bytes], None]
# Is told of memory that work uses and no block has.
Strays = Callable[[Use], None]


class StreamCheck:
    """Finds what is not ordered, from the clocks of `Order` and from which bytes work uses.

    `is_over` is that nobody asks any more; launches may have been planned before that.
    """

    def __init__(self, findings: Findings, strays: Strays) -> None:
        self._findings = findings
        self._strays = strays
        self.is_over = False
        self._order = Order()
        # Reentrant: a collection may free arrays in its midst.
        self._lock = threading.RLock()
        self._pieces = Pieces()
        self._host_pieces = Pieces()  # those that the host has at other addresses
        self._registrations = Pieces()  # memory of the host's that is pinned
        # What is recorded for a graph, by what stands for its capture; then by the graph.
        self._recording: dict[Any, tuple[dict[Any, list[Use]], list[tuple[Any, Use]]]] = {}
        self._graphs: dict[StreamKey, list[tuple[Any, Use]]] = {}

    @property
    @contextmanager
    def ordering(self) -> Iterator[Order]:
        """The order, to be told of something, by one thread at a time."""
        with self._lock:
            yield self._order

    # ---- memory ---------------------------------------------------------------------------------

    def allocated(self, block: "Block") -> None:
        """There is a new block of memory. What others own is not looked at: they may order work
        by means of their own."""
        if block.pool is None or not block.nbytes:
            return
        self._add(self._pieces, block.device_ptr, block, block.generation)
        if block.host_ptr and block.host_ptr != block.device_ptr:
            self._add(self._host_pieces, block.host_ptr, block, block.generation)

    def _add(self, pieces: Pieces, start: int, block: "Block", key: Any) -> None:
        if start:
            with self._lock:
                stop, on_host = start + block.nbytes, block.kind == PINNED
                pieces.add(Piece(key, start, stop, block.call_site, [], on_host))

    def freed(self, block: "Block") -> None:
        """A block is no more."""
        if block.pool is None:
            return
        with self._lock:
            for pieces, start in (
                (self._pieces, block.device_ptr),
                (self._host_pieces, block.host_ptr),
            ):
                piece = pieces.find(start)
                if piece is not None and piece.key == block.generation:
                    pieces.remove(piece.start)

    def _piece(self, region: Region) -> tuple[Piece, Region] | None:
        """The piece of memory that a region lies in, and the region by the piece's addresses."""
        address = region.extent[0]
        piece = self._pieces.find(address)
        if piece is not None:
            return piece, region
        on_host = self._host_pieces.find(address)
        if on_host is not None:
            piece = self._pieces.of_key(on_host.key)
            if piece is None:
                return on_host, region
            return piece, region.at(region.address - on_host.start + piece.start)
        piece = self._registered(address)
        return None if piece is None else (piece, region)

    def _registered(self, address: int) -> Piece | None:
        """The piece of the host's memory that is pinned by a registration and has a byte."""
        for start, (stop, *_) in tuple(registered.items()):
            if start <= address < stop:
                piece = self._registrations.find(address)
                if piece is None or (piece.start, piece.stop) != (start, stop):
                    piece = Piece(("registered", start), start, stop, (), [], on_host=True)
                    self._registrations.add(piece)
                return piece
        return None

    def _is_on_host(self, region: Region) -> bool:
        found = self._piece(region)
        return found is None or found[0].on_host

    # ---- what happens ---------------------------------------------------------------------------

    def copied(self, key: StreamKey, target: Region, source: Region | None) -> None:
        """A copy, or a fill if there is no source, is handed to a stream."""
        with self._lock:
            what = "a fill"
            if source is not None:
                to, of = self._is_on_host(target), self._is_on_host(source)
                what = "a copy to the host" if to else "a copy from the host" if of else "a copy"
            moment = self._order.work(key)
            where, site = self._order.name_of(key), call_sites.current()
            capture = self._order.capture_of(key)
            if source is not None:
                self._use(Use(source, moment, what, where, True, False, site), capture)
            self._use(Use(target, moment, what, where, False, True, site), capture)

    def launching(
        self,
        device: int,
        overload: Any,
        header: bytes,
        captured: Sequence[Any],
        touched: Touched,
        start: Start,
    ) -> Start:
        """See `observing.HostChecker`; `device` is the number of one, and `touched` tells what
        launches touch."""
        used = fields(overload, len(header))
        name = overload.body.name

        def watched(stream: int, packed: bytes) -> None:
            if self.is_over:
                start(stream, packed)
                return
            with self._lock:
                key = device, int(stream)
                moment = self._order.work(key)
                where, site = self._order.name_of(key), call_sites.current()
                capture = self._order.capture_of(key)
                what = f"kernel {name}"
                for reads, writes, region, array in used(packed):
                    look = touched, array, packed
                    use = Use(region, moment, what, where, reads, writes, site, name, array, look)
                    self._use(use, capture)
                for each in captured:
                    region = Region(
                        each.device_pointer, each.shape, each.strides, each.dtype.itemsize
                    )
                    use = Use(region, moment, what, where, True, False, site, name)
                    self._use(use, capture)
            with unseen():  # a launch that is checked itself is waited for
                start(stream, packed)

        return watched

    def callback(self, key: StreamKey, call: Callable[[], object]) -> Callable[[], object]:
        """`call`, which is handed to a stream."""
        with self._lock:
            moment = self._order.callback(key)

        def called() -> object:
            with self._order.inside(moment), unseen(False):
                return call()

        called.__name__ = getattr(call, "__name__", "callback")
        return called

    def used_by_host(self, array: np.ndarray, writes: bool) -> None:
        """The host reads or writes elements of an array in memory that devices reach."""
        region = memory_map.region_of(array)
        if not array.size:
            return
        with self._lock:
            moment = self._order.host()
            site = call_sites.current()
            self._use(Use(region, moment, _HOST, _HOST, not writes, writes, site), None)

    # ---- graphs ---------------------------------------------------------------------------------

    def captured(self, key: StreamKey, graph: StreamKey | None) -> None:
        """The recording that a stream began is over; it became a graph, or nothing."""
        with self._lock:
            _, uses = self._recording.pop(self._order.capture_of(key), ({}, []))
            self._order.capture_ended(key, graph)
            if graph is not None:
                # In a launch of it all have one moment.
                alike = {
                    (use.region, use.reads, use.writes, use.call_site, use.array): (key, use)
                    for key, use in uses
                }
                self._graphs[graph] = list(alike.values())

    def graph_runs(self, graph: StreamKey, key: StreamKey) -> None:
        """A graph is handed to a stream."""
        with self._lock:
            moment = self._order.graph_runs(graph, key)
            where = self._order.name_of(key)
            for _, use in self._graphs.get(graph, ()):
                self._use(replace(use, moment=moment, where=f"a graph in {where}"), None)

    def graph_ended(self, graph: StreamKey) -> None:
        """A graph was given back."""
        with self._lock:
            self._graphs.pop(graph, None)
            self._order.graph_ended(graph)

    # ---- what is found --------------------------------------------------------------------------

    def _use(self, use: Use, capture: Any) -> None:
        found = self._piece(use.region)
        if found is None:
            self._strays(use)
            return
        piece, region = found
        if region is not use.region:
            use = replace(use, region=region)
        if capture is None:
            uses = piece.uses
        else:
            by_piece, all_of_it = self._recording.setdefault(capture, ({}, []))
            uses = by_piece.setdefault(piece.key, [])
            all_of_it.append((piece.key, use))
        over = self._order.is_over if capture is None else _never
        for other in memory_map.note(uses, use, over):
            self._found(piece, use, other)

    def _found(self, piece: Piece, use: Use, other: Use) -> None:
        both = memory_map.common(use, other)
        if both is None:
            return
        begin, nbytes = both
        named = use if use.array or not other.array else other
        index = named.region.index_of(begin) if named.array else None
        self._findings.add(
            Finding(
                STREAM,
                _message(use, other, nbytes),
                use.access,
                other.access,
                named.array,
                index,
                place_of(piece.call_site),
            )
        )


def _never(_: Moment) -> bool:
    return False


def _message(use: Use, other: Use, nbytes: int) -> str:
    new, old = _in_words(use), _in_words(other)
    stream = other.where.removeprefix("a graph in ")
    if other.what == _HOST:
        advice = "let the host do that before the callback is handed over"
    elif use.what == _HOST:
        advice = f"synchronize {stream} before"
    else:
        own = use.where.removeprefix("a graph in ")
        advice = f"let {own} wait for an event that is recorded in {stream} behind it, or "
        advice += f"synchronize {stream}"
    unit = "byte" if nbytes == 1 else "bytes"
    return (
        f"{new}, and {old}: {nbytes} {unit} of memory are in both, and nothing orders them; "
        f"{advice}"
    )


def _in_words(use: Use) -> str:
    who = use.what if use.what == use.where else f"{use.what} in {use.where}"
    name = f" {use.array!r}" if use.array else ""
    verbs = [verb for verb, does in (("reads", use.reads), ("writes", use.writes)) if does]
    return f"{who} {' and '.join(verbs)}{name}"


# ---- the arguments of a launch ------------------------------------------------------------------

Field = tuple[bool, bool, Region, str]


def fields(overload: Any, skipped: int) -> Callable[[bytes], list[Field]]:
    """What finds in the argument block of a launch, behind `skipped` bytes, the memory that the
    kernel reads or writes: (reads, writes, region, name of the argument) for each."""
    accesses = overload.access
    flat: list[tuple[Any, str]] = []
    for number, (key, use) in enumerate(zip(overload.keys, accesses.arguments, strict=True)):
        name = accesses.names[number] if number < len(accesses.names) else ""
        flat += _leaves(key, use, name)
    places = packing.offsets(overload.keys)
    found = []
    for key, (use, name), offset in zip(packing.flat(overload.keys), flat, places, strict=True):
        if key[0] not in (ARRAY, RECORD) or (use is not None and use.mode == "none"):
            continue
        reads, writes = (True, True) if use is None else (use.reads, use.writes)
        found.append((key, reads, writes, name, offset + skipped))

    def read(packed: bytes) -> list[Field]:
        given = []
        for key, reads, writes, name, offset in found:
            if key[0] == ARRAY:
                form = packing.array_format(key[2])
                words = struct.unpack_from(form, packed, offset)
                region = memory_map.region_of_fields(words, key[2])
            else:
                (address,) = struct.unpack_from("P", packed, offset)
                region = Region.of_bytes(address, key[1].itemsize)
            given.append((reads, writes, region, name))
        return given

    return read


def _leaves(key: Any, use: Any, name: str) -> list[tuple[Any, str]]:
    """(use, name) of an argument, of a tuple's entries instead of the tuple's."""
    entries = list(packing.flat((key,)))
    if len(entries) == 1 and not isinstance(use, tuple):
        return [(use, name)]
    uses = list(_flat_uses(use))
    if len(uses) != len(entries):
        uses = [None] * len(entries)
    return [(each, f"{name}[{number}]") for number, each in enumerate(uses)]


def _flat_uses(use: Any) -> Iterator[Any]:
    if isinstance(use, tuple):
        for each in use:
            yield from _flat_uses(each)
    else:
        yield use
