cdef struct Range:
    long long address
    long long nbytes


cdef class Extents:
    cdef readonly long long nbytes
    cdef public set walls
    cdef Range *_by_address
    cdef Range *_by_size
    cdef Py_ssize_t _count, _room
    cdef int _has_room(self, Py_ssize_t more) except -1
    cdef void _insert(self, long long address, long long nbytes) noexcept
    cdef void _remove(self, Py_ssize_t at) noexcept
    cdef int put(self, long long address, long long nbytes) except -1
    cdef long long get(self, long long nbytes, bint exactly) except -2
