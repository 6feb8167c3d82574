"""Memory of the CPU device shared between processes of one user. Linux only.

The pages of a unit of memory become those of a memory file, which the other process opens through
/proc/<pid>/fd. A handle names process, file and place. Behind the memory the file has room for
records, one for each piece of the unit that can be exported: a token and where the piece is. A
handle that differs from its record (the piece was freed, or a number was changed) opens nothing.
"""

import functools
import mmap
import os
import zlib
from dataclasses import astuple, dataclass
from pathlib import Path
from struct import Struct
from typing import Self

from haulage.backends.cpu_driver import shared_pages
from haulage.errors import DeviceError

PAGE = mmap.PAGESIZE

_MAGIC = b"HaulIPC3"
_TOKEN = 16
SMALLEST = 256  # bytes from one piece of a unit to the next, at least

_packed = Struct("=8sIIIQQQ16s4x")
# What the file has of each piece: its token, where it begins, and its bytes.
_record = Struct("=16sQQ")


@dataclass(frozen=True)
class Handle:
    """What tells another process where some memory is; `bytes` of it are 64.

    `machine` tells machines and containers apart, `file` is a file descriptor of `process`,
    `pages` the bytes of the file without its records, `offset` and `nbytes` where the memory is.
    """

    machine: int
    process: int
    file: int
    pages: int
    offset: int
    nbytes: int
    token: bytes

    def __bytes__(self) -> bytes:
        return _packed.pack(_MAGIC, *astuple(self))

    @classmethod
    def read(cls, handle: bytes) -> Self:
        """The handle that `bytes` made.

        Raises:
            ValueError: it is none.
        """
        if len(handle) == _packed.size:
            made = cls(*_packed.unpack(handle)[1:])
            if bytes(made) == handle:
                return made
        raise ValueError(
            f"{len(handle)} bytes that are no IPC handle of the cpu device: expected the "
            f"{_packed.size} bytes of a handle that get_ipc_handle() gave"
        )

    @property
    def record(self) -> bytes:
        """What the file has of a piece with this handle."""
        return _record.pack(self.token, self.offset, self.nbytes)


class SharedPages:
    """Whole pages of this process that become, and cease to be, those of a memory file."""

    def __init__(self, start: int, nbytes: int) -> None:
        """Copies what is in them into a file; nothing else is changed yet."""
        self.start = start
        self.nbytes = nbytes
        self._file = shared_pages.create(start, nbytes, _tail(nbytes))
        self._tokens: dict[int, bytes] = {}

    def begin(self) -> None:
        """Lay the file under the addresses; nobody may have written to them since it was made."""
        shared_pages.lay_under(self.start, self.nbytes, self._file)

    def end(self, keep: bool) -> None:
        """Let the pages be private again, with what is in the file if `keep`.

        Nothing may use them meanwhile.
        """
        shared_pages.make_private(self.start, self.nbytes)
        if keep:
            shared_pages.read_back(self.start, self.nbytes, self._file)
        os.close(self._file)

    def detach(self) -> None:
        """Let the pages be private copies of the file's, whatever uses them meanwhile."""
        shared_pages.copy_on_write(self.start, self.nbytes, self._file)
        os.close(self._file)

    def handle(self, address: int, nbytes: int) -> bytes:
        """The handle of a piece of memory on these pages; the same one each time."""
        offset = address - self.start
        token = self._tokens.get(address) or os.urandom(_TOKEN)
        made = Handle(_machine(), os.getpid(), self._file, self.nbytes, offset, nbytes, token)
        if address not in self._tokens:
            os.pwrite(self._file, made.record, _place(self.nbytes, offset))
            self._tokens[address] = token
        return bytes(made)

    def withdraw(self, address: int) -> None:
        """Let the handle of a piece open nothing any more."""
        if self._tokens.pop(address, None) is not None:
            os.pwrite(self._file, bytes(_record.size), _place(self.nbytes, address - self.start))

    def exported(self) -> list[int]:
        """The pieces that have handles."""
        return list(self._tokens)


# Where what was opened is mapped: the address that was given for it -> start and bytes.
_mapped: dict[int, tuple[int, int]] = {}


def open_handle(handle: bytes) -> tuple[int, int]:
    """(address, bytes) of the memory that a handle names, mapped into this process.

    Raises:
        ValueError: the bytes are no handle.
        DeviceError: the memory or its process is gone, or not within reach.
    """
    wanted = Handle.read(handle)
    if wanted.machine != _machine():
        raise DeviceError(
            f"{_name(wanted)} are on another machine, in another container or from before "
            "its last start; send a copy of them instead"
        )
    try:
        file = shared_pages.open_file(
            wanted.process, wanted.file, wanted.pages + _tail(wanted.pages)
        )
    except PermissionError as error:
        raise DeviceError(
            f"{_name(wanted)} are out of reach: the system lets only processes of the same user "
            "open them; send a copy of them instead"
        ) from error
    except (FileNotFoundError, ProcessLookupError) as error:
        raise _gone(wanted) from error
    if file is None:
        raise _gone(wanted)
    try:
        if wanted.offset + wanted.nbytes > wanted.pages:
            raise _gone(wanted)
        if os.pread(file, _record.size, _place(wanted.pages, wanted.offset)) != wanted.record:
            raise _gone(wanted)
        start = shared_pages.map_file(file, wanted.pages)
    finally:
        os.close(file)
    address = start + wanted.offset
    _mapped[address] = start, wanted.pages
    return address, wanted.nbytes


def close(address: int) -> None:
    """Take a mapping away.

    Raises:
        DeviceError: none was made for that address, or it is taken away already.
    """
    mapping = _mapped.pop(address, None)
    if mapping is None:
        raise DeviceError(f"ipc_close of {address:#x}: nothing that was opened is there")
    shared_pages.unmap(*mapping)


def _place(pages: int, offset: int) -> int:
    """Where in the file the record is."""
    return pages + offset // SMALLEST * _record.size


def _tail(pages: int) -> int:
    """Bytes of a file for records; the system has memory only for those that are written."""
    return (pages // SMALLEST * _record.size + PAGE - 1) & -PAGE


def _name(handle: Handle) -> str:
    return f"the {handle.nbytes:,} bytes that process {handle.process} exported"


def _gone(handle: Handle) -> DeviceError:
    return DeviceError(
        f"{_name(handle)} are gone: the process has ended or has freed them, or the handle was "
        "changed on its way; an array must be kept alive by its own process until the others have "
        "opened it"
    )


@functools.cache
def _machine() -> int:
    """A number of this start of this machine, and of the container's space of process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    space = os.stat("/proc/self/ns/pid").st_ino
    return zlib.crc32(boot + space.to_bytes(8, "little"))
