"""`leaks`: nothing that is allocated inside outlives it."""

import gc
from typing import Any

from haulage.errors import LeakError
from haulage.runtime import finalize, observing
from haulage.runtime.device import Device, find
from haulage.runtime.memory import block, pending
from haulage.runtime.memory.holders import Report, own_blocks, report_of


class leaks:
    """`with leaks():` fails if memory that was allocated inside is still held at its end.

    What another thread allocates meanwhile counts as well. Objects that only a garbage collection
    frees are no leaks: one is made at the end.

    Args:
        device: only memory of this device counts, a `Device` or a name as in `haulage.use`; None:
            of all.

    Raises:
        LeakError: at the end: something is held; it has the report. Not where the body has failed
            itself.
        DeviceNotFound: there is no such device.
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self._device = None if device is None else find(device, "leaks: device")
        self._before: frozenset[int] = frozenset()

    def __enter__(self) -> "leaks":
        _let_go()
        self._before = frozenset(each.generation for each in own_blocks(self._device))
        return self

    def __exit__(self, failed: type[BaseException] | None, *exception: Any) -> None:
        if failed is not None:
            return
        held = self.report()
        if held is not None:
            raise LeakError(f"{held}\nfree them inside, or keep what outlives it outside")

    def report(self) -> Report | None:
        """What was allocated since the beginning and is still held; None if nothing is."""
        if self._left():
            _let_go()
            gc.collect()
            finalize.drain()
            pending.reap()
        left = self._left()
        return report_of(left, "memory that was allocated inside is still held") if left else None

    def _left(self) -> list[block.Block]:
        return [each for each in own_blocks(self._device) if each.generation not in self._before]


def _let_go() -> None:
    for watcher in observing.watchers:
        watcher.let_go()
