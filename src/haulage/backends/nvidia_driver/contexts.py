"""The primary contexts of devices, which all libraries in a process share."""

import ctypes
import threading

from haulage.backends.gpu_driver import contexts
from haulage.backends.nvidia_driver.calls import Calls, bindings, entry


class _Cell(threading.local):
    """Where the driver writes the handle of the calling thread's current context."""

    def __init__(self) -> None:
        self.value = ctypes.c_void_p()
        self.at = ctypes.byref(self.value)


class Contexts(contexts.Contexts):
    """Makes devices' contexts current. A context is held from its first use to the end of the
    process."""

    device_words = "an NVIDIA device"
    driver_words = "CUDA"
    asking = "cuCtxGetCurrent"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self._calls = calls
        self._cell = _Cell()
        # Without letting go of the interpreter's lock: it takes a twentieth of a microsecond.
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self._get_current = prototype(entry("cuCtxGetCurrent", 4000))

    def current(self) -> int:
        """The handle of the context that is current in this thread; 0 if none is."""
        cell = self._cell
        return 0 if self._get_current(cell.at) else cell.value.value or 0

    def _hold(self, device: int) -> int:
        driver = bindings()
        handle = self._calls(driver.cuDeviceGet, device)
        return int(self._calls(driver.cuDevicePrimaryCtxRetain, handle))

    def _make_current(self, handle: int) -> None:
        self._calls(bindings().cuCtxSetCurrent, handle)
