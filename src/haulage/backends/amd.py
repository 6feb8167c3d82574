"""AMD GPUs, by the HIP runtime."""

from collections.abc import Callable

from haulage.backends.amd_driver import figures, looking
from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.code import Code
from haulage.backends.amd_driver.copies import Copies
from haulage.backends.amd_driver.counters import Counters
from haulage.backends.amd_driver.graphs import Graphs
from haulage.backends.amd_driver.launches import Launches
from haulage.backends.amd_driver.memory import Memory
from haulage.backends.base import Probe
from haulage.backends.gpu_driver.backend import GPUBackend, Parts


class AMDBackend(GPUBackend):
    """The HIP runtime, by ctypes. Its devices' contexts are those of other libraries.

    Args:
        own_code: gives the code object of `gpu_driver.kernels` for an architecture.

    Raises:
        DeviceError: the runtime does not start.
    """

    name = "amd"

    _code: Code
    _graphs: Graphs
    _launches: Launches

    def __init__(self, own_code: Callable[[str], bytes]) -> None:
        parts = Parts(Calls, Memory, Code, Launches, Graphs, Copies, figures.properties)
        super().__init__(parts, own_code)
        counters = Counters(self._memory, self._streams.write, self._graphs)
        self._launches.count_by(self._code, counters)

    @classmethod
    def probe(cls) -> Probe:
        """The runtime's library, its version and its devices, or what keeps it from having any."""
        return looking.probe()
