# cython: auto_pickle=False
"""Calls of GPUs' drivers that programs make again and again, by the addresses of the functions.

They let go of the interpreter's lock: a queue that is full makes a driver wait, and what it waits
for may be a callback in Python. CUDA's driver and HIP have functions of the same form for most.
"""

from haulage._core.starts cimport Start

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t, uintptr_t


cdef extern from *:
    """
    /* The `Inside` of the driver in a callback of which this thread is; NULL: it is in none. */
    static _Thread_local void *haulage_in_callback_of;
    """
    void *haulage_in_callback_of


ctypedef int (*of_nothing)() noexcept nogil
ctypedef int (*of_handle)(void *) noexcept nogil
ctypedef int (*of_handles)(void *, void *) noexcept nogil
ctypedef int (*wait_event)(void *, void *, unsigned) noexcept nogil
ctypedef int (*ask_capturing)(void *, int *) noexcept nogil
ctypedef int (*exchange_mode)(int *) noexcept nogil
# cuMemcpyAsync finds the direction by the addresses; hipMemcpyAsync is told to.
ctypedef int (*copy_by_addresses)(uint64_t, uint64_t, size_t, void *) noexcept nogil
ctypedef int (*copy_of_kind)(void *, void *, size_t, int, void *) noexcept nogil

# cuCtxGetCurrent, which writes a pointer, or hipGetDevice, which writes an int.
ctypedef int (*ask_current)(uintptr_t *) noexcept nogil

# cuLaunchKernel or hipModuleLaunchKernel: function, grid, block, dynamic shared bytes, stream,
# the addresses of the arguments, `extra`.
ctypedef int (*launch_kernel)(
    void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
    void **) noexcept nogil

cdef enum:
    _NOT_PERMITTED = 800
    _RECORDED = 900
    _WAITS_FOR_RECORDED = 906
    _RELAXED = 2  # the mode of a thread that no recording of others minds
    _BY_ADDRESSES = 4  # hipMemcpyDefault

# What drivers say in callbacks; of streams that are recorded; of the default stream while it waits
# for one that is.
NOT_PERMITTED, RECORDED, WAITS_FOR_RECORDED = _NOT_PERMITTED, _RECORDED, _WAITS_FOR_RECORDED


cdef class Inside:
    """Whether the calling thread is in a callback of a driver's stream: `callback`."""

    @property
    def callback(self):
        return haulage_in_callback_of is <void *>self

    @callback.setter
    def callback(self, bint value):
        global haulage_in_callback_of
        haulage_in_callback_of = <void *>self if value else NULL


cdef class Current:
    """Which device of a driver is current in the calling thread.

    Args:
        inside: of the driver.
        ask: the address of the driver's function which tells what is current.

    Attributes:
        handles: what the driver calls the devices in use, by their numbers.
    """

    cdef readonly dict handles
    cdef Inside _inside
    cdef ask_current _ask

    def __init__(self, Inside inside not None, uintptr_t ask):
        self.handles = {}
        self._inside, self._ask = inside, <ask_current>ask

    def current(self):
        """The handle of what is current, 0 if CUDA has nothing; -1: the driver refuses."""
        cdef uintptr_t current = 0
        return -1 if self._ask(&current) else current

    def activate(self, device):
        """Make `device` current in this thread.

        Raises:
            DeviceError: there is no such device; or this is a forked child.
        """
        cdef uintptr_t current = 0
        handle = self.handles.get(device)
        if (handle is None or haulage_in_callback_of is <void *>self._inside
                or self._ask(&current) or current != <uintptr_t>handle):
            self._enter(device)


cdef class Functions:
    """The functions of a driver for copies, streams and events. All give its status.

    In a callback nothing is called: drivers take no calls there. Waits for streams, and questions
    about them, are not called for a stream that CUDA says is recorded: they would spoil that. CUDA
    does not mind the others in a thread that is in its relaxed mode.

    Args:
        inside: of the driver.
        prefix: what its functions' names begin with: `cu` or `hip`.
        addresses: those of its functions, by their names.
    """

    cdef Inside _inside
    cdef of_nothing _synchronize
    cdef of_handle _stream_synchronize, _stream_query, _event_synchronize, _event_query
    cdef of_handles _event_record
    cdef wait_event _stream_wait_event
    cdef ask_capturing _is_capturing
    cdef exchange_mode _exchange_mode
    cdef copy_by_addresses _copy_by_addresses
    cdef copy_of_kind _copy_of_kind

    def __init__(self, Inside inside not None, str prefix not None, dict addresses not None):
        def of(name):
            return addresses[prefix + name]

        self._inside = inside
        self._stream_synchronize = <of_handle><uintptr_t>of("StreamSynchronize")
        self._stream_query = <of_handle><uintptr_t>of("StreamQuery")
        self._stream_wait_event = <wait_event><uintptr_t>of("StreamWaitEvent")
        self._event_record = <of_handles><uintptr_t>of("EventRecord")
        self._event_synchronize = <of_handle><uintptr_t>of("EventSynchronize")
        self._event_query = <of_handle><uintptr_t>of("EventQuery")
        if prefix == "cu":
            self._synchronize = <of_nothing><uintptr_t>of("CtxSynchronize")
            self._copy_by_addresses = <copy_by_addresses><uintptr_t>of("MemcpyAsync")
            self._is_capturing = <ask_capturing><uintptr_t>of("StreamIsCapturing")
            self._exchange_mode = <exchange_mode><uintptr_t>of("ThreadExchangeStreamCaptureMode")
        else:
            self._synchronize = <of_nothing><uintptr_t>of("DeviceSynchronize")
            self._copy_of_kind = <copy_of_kind><uintptr_t>of("MemcpyAsync")

    cdef bint _refuses(self) noexcept:
        return haulage_in_callback_of is <void *>self._inside

    cdef int _recorded(self, uint64_t stream) noexcept nogil:
        """What CUDA would say to a question about a stream that is recorded; 0: it is not."""
        cdef int answer = 0, status
        if self._is_capturing is NULL:
            return 0
        status = self._is_capturing(<void *>stream, &answer)
        if status == _WAITS_FOR_RECORDED:
            return status
        # Other failures the question itself brings.
        return _RECORDED if status == 0 and answer else 0

    cdef int _apart(self, of_handle function, uint64_t handle) noexcept nogil:
        """Call what is no work of a stream."""
        cdef int mode = _RELAXED, status
        if self._exchange_mode is NULL:
            return function(<void *>handle)
        self._exchange_mode(&mode)  # `mode` is what was the thread's, now
        status = function(<void *>handle)
        self._exchange_mode(&mode)
        return status

    def synchronize(self):
        """Wait for all work of the current device."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            status = self._synchronize()
        return status

    def copy(self, uint64_t to, uint64_t source, size_t nbytes, uint64_t stream):
        """Copy bytes in the stream's order."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            if self._copy_of_kind is NULL:
                status = self._copy_by_addresses(to, source, nbytes, <void *>stream)
            else:
                status = self._copy_of_kind(
                    <void *>to, <void *>source, nbytes, _BY_ADDRESSES, <void *>stream)
        return status

    def stream_synchronize(self, uint64_t stream):
        """Wait for a stream."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            status = self._recorded(stream)
            if status == 0:
                status = self._apart(self._stream_synchronize, stream)
        return status

    def stream_query(self, uint64_t stream):
        """Whether a stream's work is done."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            status = self._recorded(stream)
            if status == 0:
                status = self._apart(self._stream_query, stream)
        return status

    def stream_wait_event(self, uint64_t stream, uint64_t event):
        """Order a stream after an event."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            status = self._stream_wait_event(<void *>stream, <void *>event, 0)
        return status

    def event_record(self, uint64_t event, uint64_t stream):
        """Mark the end of a stream."""
        cdef int status = 0
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            if stream == 0:
                status = self._recorded(stream)
            if status == 0:
                status = self._event_record(<void *>event, <void *>stream)
        return status

    def event_synchronize(self, uint64_t event):
        """Wait for an event."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            status = self._apart(self._event_synchronize, event)
        return status

    def event_query(self, uint64_t event):
        """Whether an event is reached."""
        cdef int status
        if self._refuses():
            return _NOT_PERMITTED
        with nogil:
            status = self._apart(self._event_query, event)
        return status


cdef class IdleQuery:
    """Tells whether all work of a device's default stream is done: see `Backend.idle_query`.

    Args:
        current: of the device's driver.
        functions: of the same.
        device: the number of the device.
    """

    cdef Current _current
    cdef Functions _functions
    cdef uintptr_t _handle

    def __init__(self, Current current not None, Functions functions not None, device):
        self._current, self._functions = current, functions
        self._handle = current.handles[device]

    def __call__(self):
        cdef uintptr_t current = 0
        # Another device may be current: to change that takes more than a look.
        if self._current._ask(&current) or current != self._handle:
            return False
        return self._functions.stream_query(0) == 0


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
