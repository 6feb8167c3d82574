"""Handles that CUDA's driver has for allocations of processes."""

import ctypes

from haulage.backends.gpu_driver.sharing import DriversHandles
from haulage.backends.nvidia_driver.calls import Calls, bindings

_BYTES = 64
# What lets memory be opened by any device of the process.
_LAZY_PEERS = 1


class Handles(DriversHandles):
    """CUipcMemHandle."""

    of_device = "an NVIDIA device"
    handle_type = "CUipcMemHandle"

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._driver = bindings()

    def name(self, address: int) -> bytes:
        """cuIpcGetMemHandle."""
        made = self._calls(self._driver.cuIpcGetMemHandle, address)
        return ctypes.string_at(made.getPtr(), _BYTES)

    def open(self, handle: bytes) -> int:
        """cuIpcOpenMemHandle."""
        made = self._driver.CUipcMemHandle()
        ctypes.memmove(made.getPtr(), handle, _BYTES)
        return int(self._calls(self._driver.cuIpcOpenMemHandle, made, _LAZY_PEERS))

    def extent(self, address: int) -> tuple[int, int]:
        """cuMemGetAddressRange."""
        start, nbytes = self._calls(self._driver.cuMemGetAddressRange, address)
        return int(start), int(nbytes)

    def close(self, address: int) -> None:
        """cuIpcCloseMemHandle."""
        self._calls(self._driver.cuIpcCloseMemHandle, address)
