"""Starting kernels, also those whose blocks are all there at one time."""

import ctypes

from haulage.backends.gpu_driver import launches
from haulage.backends.gpu_driver.launches import Dims


class Launches(launches.Launches):
    """By hipModuleLaunchKernel, and hipModuleLaunchCooperativeKernel, which came with ROCm 5.5."""

    def start_cooperative(
        self,
        function: int,
        grid: Dims,
        block: Dims,
        shared_bytes: int,
        stream: int,
        args: bytes,
        offsets: tuple[int, ...],
    ) -> None:
        """Start a kernel that has a barrier of its grid. The runtime takes no block of arguments
        here, but where each of them is: `offsets` in `args`."""
        packed = ctypes.create_string_buffer(args, len(args) or 1)
        start = ctypes.addressof(packed)
        each = (ctypes.c_void_p * (len(offsets) or 1))(*(start + at for at in offsets))
        self._calls(
            "ModuleLaunchCooperativeKernel",
            function,
            *grid,
            *block,
            shared_bytes,
            stream,
            ctypes.addressof(each),
        )
        self._calls.last[stream] = function
