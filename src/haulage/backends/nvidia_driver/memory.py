"""What CUDA's driver knows of addresses."""

from haulage.backends.gpu_driver import memory
from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.memory import Known
from haulage.backends.nvidia_driver.calls import bindings

# Pointer attributes: the kind of memory, its address for kernels of the current device (0: they do
# not reach it), whether it is managed, whose it is; and what the current device may do with it,
# which cuPointerGetAttributes does not tell.
_TYPE, _ON_DEVICE, _IS_MANAGED, _DEVICE_NUMBER = 2, 3, 8, 9
_ACCESS = 16
_OF_A_DEVICE = 2


class Memory(memory.Memory):
    """CUDA's memory."""

    tells_all_peers = True

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        super().__init__(calls, contexts)
        attribute = bindings().CUpointer_attribute
        numbers = (_TYPE, _ON_DEVICE, _IS_MANAGED, _DEVICE_NUMBER)
        self._enquiries = tuple(attribute(number) for number in numbers)

    def known(self, address: int) -> Known:
        """By the driver's attributes of pointers."""
        wanted = self._enquiries
        kind, at, managed, device = self._calls(
            "PointerGetAttributes", len(wanted), wanted, address
        )
        kind = int(kind or 0)
        is_of_a_device = kind == _OF_A_DEVICE and not managed
        # Of pageable memory, which has no kind, devices that take page faults have an address.
        return Known(is_of_a_device, int(at or 0) if kind else 0, device)

    def devices_of(self, target: int, source: int) -> tuple[int, int] | None:
        """Whose memory both are, if it is that of two devices."""
        to, of = self.known(target), self.known(source)
        if to.is_of_a_device and of.is_of_a_device and to.device != of.device:
            return to.device, of.device
        return None

    def _others_let(self, address: int, known: Known) -> bool:
        status, access = self._calls.ask("PointerGetAttribute", _ACCESS, address)
        return bool(known.address if status else access)
