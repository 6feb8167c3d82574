"""Handles that the HIP runtime has for allocations of processes."""

import ctypes

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.library import IPC_BYTES, IpcHandle
from haulage.backends.gpu_driver.sharing import DriversHandles

# What lets memory be opened by any device of the process.
_LAZY_PEERS = 1


class Handles(DriversHandles):
    """hipIpcMemHandle_t."""

    of_device = "an AMD device"
    handle_type = "hipIpcMemHandle_t"

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def name(self, address: int) -> bytes:
        """hipIpcGetMemHandle."""
        made = IpcHandle()
        self._calls("hipIpcGetMemHandle", ctypes.byref(made), address)
        return bytes(made)

    def open(self, handle: bytes) -> int:
        """hipIpcOpenMemHandle."""
        assert len(handle) == IPC_BYTES
        made = IpcHandle.from_buffer_copy(handle)
        return self._calls.handle("hipIpcOpenMemHandle", made, _LAZY_PEERS)

    def extent(self, address: int) -> tuple[int, int]:
        """hipMemGetAddressRange."""
        start, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        both = ctypes.byref(start), ctypes.byref(nbytes)
        self._calls("hipMemGetAddressRange", *both, address)
        return start.value or 0, nbytes.value

    def close(self, address: int) -> None:
        """hipIpcCloseMemHandle."""
        self._calls("hipIpcCloseMemHandle", address)
