"""Writing to variables of modules, whatever else the device does."""

import ctypes
import threading

from haulage.backends.amd_driver.calls import Calls

_NON_BLOCKING = 1
_BY_ADDRESSES = 4


class Writing:
    """Writes in a stream of its own for each device. Safe to use from any thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._streams: dict[int, int] = {}

    def __call__(self, device: int, address: int, value: bytes) -> None:
        """Write to memory of `device`, which is current, waiting for no other work."""
        with self._lock:
            stream = self._streams.get(device)
            if stream is None:
                stream = self._calls.handle("hipStreamCreateWithPriority", _NON_BLOCKING, 0)
                self._streams[device] = stream
        source = ctypes.create_string_buffer(value, len(value))
        at = ctypes.addressof(source)
        self._calls("hipMemcpyAsync", address, at, len(value), _BY_ADDRESSES, stream)
        self._calls("hipStreamSynchronize", stream)
