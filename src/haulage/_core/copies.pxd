from haulage._core.arrays cimport Header


cdef object load(Header array, long long offset)
cdef bint store(Header array, long long offset, object value) except -1
