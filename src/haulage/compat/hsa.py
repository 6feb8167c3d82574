"""The driver object of numba.roc: what programs ask of it, in terms of devices and streams."""

from typing import Any

from haulage.api import close, gpus, is_available, stream, synchronize
from haulage.runtime.device import Device
from haulage.runtime.stream import Stream


class Driver:
    """What `numba.roc.hsadrv.driver.hsa` is: it lists agents, makes streams and waits."""

    @property
    def is_available(self) -> bool:
        """Whether a device can be used."""
        return is_available()

    @property
    def agents(self) -> list[Device]:
        """The devices of the current one's kind."""
        return list(gpus)

    @property
    def components(self) -> list[Device]:
        """The same: kernels run on all of them."""
        return list(gpus)

    def create_stream(self) -> Stream:
        """A new stream of the current device."""
        return stream()

    def implicit_sync(self) -> None:
        """Wait for all work of the current device.

        Raises:
            KernelError: threads of a kernel had failed.
        """
        synchronize()

    def reset(self) -> None:
        """As `roc.close()`."""
        close()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the driver has no {name!r}: functions of HSA's runtime are not called; memory is "
            "registered by roc.register, copied by the methods of arrays, and given by "
            "roc.device_array and roc.coarsegrain_array",
            name=name,
            obj=self,
        )


hsa = Driver()


def dgpu_count() -> int:
    """How many devices with memory of their own, or counted as such, there are."""
    return len(gpus) if is_available() else 0
