cdef class RangesBase:
    cdef public object runs
    cdef Py_ssize_t _count
    cdef long long _start, _stop  # of all of them


cdef class Lock:
    cdef object _lock
    cdef readonly long depth


# ---- what is told of it -------------------------------------------------------------------------


cdef class SumsBase:
    cdef public bint kept
    cdef public long long uses, used_bytes, found, found_bytes
    cdef public long long launches, launched_bytes, as_host_arrays, pageable_bytes


cdef class Write:
    cdef readonly RangesBase part
    cdef readonly object call_site, view


cdef class AccountBase:
    cdef public SumsBase sums
    cdef public list writes
    cdef Py_ssize_t _same(self, RangesBase part) except -2
    cdef int _again(self, Py_ssize_t at, object call_site, object view) except -1


# ---- who has memory of it -----------------------------------------------------------------------


cdef class Records:
    cdef public object records, pending


cdef class BaselineBase:
    cdef public dict parts


cdef class HandedOutBase(Records):
    cdef public BaselineBase baseline


cdef class Borrow:
    cdef public object part, call_site, why, stale
    cdef public bint is_overwritten, is_alive


cdef class BorrowedMemory:
    cdef object _host
    cdef Borrow _borrow
    cdef void *_address
    cdef Py_ssize_t _nbytes


# ---- the state ----------------------------------------------------------------------------------


cdef class ReplicaBase:
    cdef public object valid, acquired, arrays, call_site


cdef class DeviceReplicaBase(ReplicaBase):
    cdef public object block, writers, writing
    cdef public long long used
    cdef public bint read_since_write


cdef class StateBase:
    cdef public object account, borrows, defined, evicted, exports, handed_out, host, host_writers
    cdef public object host_writing, last_written, lock, lost, on_host, replicas, shared, uploads
    cdef public object whole
    # Where the memory is of the host's array that was borrowed last.
    cdef object _looked_at
    cdef void *_address
    cdef Py_ssize_t _nbytes
    cdef object array_at_once(
        self,
        object device,
        object stream,
        unsigned long long handle,
        bint writes,
        RangesBase part,
        object key,
        long long nbytes,
        int ways,
    )
    cdef bint release_at_once(
        self, object device, object stream, unsigned long long handle, RangesBase part,
        object call_site,
    ) except -1
    cdef object borrow_at_once(
        self, RangesBase part, str why, object shape, object dtype, object offset, object strides
    )


cdef class Key:
    cdef readonly tuple parts
    cdef Py_hash_t _hash


cdef class Moving:
    cdef public object coherence, _dtype, _given, _key, _layout, _offset, _part, _shape, _skew
    cdef public object _launch_kind, _strides, _typed
    cdef public long long _own_bytes
    cdef public bint _is_plain
    cdef public StateBase _state
    cdef object acquire_at_once(
        self, object device, object stream, unsigned long long handle, bint writes, bint used,
        int ways,
    )
    cdef object borrow_at_once(self, str why)


cdef bint is_moving(object value) noexcept
cdef list release_all(
    Moving first, list others, object device, object stream, unsigned long long handle
)
