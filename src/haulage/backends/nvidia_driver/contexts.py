"""The primary contexts of devices, which all libraries in a process share."""

from haulage.backends.gpu_driver import contexts
from haulage.backends.nvidia_driver.calls import Calls, bindings, entry


class Contexts(contexts.Contexts):
    """Makes devices' contexts current. A context is held from its first use to the end of the
    process."""

    device_words = "an NVIDIA device"
    driver_words = "CUDA"
    asking = "cuCtxGetCurrent"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls, entry("cuCtxGetCurrent", 4000))
        self._calls = calls

    def _hold(self, device: int) -> int:
        driver = bindings()
        handle = self._calls(driver.cuDeviceGet, device)
        return int(self._calls(driver.cuDevicePrimaryCtxRetain, handle))

    def _make_current(self, handle: int) -> None:
        self._calls(bindings().cuCtxSetCurrent, handle)
