"""Whether an address that someone else gave is memory of this process."""

import ctypes
import errno
import os
import sys

from haulage.errors import DeviceError


def check(address: int, nbytes: int) -> None:
    """See that the first and the last of `nbytes` bytes (0: there is nothing to see) can be read.

    The system is asked to take them into a pipe, which refuses a bad address where a load would end
    the process. Only POSIX systems can be asked so; elsewhere nothing is checked.

    Raises:
        DeviceError: the process has no memory there, as with the address of a GPU's memory.
    """
    if not nbytes or sys.platform == "win32":
        return
    end = 1 << 8 * ctypes.sizeof(ctypes.c_void_p)
    if not (0 < address <= end - nbytes and _readable(address, address + nbytes - 1)):
        raise DeviceError(
            f"the cpu device cannot reach {nbytes} bytes at {address:#x}: they are no memory of "
            "this process; memory of a GPU is copied by its own library first"
        )


def _readable(*addresses: int) -> bool:
    reading, writing = os.pipe()
    try:
        for address in addresses:
            os.write(writing, (ctypes.c_char * 1).from_address(address))
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        return False
    finally:
        os.close(reading)
        os.close(writing)
    return True
