"""Writing to variables of modules, whatever else the device does."""

import ctypes
import threading

from haulage.backends.nvidia_driver.calls import Calls, bindings

_NON_BLOCKING = 1


class Writing:
    """Writes in a stream of its own for each device. Safe to use from any thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._streams: dict[int, int] = {}

    def __call__(self, device: int, address: int, value: bytes) -> None:
        """Write to memory of `device`, which is current, waiting for no other work."""
        driver = bindings()
        with self._lock:
            stream = self._streams.get(device)
            if stream is None:
                stream = int(self._calls(driver.cuStreamCreateWithPriority, _NON_BLOCKING, 0))
                self._streams[device] = stream
        source = ctypes.create_string_buffer(value, len(value))
        self._calls(driver.cuMemcpyAsync, address, ctypes.addressof(source), len(value), stream)
        self._calls(driver.cuStreamSynchronize, stream)
