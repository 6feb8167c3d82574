# cython: auto_pickle=False
"""What starts a kernel, in C: a launch asks it without a step of Python's."""


cdef class Start:
    """Starts launches of one kernel in one configuration, see `Backend.prepare_launch`."""

    cdef int start(self, unsigned long long stream, bytes launch) except -1:
        """Start one in the stream with that handle; `launch` is the header and the arguments."""
        raise NotImplementedError

    def __call__(self, unsigned long long stream, bytes launch not None):
        self.start(stream, launch)
