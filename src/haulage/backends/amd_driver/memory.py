"""What the HIP runtime knows of addresses, and the kinds of memory that it has."""

import ctypes

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.base import COHERENT, MAPPED, NON_COHERENT
from haulage.backends.gpu_driver import memory
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.memory import UNKNOWN, Known
from haulage.errors import Unsupported

# Of hipHostMalloc.
_COHERENT, _NON_COHERENT = 0x40000000, 0x80000000

_INVALID_VALUE, _INVALID_POINTER = 1, 17
# What the attributes of a pointer say of memory that the runtime does not know, since ROCm 6; in 5
# the same number stands for memory of the host.
_UNREGISTERED = 0
_RENUMBERED = (6, 0)


class _Attributes(ctypes.Structure):
    """hipPointerAttribute_t: in all versions these come first; the numbers of types differ."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("on_device", ctypes.c_void_p),
        ("on_host", ctypes.c_void_p),
        ("rest", ctypes.c_char * 232),
    )


class Memory(memory.Memory):
    """HIP's memory."""

    _calls: Calls

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        super().__init__(calls, contexts)
        self._managed: dict[int, bool] = {}

    def _host_flags(self, kind: str, flags: int) -> int:
        wanted = super()._host_flags(kind, flags)
        # What kernels and the host write to at one time is coherent unless a program wants the
        # caches; of pinned memory the runtime decides, by HIP_HOST_COHERENT.
        if flags & NON_COHERENT:
            return wanted | _NON_COHERENT
        if kind == MAPPED or flags & COHERENT:
            return wanted | _COHERENT
        return wanted

    def _check_managed(self) -> None:
        # The runtime would give pinned memory of the host in its place, which does not move.
        device = self._contexts.device()
        if device not in self._managed:
            self._managed[device] = bool(self._calls.attribute(device, "MANAGED_MEMORY"))
        if not self._managed[device]:
            raise Unsupported(
                f"AMD device {device} has no managed memory with this driver: use mapped arrays, "
                "or copies"
            )

    def known(self, address: int) -> Known:
        """By the runtime's attributes of pointers."""
        told = _Attributes()
        status, _ = self._calls.ask("PointerGetAttributes", ctypes.byref(told), address)
        if status:
            if status in (_INVALID_VALUE, _INVALID_POINTER):
                return UNKNOWN  # pageable memory, in ROCm 5
            raise self._calls.failed("PointerGetAttributes", (address,), status)
        is_renumbered = self._calls.version >= _RENUMBERED
        if not told.on_device or (is_renumbered and told.type == _UNREGISTERED):
            return UNKNOWN
        is_of_a_device = told.type == (2 if is_renumbered else 1)
        return Known(is_of_a_device, told.on_device, told.device)
