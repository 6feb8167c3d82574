cdef class Variable:
    cdef str _name
    cdef dict _table
    cdef object _key, _raw
    cdef str _text
    cdef str text(self)
