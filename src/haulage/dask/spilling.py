"""What is free in a worker's pool, given back where Dask watches the memory of the process.

Dask puts results to disk until the process is small enough, and starts no task while it is too
large. It cannot see that a pool keeps what they had: it would put more to disk than it must, and
where nothing is left to put there it would wait for ever.
"""

from collections.abc import Callable
from typing import Any

from distributed import Status, Worker
from tornado.ioloop import PeriodicCallback

from haulage.runtime.devices.registry import current_device
from haulage.runtime.memory.statistics import trim

# Milliseconds between two looks at whether the worker is paused.
_PERIOD = 500


def watch(worker: Worker) -> Callable[[], None]:
    """Give free memory back when the worker puts a result to disk, and while it is paused; the
    function that ends this. It is called in the worker's event loop."""

    def put_to_disk(key: Any, value: Any) -> None:
        # `value` itself is free a moment later: its memory goes with the next one.
        _give_back()

    def look() -> None:
        if worker.status == Status.paused:
            _give_back()

    # Dask's own buffer has it, and one that somebody has put in its place need not.
    callbacks = getattr(worker.data, "fast_to_slow_callbacks", None)
    if callbacks is not None:
        callbacks.append(put_to_disk)
    looks = PeriodicCallback(look, _PERIOD)
    looks.start()

    def end() -> None:
        looks.stop()
        if callbacks is not None and put_to_disk in callbacks:
            callbacks.remove(put_to_disk)

    return end


def _give_back() -> None:
    device = current_device()
    if device.properties.host_memory_is_device_memory:
        trim(str(device))
