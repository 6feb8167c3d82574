from haulage._core.arrays cimport Header


cdef class StridedBase(Header):
    pass
