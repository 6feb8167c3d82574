# cython: auto_pickle=False
"""Calls of GPUs' drivers that programs make again and again, by the addresses of the functions.

They let go of the interpreter's lock: a queue that is full makes a driver wait, and what it waits
for may be a callback in Python. CUDA's driver and HIP have functions of the same form for most.
"""

from haulage._core.starts cimport Start

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t, uintptr_t


# cuCtxGetCurrent, which writes a pointer, or hipGetDevice, which writes an int.
ctypedef int (*ask_current)(uintptr_t *) noexcept nogil

# cuLaunchKernel or hipModuleLaunchKernel: function, grid, block, dynamic shared bytes, stream,
# the addresses of the arguments, `extra`.
ctypedef int (*launch_kernel)(
    void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
    void **) noexcept nogil

# What `DriverStart.call` gives where another device is current.
ELSEWHERE = _ELSEWHERE

cdef enum:
    _ELSEWHERE = -1

# In `extra`, before the address of the arguments and before that of their size.
cdef enum:
    _ARGUMENTS = 1
    _SIZE = 2


cdef class DriverStart(Start):
    """Starts a kernel on the device that is current, if that is the right one.

    Args:
        device: the number of the device.
        handle: what the driver calls it: a context of CUDA's, the number of HIP's.
        ask: the address of the driver's function which tells what is current.
        launch: the address of the driver's function which starts kernels.
        end: what ends its `extra`.
        function: the kernel's handle.
        grid, block, shared_bytes: as for `Backend.launch`.
        last: gets the function by the stream's handle, after each start.
        again: `again(self, stream, launch, status)` is called where a start has failed.
    """

    cdef readonly int device
    cdef readonly object function
    cdef readonly tuple grid, block
    cdef readonly uint32_t shared_bytes
    cdef uintptr_t _handle, _end
    cdef ask_current _ask
    cdef launch_kernel _launch
    cdef void *_function
    cdef unsigned[6] _dims
    cdef dict _last
    cdef object _again

    def __init__(
        self, int device, uintptr_t handle, uintptr_t ask, uintptr_t launch, uintptr_t end,
        function, tuple grid not None, tuple block not None, uint32_t shared_bytes,
        dict last not None, again,
    ):
        self.device, self._handle = device, handle
        self._ask, self._launch, self._end = <ask_current>ask, <launch_kernel>launch, end
        self.function, self._function = function, <void *><uintptr_t>function
        self.grid, self.block, self.shared_bytes = grid, block, shared_bytes
        self._dims[0], self._dims[1], self._dims[2] = grid
        self._dims[3], self._dims[4], self._dims[5] = block
        self._last, self._again = last, again

    cdef int start(self, unsigned long long stream, bytes launch) except -1:
        cdef int status = self._call(stream, launch)
        if status:
            self._again(self, stream, launch, status)
        self._last[stream] = self.function
        return 0

    def call(self, uint64_t stream, bytes launch not None):
        """Start the kernel in the stream with that handle, with the arguments `launch`; the
        driver's status, or `ELSEWHERE`: another device is current."""
        return self._call(stream, launch)

    cdef int _call(self, uint64_t stream, bytes launch):
        cdef char *arguments = launch
        cdef size_t nbytes = len(launch)
        cdef uintptr_t current = 0
        cdef void *extra[5]
        cdef int status
        extra[0], extra[1] = <void *>_ARGUMENTS, arguments
        extra[2], extra[3] = <void *>_SIZE, &nbytes
        extra[4] = <void *>self._end
        with nogil:
            status = self._ask(&current)
            if status == 0:
                if current == self._handle:
                    status = self._launch(
                        self._function, self._dims[0], self._dims[1], self._dims[2], self._dims[3],
                        self._dims[4], self._dims[5], self.shared_bytes, <void *>stream, NULL,
                        extra if nbytes else NULL)
                else:
                    status = _ELSEWHERE
        return status
