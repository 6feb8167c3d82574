"""Starting kernels, also those whose blocks are all there at one time."""

import ctypes

from haulage.backends.gpu_driver import launches
from haulage.backends.gpu_driver.launches import Launch
from haulage.backends.nvidia_driver.calls import bindings

# The attribute of a launch whose blocks are all there at one time.
_COOPERATIVE = 2


class Launches(launches.Launches):
    """By cuLaunchKernel and cuLaunchKernelEx."""

    def start_cooperative(self, launch: Launch, stream: int) -> None:
        """By an attribute of the launch."""
        driver = bindings()
        function, grid, block, shared_bytes, args = launch
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
        asked = self._asked("LaunchKernelEx", launch, stream)
        at = ctypes.addressof(extra) if args else 0
        self._calls("LaunchKernelEx", wanted, function, 0, at, asked=asked)
        self._calls.last[stream] = function
