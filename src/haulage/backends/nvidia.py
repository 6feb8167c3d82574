"""NVIDIA GPUs, by CUDA's driver."""

from collections.abc import Sequence

from haulage.backends.base import Probe
from haulage.backends.gpu_driver.backend import GPUBackend, Parts
from haulage.backends.gpu_driver.graphs import Graphs
from haulage.backends.nvidia_driver import figures, kernels, linking, looking, stacks
from haulage.backends.nvidia_driver.calls import Calls
from haulage.backends.nvidia_driver.code import Code
from haulage.backends.nvidia_driver.copies import Copies
from haulage.backends.nvidia_driver.launches import Launches
from haulage.backends.nvidia_driver.memory import Memory


class NVIDIABackend(GPUBackend):
    """CUDA's driver, by way of `cuda-bindings`. Its primary contexts are those of other libraries.

    Raises:
        DeviceError: the driver does not start.
    """

    name = "nvidia"

    _code: Code

    def __init__(self) -> None:
        parts = Parts(Calls, Memory, Code, Launches, Graphs, Copies, figures.properties)
        super().__init__(parts, lambda architecture: kernels.text().encode())

    @classmethod
    def probe(cls) -> Probe:
        """The driver's library, its version, its devices, and the package `cuda-bindings`."""
        return looking.probe()

    def link(self, pieces: Sequence[tuple[str, str, bytes]]) -> bytes:
        """A cubin, by the driver's linker."""
        return linking.link(self._calls, pieces)

    def prefer_shared(self, function: int, percent: int) -> None:
        """A hint that the driver takes."""
        self._code.prefer_shared(function, percent)

    def deepen_stacks(self) -> None:
        """A limit of the context, raised once."""
        stacks.deepen(self._calls, self.properties(self._contexts.device()))

    def ipc_export_of_others(self, device_ptr: int) -> tuple[bytes, int]:
        """The driver's own handle."""
        return self._sharing.export_of_others(device_ptr)

    def profile(self, record: bool) -> bool:
        """cuProfilerStart or cuProfilerStop, for Nsight and the like."""
        self._calls("ProfilerStart" if record else "ProfilerStop")
        return True
