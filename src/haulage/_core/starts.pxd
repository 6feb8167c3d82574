cdef class Start:
    cdef int start(self, unsigned long long stream, bytes launch) except -1


cdef class Queues:
    cdef bint are_idle(self) except -1
    cdef bint is_idle(self, unsigned long long stream) except -1
