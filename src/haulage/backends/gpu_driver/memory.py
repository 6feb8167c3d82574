"""Memory of devices and of the host, as a driver gives it."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from haulage.backends.base import (
    ATTACH_HOST,
    COHERENT,
    DEVICE,
    MANAGED,
    PINNED,
    WRITE_COMBINED,
)
from haulage.backends.gpu_driver.calls import OUT_OF_MEMORY, Calls
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.errors import DeviceError, OutOfMemory

# Of memory of the host.
_PORTABLE, _MAPPED, _WRITE_COMBINED = 1, 2, 4
# Of managed memory.
_GLOBAL, _HOST = 1, 2

# More cannot even be asked for.
_MOST = (1 << 64) - 1

_PEER_ACCESS_NOT_ENABLED = 705


class Known(NamedTuple):
    """What a driver knows of an address; `address` is that for kernels of the current device, 0 for
    none; of memory of a device alone `is_of_a_device`, with its number."""

    is_of_a_device: bool
    address: int
    device: int


UNKNOWN = Known(False, 0, 0)


class Memory(ABC):
    """The driver's memory. Safe to use from any thread.

    `tells_all_peers` says whether what others than Haulage have let devices reach can be asked for.
    """

    tells_all_peers: ClassVar[bool] = False

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        self._calls = calls
        self._contexts = contexts

    @abstractmethod
    def known(self, address: int) -> Known:
        """What the driver knows of an address."""

    def _others_let(self, address: int, known: Known) -> bool:
        """Whether others than Haulage let the current device reach another device's memory."""
        return False

    def _host_flags(self, kind: str, flags: int) -> int:
        """How memory of the host is asked for. All contexts of the process may use it, and kernels
        may."""
        return _PORTABLE | _MAPPED | (_WRITE_COMBINED if flags & WRITE_COMBINED else 0)

    def _check_managed(self) -> None:
        """Raise Unsupported where the current device has no managed memory, and the driver would
        give something else."""

    def alloc(self, nbytes: int, kind: str, flags: int) -> tuple[int, int]:
        """(device pointer, host pointer or 0) of new memory; see `Backend.alloc`."""
        if kind == DEVICE:
            return taken(self._calls, nbytes, kind, "MemAlloc", nbytes), 0
        if kind == MANAGED:
            self._check_managed()
            attached = _HOST if flags & ATTACH_HOST else _GLOBAL
            address = taken(self._calls, nbytes, kind, "MemAllocManaged", nbytes, attached)
            return address, address
        wanted = self._host_flags(kind, flags)
        host = taken(self._calls, nbytes, kind, "MemHostAlloc", nbytes, wanted)
        try:
            return self._calls("MemHostGetDevicePointer", host, 0), host
        except DeviceError:
            self._calls("MemFreeHost", host)
            raise

    def coherent(self, nbytes: int) -> tuple[int, int]:
        """Memory of the host in which it sees at once what kernels write, and they what it does:
        its addresses for devices and for the host."""
        return self.alloc(nbytes, PINNED, COHERENT)

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give back what `alloc` gave."""
        if kind in (DEVICE, MANAGED):
            self._calls("MemFree", device_ptr)
        else:
            self._calls("MemFreeHost", host_ptr)

    def register(self, host_ptr: int, nbytes: int) -> int:
        """Pin memory of the host; its address for the device."""
        self._calls("MemHostRegister", host_ptr, nbytes, _PORTABLE | _MAPPED)
        try:
            address: int = self._calls("MemHostGetDevicePointer", host_ptr, 0)
        except DeviceError:
            self._calls("MemHostUnregister", host_ptr)
            raise
        return address

    def on_device(self, start: int, stop: int) -> int:
        """The address by which kernels of the current device reach the bytes from `start` to
        `stop`; 0: they do not.

        That is the same one but for some pinned memory of the host; pageable memory has none.

        Raises:
            DeviceError: it is another device's, and out of reach.
        """
        first = self.known(start)
        here = self._contexts.device()
        if self.tells_all_peers and first.is_of_a_device and first.device != here:
            self._check_reach(here, start, stop - start, start, first)
        if not first.address:
            return 0
        together = self.known(stop - 1).address - first.address == stop - 1 - start
        return first.address if together else 0

    def check(self, address: int, nbytes: int) -> None:
        """Raise DeviceError where the current device reaches no memory at `address`."""
        here = self._contexts.device()
        for at in (address, address + nbytes - 1):
            found = self.known(at) if 0 <= at < 1 << 64 else UNKNOWN
            if found.is_of_a_device:
                if found.device != here:
                    self._check_reach(here, address, nbytes, at, found)
            elif not found.address:
                raise DeviceError(
                    1,
                    f"{nbytes} bytes at {address:#x} are no memory that {self._calls.driver_words} "
                    f"knows: nothing is allocated at {at:#x}",
                )

    def _check_reach(self, here: int, address: int, nbytes: int, at: int, known: Known) -> None:
        """Raise DeviceError where `known`, of `at`, which is another device's memory than that of
        `here`, the current one, is out of reach."""
        if not (self._contexts.reaches(here, known.device) or self._others_let(at, known)):
            raise DeviceError(
                _PEER_ACCESS_NOT_ENABLED,
                f"{nbytes} bytes at {address:#x} are memory of {self._calls.kind}:{known.device}, "
                "which the current device does not reach: call "
                f"enable_peer_access({known.device}) of the current context first, or copy them",
            )


def taken(calls: Calls, nbytes: int, kind: str, call: str, *args: Any) -> int:
    """What a call for memory gives, of which a program asked for so many bytes.

    Raises:
        OutOfMemory: there is no room.
    """
    status, given = (OUT_OF_MEMORY, None) if nbytes > _MOST else calls.ask(call, *args)
    if status != OUT_OF_MEMORY:
        calls.check(status, call, *args)
        return int(given or 0)
    where, free = "the host", ""
    if kind in (DEVICE, MANAGED):
        where, free = f"the {calls.device_words.partition(' ')[2]}", f": {calls.room()}"
    raise OutOfMemory(f"{where} has no room for {nbytes:,} bytes of {kind} memory{free}")
