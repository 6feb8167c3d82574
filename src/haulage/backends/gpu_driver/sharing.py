"""Device memory that processes share.

Memory of the driver's own allocations is named by handles of the driver, which every program that
uses it opens. Memory that was put behind reserved addresses has none: the driver names each granule
by a file descriptor, and those pass from process to process by sockets only. So a handle of Haulage
names a process, its socket, and a piece of memory there; who opens it asks that process, and lets
go of the connection when it closes the memory. By that the exporting process also knows who has a
piece open, and that one whose handle was withdrawn is gone.
"""

import os
import socket
import threading
from dataclasses import astuple, dataclass
from struct import Struct
from typing import Self

from haulage.backends.gpu_driver import ports
from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.ranges import Ranges
from haulage.errors import DeviceError
from haulage.interruption import on_error

# Bytes of the driver's own handles, and what lets memory be opened by any device of the process.
_DRIVERS = 64
_LAZY_PEERS = 1

_MAGIC = b"HaulGPU2"
_packed = Struct("=8sI4x8s16sQQ8x")
# What the exporting process answers: bytes from the first granule, or from the start of what the
# driver's handle names, to the piece; the piece's bytes; bytes of a granule; how many granules; the
# driver's handle.
_answer = Struct("=QQQQ64s")


@dataclass(frozen=True)
class Handle:
    """What tells another process where some memory is; `bytes` of it are 64."""

    process: int
    port: bytes
    token: bytes
    nbytes: int
    device: int

    def __bytes__(self) -> bytes:
        return _packed.pack(_MAGIC, *astuple(self))

    @classmethod
    def read(cls, handle: bytes) -> Self | None:
        """The handle that `bytes` made; None if it is none of Haulage's."""
        if len(handle) != _packed.size:
            return None
        made = cls(*_packed.unpack(handle)[1:])
        return made if bytes(made) == handle else None


@dataclass
class _Piece:
    """Exported memory, `unit` the start of what it is a part of."""

    address: int
    nbytes: int
    unit: int
    device: int
    handle: bytes


@dataclass
class _Opened:
    """Memory of a handle: what was mapped for it, by granules of that size, or 0: the driver opened
    what begins at `start`, once more if it was open; and the connection to who exported it. Of the
    granules so many bytes were `taken` away again."""

    start: int
    nbytes: int = 0
    granule: int = 0
    taken: int = 0
    own: bool = False  # it is memory of this process, and nothing was opened
    connection: socket.socket | None = None


class Sharing:
    """Exported and opened memory of all devices. Safe to use from any thread."""

    def __init__(self, calls: Calls, contexts: Contexts, ranges: Ranges) -> None:
        self._calls = calls
        self._contexts = contexts
        self._ranges = ranges
        self._lock = threading.RLock()
        self._port: ports.Port | None = None
        self._pieces: dict[int, _Piece] = {}  # by address
        self._tokens: dict[bytes, _Piece] = {}
        # By unit: pieces that were withdrawn while other processes may have had them open.
        self._withdrawn: dict[int, list[int]] = {}
        # By address, each time that it was opened.
        self._opened: dict[int, list[_Opened]] = {}

    # ---- the exporting process --------------------------------------------------------------

    def export(self, address: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """A handle; see `Backend.ipc_export`."""
        with self._lock:
            known = self._pieces.get(address)
            if known is not None:
                return known.handle
            device = self._contexts.device()
            token = b""
            if self._ranges.granules(address, address + nbytes) is None and address == unit:
                handle = self._calls("IpcGetMemHandle", unit)
            else:
                if self._port is None:
                    self._port = ports.Port(self._answer_for)
                token = os.urandom(16)
                handle = bytes(Handle(os.getpid(), self._port.name, token, nbytes, device))
            piece = _Piece(address, nbytes, unit, device, handle)
            self._pieces[address] = piece
            if token:
                self._tokens[token] = piece
            return handle

    def export_of_others(self, address: int) -> tuple[bytes, int]:
        """A handle, and where its memory begins; see `Backend.ipc_export_of_others`."""
        start, _ = self._calls("MemGetAddressRange", address)
        return self._calls("IpcGetMemHandle", start), start

    def withdraw(self, address: int) -> tuple[int, ...]:
        """Let a handle open nothing any more; see `Backend.ipc_withdraw`."""
        with self._lock:
            piece = self._pieces.pop(address, None)
            if piece is None:
                return (address,)
            self._drop(piece)
            self._withdrawn.setdefault(piece.unit, []).append(address)
            free: list[int] = []
            for unit in list(self._withdrawn):
                if self._port is None or not self._port.is_open(unit):
                    free += self._withdrawn.pop(unit)
            return tuple(free)

    def forget(self, start: int, stop: int) -> None:
        """Memory is given back to the driver: what is exported of it is gone, too."""
        if not self._pieces:
            return
        with self._lock:
            for piece in list(self._pieces.values()):
                if start <= piece.address < stop or start <= piece.unit < stop:
                    self._drop(self._pieces.pop(piece.address))

    def _drop(self, piece: _Piece) -> None:
        self._tokens = {t: known for t, known in self._tokens.items() if known is not piece}

    def _answer_for(self, token: bytes) -> tuple[int, bytes, list[int]] | None:
        """For who asks with a token: (the unit, the answer, file descriptors); None: no such piece.

        Called by the port's thread.
        """
        with self._lock:
            piece = self._tokens.get(token)
            if piece is None:
                return None
            self._contexts.activate(piece.device)
            whole = self._ranges.granules(piece.address, piece.address + piece.nbytes)
            if whole is None:
                handle = self._calls("IpcGetMemHandle", piece.unit)
                at = piece.address - piece.unit
                return piece.unit, _answer.pack(at, piece.nbytes, 0, 0, handle), []
            start, nbytes = whole
            granule = self._ranges.granularity()
            files = [self._ranges.file_of(at) for at in range(start, start + nbytes, granule)]
            at = piece.address - start
            answer = _answer.pack(at, piece.nbytes, granule, len(files), bytes(_DRIVERS))
            return piece.unit, answer, files

    # ---- the importing process --------------------------------------------------------------

    def open(self, handle: bytes) -> tuple[int, int]:
        """(device pointer, bytes) of the memory; see `Backend.ipc_import`."""
        read = Handle.read(handle)
        if read is None:
            if len(handle) != _DRIVERS:
                raise ValueError(
                    f"{len(handle)} bytes that are no IPC handle of {self._calls.device_words}: "
                    f"expected the {_DRIVERS} bytes of a handle that get_ipc_handle() gave, or of "
                    f"a {self._calls.handle_type}"
                )
            return self._open_drivers(handle)
        connection = ports.connect(read.process, read.port, read.nbytes)
        with on_error(connection.close):
            answer = ports.ask(connection, read.token, _answer.size)
            if answer is None:
                raise DeviceError(
                    f"{read.nbytes:,} bytes of memory that process {read.process} exported are "
                    "gone: it has freed them; an array must be kept until others have opened it"
                )
            offset, nbytes, granule, count, drivers = _answer.unpack(answer)
            if nbytes != read.nbytes:
                raise DeviceError(
                    f"the handle names {read.nbytes:,} bytes of memory where process "
                    f"{read.process} exported {nbytes:,}: it was changed on its way"
                )
            if count:
                start = self._map(connection, granule, count)
                opened = _Opened(start, count * granule, granule, connection=connection)
            else:
                opened = self._open_whole(drivers, read.token)
                opened.connection = connection
        self._note(opened.start + offset, opened)
        return opened.start + offset, read.nbytes

    def _note(self, address: int, opened: _Opened) -> None:
        with self._lock:
            self._opened.setdefault(address, []).append(opened)

    def _map(self, connection: socket.socket, granule: int, count: int) -> int:
        files = ports.receive_files(connection, count)
        try:
            start = self._ranges.reserve(count * granule)
            done = start
            try:
                for file in files:
                    chunk = self._calls("MemImportFromShareableHandle", file)
                    try:
                        self._calls("MemMap", done, granule, 0, chunk, 0)
                        done += granule
                    finally:
                        self._calls("MemRelease", chunk)
                self._ranges.allow_here(start, count * granule)
            except BaseException:
                self._ranges.take(start, done - start, granule)
                self._ranges.release(start, count * granule)
                raise
            return start
        finally:
            for file in files:
                os.close(file)

    def _open_drivers(self, handle: bytes) -> tuple[int, int]:
        """Memory by the driver's own handle: of this process, or of another."""
        with self._lock:
            for piece in self._pieces.values():
                if piece.handle == handle:
                    self._note(piece.address, _Opened(piece.address, own=True))
                    return piece.address, piece.nbytes
        address = self._calls("IpcOpenMemHandle", handle, _LAZY_PEERS)
        with on_error(self._calls, "IpcCloseMemHandle", address):
            _, nbytes = self._calls("MemGetAddressRange", address)
        self._note(address, _Opened(address))
        return address, nbytes

    def _open_whole(self, handle: bytes, token: bytes) -> _Opened:
        """What the driver's handle names, of which a piece has this token."""
        with self._lock:
            own = self._tokens.get(token)
        if own is not None:
            return _Opened(own.unit, own=True)
        return _Opened(self._calls("IpcOpenMemHandle", handle, _LAZY_PEERS))

    def close(self, address: int) -> None:
        """Let go of memory; see `Backend.ipc_close`."""
        with self._lock:
            times = self._opened[address]
            opened = times.pop()
            if not times:
                del self._opened[address]
        with on_error(self._note, address, opened):
            self._close(opened)
        if opened.connection is not None:
            opened.connection.close()

    def _close(self, opened: _Opened) -> None:
        if opened.granule:
            while opened.taken < opened.nbytes:
                self._calls("MemUnmap", opened.start + opened.taken, opened.granule)
                opened.taken += opened.granule
            self._ranges.release(opened.start, opened.nbytes)
        elif not opened.own:
            # The driver counts how often it was opened.
            self._calls("IpcCloseMemHandle", opened.start)
