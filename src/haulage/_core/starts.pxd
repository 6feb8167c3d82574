cdef class Start:
    cdef int start(self, unsigned long long stream, bytes launch) except -1
