"""Hints about managed memory: where it should be, and how it will be used."""

from typing import Any

from haulage.backends.base import ADVICE
from haulage.backends.nvidia_driver.calls import Calls, bindings

_DEVICE, _HOST = 1, 2


class Hints:
    """Calls about managed memory."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        driver = self._driver = bindings()
        # In cuda-bindings 12.9 the forms that take a location have names of their own.
        self._prefetch = getattr(driver, "cuMemPrefetchAsync_v2", driver.cuMemPrefetchAsync)
        self._advise = getattr(driver, "cuMemAdvise_v2", driver.cuMemAdvise)

    def prefetch(self, address: int, nbytes: int, device: int, stream: int) -> None:
        """Move memory ahead of its use, to the host with device -1."""
        place = self._place(device)
        self._calls(self._prefetch, address, nbytes, place, 0, stream)

    def advise(self, address: int, nbytes: int, advice: str, device: int) -> None:
        """Tell how memory will be used."""
        number = self._driver.CUmem_advise(1 + ADVICE.index(advice))
        self._calls(self._advise, address, nbytes, number, self._place(device))

    def _place(self, device: int) -> Any:
        location = self._driver.CUmemLocation()
        location.type = self._driver.CUmemLocationType(_HOST if device < 0 else _DEVICE)
        location.id = max(device, 0)
        return location
