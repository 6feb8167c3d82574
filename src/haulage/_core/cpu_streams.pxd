from libc.stdint cimport uint64_t

from haulage._core.pool cimport Workers, haulage_entry
from haulage._core.starts cimport Queues, Start


cdef class Cost:
    cdef double _of_block
    cdef bint is_short_of(self, double blocks) noexcept


cdef class TaskBase:
    cdef public object done, followers, stream, thread


cdef class StreamBase:
    cdef public object own, tail


cdef class StreamsBase(Queues):
    cdef public object lock, closed, _default, _held, _waiting
    cdef public dict _busy, _streams, _failed
    cdef public list _ended
    cdef TaskBase _take_own(self, unsigned long long handle, Cost cost, double blocks)
    cdef int _end_own(self, TaskBase task) except -1


cdef class GridStart(Start):
    cdef StreamsBase _streams
    cdef Workers _workers
    cdef object _perform, _failed, _function
    cdef haulage_entry _entry
    cdef bint _by_all
    cdef double _blocks
    cdef Cost _cost
