"""Starting kernels, also those whose blocks are all there at one time."""

import ctypes

from haulage.backends.amd_driver.code import Code
from haulage.backends.amd_driver.counters import Counters
from haulage.backends.gpu_driver import launches
from haulage.backends.gpu_driver.launches import Launch


class Launches(launches.Launches):
    """By hipModuleLaunchKernel, and hipModuleLaunchCooperativeKernel, which came with ROCm 5.5."""

    _code: Code
    _counters: Counters

    def count_by(self, code: Code, counters: Counters) -> None:
        """What cooperative launches need: where arguments are, and counters for their blocks."""
        self._code, self._counters = code, counters

    def start_cooperative(self, launch: Launch, stream: int) -> None:
        """The runtime takes no block of arguments here, but where each of them is."""
        function, grid, block, shared_bytes, args = launch
        places = self._code.places(function)
        if places.counter is not None:
            counter = self._counters.of(self._contexts.device(), stream)
            args = args.ljust(places.counter, b"\0") + counter.to_bytes(8, "little")
        packed = ctypes.create_string_buffer(args, len(args) or 1)
        start, count = ctypes.addressof(packed), len(places.arguments)
        each = (ctypes.c_void_p * (count or 1))(*(start + at for at in places.arguments))
        asked = *grid, *block, shared_bytes, stream, each
        self._calls("ModuleLaunchCooperativeKernel", function, *asked)
        self._calls.last[stream] = function
