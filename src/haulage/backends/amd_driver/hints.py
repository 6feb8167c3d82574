"""Hints about managed memory: where it should be, and how it will be used."""

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.base import ADVICE


class Hints:
    """Calls about managed memory; the runtime, too, has -1 for the host."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def prefetch(self, address: int, nbytes: int, device: int, stream: int) -> None:
        """Move memory ahead of its use, to the host with device -1."""
        self._calls("hipMemPrefetchAsync", address, nbytes, device, stream)

    def advise(self, address: int, nbytes: int, advice: str, device: int) -> None:
        """Tell how memory will be used."""
        self._calls("hipMemAdvise", address, nbytes, 1 + ADVICE.index(advice), device)
