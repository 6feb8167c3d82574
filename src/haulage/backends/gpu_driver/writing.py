"""Writing to variables of modules, whatever else the device does."""

import ctypes
import threading

from haulage.backends.base import NON_BLOCKING
from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.gpu_driver.streams import Streams


class Writing:
    """Writes in a stream of its own for each device. Safe to use from any thread."""

    def __init__(self, calls: Calls, streams: Streams) -> None:
        self._calls = calls
        self._streams = streams
        self._lock = threading.Lock()
        self._own: dict[int, int] = {}

    def __call__(self, device: int, address: int, value: bytes) -> None:
        """Write to memory of `device`, which is current, waiting for no other work."""
        with self._lock:
            stream = self._own.get(device)
            if stream is None:
                stream = self._calls("StreamCreateWithPriority", NON_BLOCKING, 0)
                self._own[device] = stream
        source = ctypes.create_string_buffer(value, len(value))
        self._streams.copy(address, ctypes.addressof(source), len(value), stream)
        self._streams.synchronize(stream)
