from haulage._core.environment cimport Variable
from haulage._core.packing cimport Packer


cdef class LaunchedBase:
    cdef public object chosen, extensions, plain_count
    cdef public bint waits
    cdef public dict _configured


cdef class Part:
    cdef readonly object kind, shape, strides
    cdef readonly bytes data


cdef class Movement:
    cdef Py_ssize_t number
    cdef bint writes, used
    cdef object mode, use, hint


cdef class PlanBase:
    cdef public LaunchedBase _kernel
    cdef public object _chosen, _current, _device, _start
    cdef public str _way
    cdef public object _checker
    cdef public Packer _packer
    cdef public object _placed
    cdef public list _arrays, _moving, _ordered, _conversions
    cdef public tuple _captured, _kinds
    cdef public bint _apart, _flat, _in_place, _notes, _on_host, _special, _waits
    cdef bint launch(self, object given, tuple args, list fields) except -1
    cdef int _start_specially(
        self, object stream, unsigned long long handle, tuple args, list fields
    ) except -1
    cdef bytes _packed(self, list fields)
    cdef int _begin(self, unsigned long long handle, bytes block) except -1
    cdef bint _holds_now(self, tuple args) except -1
    cdef int _note(self, object stream, unsigned long long handle, tuple args) except -1


cdef class LauncherBase:
    cdef public LaunchedBase kernel
    cdef public object configuration  # a `runtime.launch.loaded.Configuration`
    cdef public dict plans
