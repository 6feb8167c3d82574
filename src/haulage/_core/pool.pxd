from libc.stdint cimport int64_t, uint64_t


cdef extern from "pool_native.h" nogil:
    ctypedef int64_t (*haulage_entry)(const void *, uint64_t, uint64_t) noexcept

    struct haulage_job:
        pass

    ctypedef struct haulage_slot:
        haulage_job *job
        int64_t left


cdef class Workers:
    cdef readonly set waiting
    cdef public bint closing
    cdef readonly bint started
    cdef readonly int workers
    cdef bint prepared
    cdef int64_t _run(self, haulage_entry entry, const void *launch, bint by_all) except? -2
    cdef int64_t _go_on(self, haulage_slot *slot) except? -2
    cdef int _raise_left(self) except -1
