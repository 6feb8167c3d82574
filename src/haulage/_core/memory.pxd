from cpython.object cimport PyObject

from haulage._core.extents cimport Extents
from haulage._core.starts cimport Queues


cdef class Pool


cdef class Counter:
    cdef readonly long long in_use, peak, allocations


cdef class Allocation:
    cdef public object device_ptr
    cdef public long long nbytes
    cdef public bint returned


cdef class HeapBase:
    cdef readonly object device
    cdef readonly str kind
    cdef readonly int flags
    cdef readonly Extents free_extents
    cdef readonly Counter counter
    cdef readonly dict pools
    cdef public Pool of_default
    cdef public bint changing
    cdef public object decay
    cdef public long long lowest, spare, unwatched
    cdef public object on_host, is_default_idle
    cdef object _host_address


cdef class Pool:
    cdef readonly HeapBase heap
    cdef readonly object stream
    cdef readonly Counter counter
    cdef Counter _of_device, _of_all
    cdef readonly list free
    cdef readonly Extents parked
    cdef public long long held, direct, misses
    cdef int take_at_once(self, Allocation block) except -1
    cdef int give_at_once(self, Allocation block) except -1
    cdef int _take(self, Allocation block, bint counted, bint at_once) except -1
    cdef void _count_in(self, Allocation block) noexcept
    cdef void _count_out(self, Allocation block) noexcept


cdef class DeviceBase:
    cdef public object capturing, default_stream
    cdef public Queues queues
    cdef public HeapBase heap
    cdef readonly dict heaps


cdef class RuntimeBase:
    cdef public object chosen, choice, best, named, entered, selected
    cdef public dict found
    cdef public object observer, checker, adversary_seed
    cdef public object after_wait, apart, captures, printing, watchers


cdef class BlockBase(Allocation):
    cdef object __weakref__
    cdef public object closed, device, home, host_ptr, kind, release, streams
    cdef public object closed_at
    cdef public Pool pool
    cdef public bint used_before, exposed, exported, of_others
    cdef public long long generation
    cdef public double born
    cdef object _code, _sites
    cdef int _lasti
    cdef PyObject *_previous
    cdef PyObject *_next
    cdef void _enlist(self) noexcept
    cdef void _delist(self) noexcept
    cdef int give_back_at_once(self) except -1


cdef object block_type()
cdef object current_device()
cdef RuntimeBase current_runtime()
cdef bint is_pending() except -1
cpdef object current_call_site()
cdef BlockBase allocate_at_once(DeviceBase device, long long nbytes, object stream)
cdef BlockBase allocate_for_host(DeviceBase device, long long nbytes, tuple kind)
