"""The device that the HIP runtime has as current in each thread."""

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.gpu_driver import contexts


class Contexts(contexts.Contexts):
    """Makes devices current, by their numbers: HIP has one context for each, which is held as long
    as the process lives and which all libraries use."""

    device_words = "an AMD device"
    driver_words = "HIP"
    asking = "hipGetDevice"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls, calls.address("hipGetDevice"))
        self._calls = calls

    def _hold(self, device: int) -> int:
        # Numbers of devices that are not there are refused here, not when they are used.
        self._calls("hipSetDevice", device)
        return device

    def _make_current(self, handle: int) -> None:
        self._calls("hipSetDevice", handle)
