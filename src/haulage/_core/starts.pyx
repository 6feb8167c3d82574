# cython: auto_pickle=False
"""What launches and waits ask of a device's driver, in C: no step of Python's is in between."""


cdef class Start:
    """Starts launches of one kernel in one configuration, see `Backend.prepare_launch`."""

    cdef int start(self, unsigned long long stream, bytes launch) except -1:
        """Start one in the stream with that handle; `launch` is the header and the arguments."""
        raise NotImplementedError

    def __call__(self, unsigned long long stream, bytes launch not None):
        self.start(stream, launch)


cdef class Queues:
    """The streams of a device whose driver can be asked without a call of the driver's."""

    cdef bint are_idle(self) except -1:
        """Whether all work of all streams is done, and none has failed."""
        raise NotImplementedError

    cdef bint is_idle(self, unsigned long long stream) except -1:
        """Whether all work of a stream is done, and none has failed, of whatever stream."""
        raise NotImplementedError
