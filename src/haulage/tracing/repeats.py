"""Which copies repeat unchanged data: the one definition, for `haulage trace` and `haulage advise`.

A copy to the device does if the same host array, or the same line, sent the same bytes last, and
the device has them still. A copy to the host does if the host array had these bytes before, or, for
a new one, if they are those of the last copy to or from the same memory of the device.
"""

import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from haulage.tracing.known import Copied, Known, digest

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.buffers.host_copy import HostCopy
    from haulage.runtime.devices.device import Device
    from haulage.runtime.memory import Block


class Before(NamedTuple):
    """Why a copy was not needed: the copy before of the same bytes, if that is known, and whether
    the device may have lost or changed them meanwhile."""

    known: Copied | None
    is_unsure: bool


class Looked(NamedTuple):
    """What comparing a copy gave: the one before, if it repeated that; and whether it could be
    compared, which a copy that is still on its way cannot."""

    before: Before | None
    compared: bool


class Repeats:
    """Compares copies with those before. `hold` is as for `Known`."""

    def __init__(self, hold: bool) -> None:
        self._known = Known(hold)

    def around(self, copy: "HostCopy", line: Hashable, call: Callable[[], object]) -> Looked:
        """Make `call()`, which hands the copy that `line` asks for to its stream; compare it."""
        keys = _keys(copy, line)
        sent = b"" if copy.is_new else digest(copy.host)
        before = None if copy.to_host else self._sent_before(keys, sent, copy.host)
        call()
        if copy.to_host:
            if copy.stream.handle and not copy.stream.idle():
                return Looked(None, False)
            had, sent = sent, digest(copy.host)
            before = self._came_before(keys, sent, None if copy.is_new else had == sent)
        again = before is not None
        there = weakref.ref(copy.block), copy.address, copy.nbytes, copy.is_dense
        made = Copied(sent, *there, copy.to_host, again, line)
        self._known.note(keys, made, copy.block)
        return Looked(before, True)

    def closing(self, block: "Block") -> None:
        """Look at what a block has before it is closed."""
        self._known.closing(block)

    def let_go(self, device: "Device | None" = None, wanted: int | None = None) -> int:
        """As `Known.let_go`."""
        return self._known.let_go(device, wanted)

    def _sent_before(self, keys: tuple[Any, ...], sent: bytes, host: "np.ndarray") -> Before | None:
        """Where the device has these bytes from, if it has them still."""
        for key in keys[1:]:
            known = self._known.of(key, sent)
            if known is not None:
                still = self._known.is_still_there(known, host)
                return None if still is False else Before(known, still is None)
        return None

    def _came_before(
        self, keys: tuple[Any, ...], came: bytes, was_there: bool | None
    ) -> Before | None:
        """Where the host has bytes from that came to an array; `was_there`: that had them before;
        None: it is a new one."""
        known = self._known.of(keys[0], came)
        if was_there is False or (was_there is None and known is None):
            return None
        return Before(known, False)


def _keys(copy: "HostCopy", line: Hashable) -> tuple[Any, ...]:
    """What stands for a copy: the device's end, the host's, and the line."""
    from haulage.runtime.transfers.entries import extent

    device = str(copy.stream.device)
    return (
        (device, copy.block.generation, copy.address, copy.nbytes),
        (device, "host", *extent(copy.host)),
        (device, "line", line, copy.nbytes),
    )
