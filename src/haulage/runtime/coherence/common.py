"""What the host and devices had alike last, which tells who of them has changed it since."""

from collections.abc import Iterable

import numpy as np

from haulage.runtime.device import Device
from haulage.runtime.ranges import Ranges, Run


class Common:
    """The bytes of devices' copies of one storage that views of the host show too.

    Args:
        grain: bytes of an element, which is written as a whole.

    Attributes:
        parts: these bytes, by device.
        were: what both had last, at the places that they have on the host.
    """

    __slots__ = ("_grain", "parts", "were")

    def __init__(self, grain: int) -> None:
        self._grain = grain
        self.parts: dict[Device, Ranges] = {}
        self.were: np.ndarray | None = None

    def common(self, device: Device) -> Ranges:
        """The bytes of which is known what the device and the host had last."""
        return self.parts.get(device, Ranges())

    def all_common(self) -> Ranges:
        """`common` of all devices."""
        found = Ranges()
        for part in self.parts.values():
            found |= part
        return found

    def agree(self, device: Device, part: Ranges, host: np.ndarray) -> None:
        """Note that the host and the device have the same bytes now, and only `part` is common."""
        known = self.common(device)
        if part:
            if self.were is None:
                self.were = np.empty_like(host)
            for start, stop in part - known:
                self.were[start:stop] = host[start:stop]
            self.parts[device] = part
        else:
            self.parts.pop(device, None)
        if not self.parts:
            self.were = None

    def forget(self, part: Ranges) -> None:
        """Some bytes were written by somebody who said so."""
        for device, known in tuple(self.parts.items()):
            self.parts[device] = known - part

    def leave(self, device: Device) -> None:
        """Forget all of a device."""
        self.parts.pop(device, None)

    def clear(self) -> None:
        """Forget all."""
        self.parts.clear()
        self.were = None

    def changed(self, part: Ranges, now: np.ndarray) -> Ranges:
        """The elements with bytes in `part`, which is common, that are others now."""
        assert self.were is not None
        found: list[Run] = []
        for start, stop in part:
            first, last = start // self._grain * self._grain, -(-stop // self._grain) * self._grain
            differ = np.zeros(last - first, bool)
            differ[start - first : stop - first] = self.were[start:stop] != now[start:stop]
            edges = np.diff(differ.reshape(-1, self._grain).any(1), prepend=False, append=False)
            for begin, end in np.flatnonzero(edges).reshape(-1, 2).tolist():
                found.append((first + begin * self._grain, first + end * self._grain))
        return _union(found) & part


def _union(runs: Iterable[Run]) -> Ranges:
    """Runs in order, that may touch."""
    merged: list[Run] = []
    for start, stop in runs:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return Ranges(tuple(merged))
