"""Memory files and mappings: what the system does for memory that processes share. Linux only."""

import ctypes
import errno
import fcntl
import mmap
import os

from haulage.backends.cpu_driver import mappings
from haulage.errors import DeviceError, OutOfMemory

# The name of the memory files; the system shows it in /proc/<pid>/fd and /proc/<pid>/maps.
NAME = "haulage-ipc"
SHOWN = f"/memfd:{NAME}"

# The largest part that one call of the system writes or reads.
_PART = 1 << 30

# With these seals a file's size can't change: no access to a mapping of it can fault.
_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def create(address: int, nbytes: int, tail: int) -> int:
    """A memory file with the `nbytes` at `address`, and then `tail` bytes of zeros.

    Raises:
        OutOfMemory: there is no room for it.
        DeviceError: the system refuses another file.
    """
    try:
        file = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise _refused(error, nbytes) from error
    try:
        os.ftruncate(file, nbytes + tail)
        contents = memoryview((ctypes.c_uint8 * nbytes).from_address(address))
        done = 0
        while done < nbytes:
            done += os.pwrite(file, contents[done : done + _PART], done)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _FIXED_SIZE)
    except BaseException as error:
        os.close(file)
        if isinstance(error, OSError):
            raise _refused(error, nbytes) from error
        raise
    return file


def lay_under(address: int, nbytes: int, file: int) -> None:
    """Let the whole pages at `address` be those of the file, with what is in it."""
    _map(address, nbytes, mmap.MAP_SHARED | mappings.FIXED, file)


def make_private(address: int, nbytes: int) -> None:
    """Let the whole pages at `address` be new ones of this process alone, all zeros."""
    _map(address, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mappings.FIXED, -1)
    mappings.prefer_huge_pages(address, nbytes)


def copy_on_write(address: int, nbytes: int, file: int) -> None:
    """Let the whole pages at `address`, which are those of the file, be private copies of them.

    Other threads can go on reading and writing there. Who touches a page meanwhile waits for the
    system, which holds the old page or the new one and nothing between; it makes all copies
    (MAP_POPULATE) before this returns, so what others write to the file from then on stays there.
    """
    flags = mmap.MAP_PRIVATE | mappings.FIXED | mappings.POPULATE
    _map(address, nbytes, flags, file)


def read_back(address: int, nbytes: int, file: int) -> None:
    """Read the first `nbytes` of the file into the memory at `address`."""
    contents = memoryview((ctypes.c_uint8 * nbytes).from_address(address))
    done = 0
    while done < nbytes:
        done += os.preadv(file, [contents[done : done + _PART]], done)


def map_file(file: int, nbytes: int) -> int:
    """The address of a new mapping of the file's first `nbytes`, shared with its other users."""
    return _map(None, nbytes, mmap.MAP_SHARED, file)


def unmap(address: int, nbytes: int) -> None:
    """Take a mapping away."""
    try:
        mappings.take_away(address, nbytes)
    except OSError as error:
        raise _refused(error, nbytes) from error


def open_file(process: int, number: int, nbytes: int) -> int | None:
    """The memory file that another process has open as `number`; None if that is another file.

    Raises:
        FileNotFoundError, PermissionError: as the system answers.
        DeviceError: this process can open no more files.
    """
    path = f"/proc/{process}/fd/{number}"
    # Looked at before it is opened, as opening may wait (a pipe) or do something (a device).
    if not os.readlink(path).startswith(SHOWN):
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise _refused(error, nbytes) from error
        raise
    try:
        sealed = fcntl.fcntl(file, fcntl.F_GET_SEALS) & _FIXED_SIZE == _FIXED_SIZE
        if sealed and os.fstat(file).st_size == nbytes:
            return file
    except OSError as error:
        os.close(file)
        if error.errno == errno.EINVAL:  # not a file that can have seals
            return None
        raise
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _map(address: int | None, nbytes: int, flags: int, file: int) -> int:
    try:
        return mappings.lay(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, file)
    except OSError as error:
        raise _refused(error, nbytes) from error


def _refused(error: OSError, nbytes: int) -> DeviceError:
    name = errno.errorcode.get(error.errno or 0, "?")
    what = f"sharing {nbytes:,} bytes of the cpu device between processes"
    if error.errno in (errno.ENOMEM, errno.ENOSPC):
        return OutOfMemory(f"{what}: the system has no room ({name}); close other arrays first")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DeviceError(
            f"{what}: too many open files ({name}), and each shared array takes one; "
            "close other arrays first, or raise the limit (ulimit -n)"
        )
    return DeviceError(f"{what}: the system refused ({name}: {os.strerror(error.errno or 0)})")
