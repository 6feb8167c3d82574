"""The driver object of numba.roc: what programs ask of it, in terms of devices and streams."""

import sys
from typing import Any

from haulage.api import close, gpus, is_available, stream, synchronize
from haulage.compat.modules import refuse
from haulage.runtime.context import Context
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import find
from haulage.runtime.devices.stream import Stream


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


def dgpu_present(name: str) -> bool:
    """The `__getattr__` of `numba.roc.hsadrv.driver`: whether arrays can be on a device.

    That looks for devices, and so is not found out when the module is imported.

    Raises:
        AttributeError, ImportError: it is another name.
    """
    if name != "dgpu_present":
        why = (
            "it is a part of HSA's runtime, which is not used; kernels are loaded and launched, "
            "and memory is copied, by the words of `roc`"
        )
        refuse("haulage.roc.hsadrv.driver", name, why, sys._getframe(1))
    return dgpu_count() > 0


def get_gpu(i: int) -> Device:
    """The device of this number, of the current one's kind."""
    return gpus[i]


def get_num_gpus() -> int:
    """How many devices there are of the current one's kind."""
    return len(gpus)


def get_all_contexts() -> list[Context]:
    """The contexts of these devices."""
    return [each.primary_context for each in gpus]


def get_cpu_context() -> Context:
    """The context of the CPU device."""
    return find("cpu").primary_context


class HsaWarning(UserWarning):
    """HSA's runtime warned; Haulage does not use it."""
