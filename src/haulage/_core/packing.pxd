cdef struct Field:
    char letter
    bint same
    Py_ssize_t at
    Py_ssize_t nbytes


cdef class Packer:
    cdef bytes _header
    cdef Field *_fields
    cdef Py_ssize_t _count, _nbytes
    cdef bytes pack(self, list values)
    cdef bint _put(self, char *to, list values) except -1
