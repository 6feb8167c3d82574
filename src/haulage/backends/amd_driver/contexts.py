"""The device that the HIP runtime has as current in each thread."""

import ctypes
import threading

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.gpu_driver import contexts


class _Cell(threading.local):
    """Where the runtime writes the number of the calling thread's current device."""

    def __init__(self) -> None:
        self.value = ctypes.c_int()
        self.at = ctypes.byref(self.value)


class Contexts(contexts.Contexts):
    """Makes devices current, by their numbers: HIP has one context for each, which is held as long
    as the process lives and which all libraries use."""

    device_words = "an AMD device"
    driver_words = "HIP"
    asking = "hipGetDevice"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self._calls = calls
        self._cell = _Cell()
        # Without letting go of the interpreter's lock: it reads a variable of the thread.
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self._get_current = prototype(calls.address("hipGetDevice"))

    def current(self) -> int:
        """The number of the device that is current in this thread; -1 if the runtime refuses."""
        cell = self._cell
        return -1 if self._get_current(cell.at) else cell.value.value

    def _hold(self, device: int) -> int:
        # Numbers of devices that are not there are refused here, not when they are used.
        self._calls("hipSetDevice", device)
        return device

    def _make_current(self, handle: int) -> None:
        self._calls("hipSetDevice", handle)
