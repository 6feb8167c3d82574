"""Which bytes of device memory were written: by copies, fills and checked kernels.

Memory that a program allocates without contents, while it is checked, has a byte beside each of its
bytes until all are written: 1 stands for one that was. A copy takes along what is not written. What
the host reaches by itself (pinned, mapped and managed memory) is taken as written, and so is what
others were given, by DLPack, IPC or Python's buffers: nobody sees what they do. So is what was
there before the check began.
"""

import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from haulage.backends.base import DEVICE
from haulage.checking.elements import LaunchedArray, padding_of
from haulage.checking.findings import UNINITIALIZED, Access, Finding, Findings
from haulage.checking.memory_map import Piece, Pieces, Region
from haulage.checking.places import place_of, place_of_program

if TYPE_CHECKING:
    from haulage.runtime.memory import Block


@dataclass(eq=False, slots=True)
class Memory(Piece):
    """A block of device memory.

    Attributes:
        written: for each byte whether it was written; None: all are.
        block: the block, as long as it is there.
        is_seen: whether all that writes to it is seen.
        array: the last one in it that a kernel was given.
    """

    written: np.ndarray | None = None
    block: Any = None
    is_seen: bool = True
    array: LaunchedArray | None = None

    @property
    def is_followed(self) -> bool:
        """Whether it is known which bytes are written."""
        block = self.block()
        if block is None or block.exposed or block.exported:
            self.is_seen, self.written = False, None
        return self.is_seen


class Marks(NamedTuple):
    """What a launch is given of a memory: which bytes are written, which it keeps alive."""

    memory: Memory
    written: np.ndarray

    def at(self, address: int) -> int:
        """The address of the byte that stands for one of the memory's."""
        return int(self.written.ctypes.data) + address - self.memory.start


class WrittenMemory:
    """Knows which bytes of device memory were written; tells of others that the host copies."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._pieces = Pieces()
        # Reentrant: a collection may free arrays in its midst.
        self._lock = threading.RLock()

    # ---- what is told ---------------------------------------------------------------------------

    def allocated(self, block: "Block", *, is_new: bool) -> None:
        """There is a block of memory, whose contents nobody wrote if it is new."""
        properties = block.device.properties
        if (
            block.kind != DEVICE
            or not block.nbytes
            or block.pool is None
            or not properties.code_per_block
            or not properties.host_memory_is_device_memory
        ):
            return
        start, stop = block.device_ptr, block.device_ptr + block.nbytes
        written = np.zeros(block.nbytes, np.uint8) if is_new else None
        piece = Memory(
            block.generation, start, stop, block.call_site, [], False, written, weakref.ref(block)
        )
        with self._lock:
            self._pieces.add(piece)

    def freed(self, block: "Block") -> None:
        """A block is no more."""
        with self._lock:
            piece = self._pieces.of_key(block.generation)
            if piece is not None:
                self._pieces.remove(piece.start)

    def forget(self) -> None:
        """Take all memory as written: kernels are not checked any more."""
        with self._lock:
            self._pieces = Pieces()

    def copied(self, target: Region, source: Region | None, *, is_recorded: bool) -> None:
        """A copy, or a fill if there is no source, is handed to a stream; or recorded for a graph,
        whose runs are not followed."""
        with self._lock:
            to, of = self._piece(target), None if source is None else self._piece(source)
            if is_recorded:
                if to is not None:
                    to.is_seen, to.written = False, None
                return
            taken = None
            if of is not None and source is not None and of.written is not None and of.is_followed:
                taken = _part(of.written, source, of.start)
            if taken is None or taken.all():
                if to is not None and to.written is not None:
                    self._write(to, target)
            elif to is None:
                assert of is not None
                assert source is not None
                self._tell(of, source, taken)
            elif to.is_followed:
                if to.written is None:
                    to.written = np.ones(to.stop - to.start, np.uint8)
                part = _part(to.written, target, to.start)
                if part is not None:
                    part[...] = taken.copy()

    def _piece(self, region: Region) -> Memory | None:
        piece = self._pieces.find(region.extent[0])
        return piece if isinstance(piece, Memory) else None

    def _write(self, to: Memory, target: Region) -> None:
        assert to.written is not None
        if target.is_dense and target.extent == (to.start, to.stop):
            to.written = None
            return
        part = _part(to.written, target, to.start)
        if part is not None:
            part[...] = 1
            _shed(to)

    def _tell(self, of: Memory, source: Region, taken: np.ndarray) -> None:
        """Tell of a copy of memory that nobody wrote to the host."""
        bytes_at = np.unravel_index(int(np.argmin(taken)), taken.shape)
        steps = (*source.strides, 1)[: taken.ndim]
        address = source.address + sum(
            int(n) * step for n, step in zip(bytes_at, steps, strict=True)
        )
        index = None if of.array is None else of.array.element_at(address)[0]
        missing = int(taken.size - np.count_nonzero(taken))
        first = f"the first is byte {address - of.start} of the memory"
        if index is not None:
            first = f"the first is in element [{', '.join(map(str, index))}]"
        self._findings.add(
            Finding(
                UNINITIALIZED,
                f"a copy to the host takes {missing:,} of {taken.size:,} bytes that nobody has "
                f"written; {first}",
                Access(place_of_program(), "copy to the host"),
                index=index,
                allocated=place_of(of.call_site),
            )
        )

    # ---- launches -------------------------------------------------------------------------------

    def of_arrays(self, arrays: Iterable[LaunchedArray]) -> dict[int, Marks]:
        """For the numbers of the arrays of a launch whose bytes are not all written: which are.

        What of a record belongs to no field is taken as written from here on.
        """
        found = {}
        with self._lock:
            for number, array in enumerate(arrays):
                low, nbytes = array.extent
                piece = self._pieces.find(low) if nbytes else None
                if not isinstance(piece, Memory):
                    continue
                piece.array = array
                if piece.written is None or not piece.is_followed or low + nbytes > piece.stop:
                    continue
                if array.dtype is not None:
                    self._write_padding(piece, array)
                found[number] = Marks(piece, piece.written)
        return found

    def _write_padding(self, piece: Memory, array: LaunchedArray) -> None:
        assert array.dtype is not None
        assert piece.written is not None
        for first, stop in padding_of(array.dtype):
            region = Region(array.address + first, array.shape, array.strides, stop - first)
            part = _part(piece.written, region, piece.start)
            if part is not None:
                part[...] = 1

    def all(self) -> list[Marks]:
        """Which bytes are written of all memory whose bytes are not all so."""
        with self._lock:
            return [
                Marks(piece, piece.written)
                for piece in self._pieces
                if isinstance(piece, Memory) and piece.written is not None and piece.is_followed
            ]

    def launched(self, marks: Iterable[Marks]) -> None:
        """A kernel has noted what it wrote."""
        with self._lock:
            for each in marks:
                _shed(each.memory)

    def not_seen(self, addresses: Iterable[int]) -> None:
        """The memory at these addresses is given to what is not checked."""
        with self._lock:
            for address in addresses:
                piece = self._pieces.find(address)
                if isinstance(piece, Memory):
                    piece.is_seen, piece.written = False, None


def _shed(piece: Memory) -> None:
    if piece.written is not None and piece.written.view(np.bool_).all():
        piece.written = None


def _part(written: np.ndarray, region: Region, start: int) -> np.ndarray | None:
    """What is known of the bytes of a region, with an axis more than it has where elements have
    several bytes; None: some are outside."""
    low, high = region.extent
    if low < start or high > start + written.nbytes:
        return None
    at = region.address - start
    bytes_axis = ((region.itemsize, 1),) if region.itemsize > 1 else ()
    axes = (*zip(region.shape, region.strides, strict=True), *bytes_axis)
    shape, strides = zip(*axes, strict=True) if axes else ((), ())
    return np.ndarray(shape, np.uint8, written.data, at, strides)
