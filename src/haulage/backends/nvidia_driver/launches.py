"""Starting kernels, also those whose blocks are all there at one time."""

import ctypes

from haulage.backends.gpu_driver import launches
from haulage.backends.gpu_driver.launches import Dims
from haulage.backends.nvidia_driver.calls import bindings

# The attribute of a launch whose blocks are all there at one time.
_COOPERATIVE = 2


class Launches(launches.Launches):
    """By cuLaunchKernel and cuLaunchKernelEx."""

    def start_cooperative(
        self,
        function: int,
        grid: Dims,
        block: Dims,
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Start a kernel that has a barrier of its grid."""
        driver = bindings()
        together = driver.CUlaunchAttribute()
        together.id = driver.CUlaunchAttributeID(_COOPERATIVE)
        together.value.cooperative = 1
        wanted = driver.CUlaunchConfig()
        wanted.gridDimX, wanted.gridDimY, wanted.gridDimZ = grid
        wanted.blockDimX, wanted.blockDimY, wanted.blockDimZ = block
        wanted.sharedMemBytes = shared_bytes
        wanted.hStream = stream
        wanted.attrs, wanted.numAttrs = [together], 1
        size = ctypes.c_size_t(len(args))
        packed = ctypes.create_string_buffer(args, len(args) or 1)
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
        self._calls(
            "LaunchKernelEx",
            wanted,
            function,
            0,
            ctypes.addressof(extra) if args else 0,
            asked=self._asked(
                "LaunchKernelEx", function, grid, block, shared_bytes, stream, len(args)
            ),
        )
        self._calls.last[stream] = function
