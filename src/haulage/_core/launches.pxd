from haulage._core.environment cimport Variable
from haulage._core.packing cimport Packer


cdef class LaunchedBase:
    cdef public object chosen, extensions, plain_count
    cdef public bint waits
    cdef public dict _configured


cdef class Part:
    cdef readonly object kind, shape, strides
    cdef readonly bytes data


cdef class PlanBase:
    cdef public LaunchedBase _kernel
    cdef public object _chosen, _device, _start
    cdef public str _way
    cdef public Packer _packer
    cdef public list _arrays
    cdef public tuple _captured
    cdef public bint _by_moment, _flat, _notes, _special, _waits
    cdef bint launch(self, object given, tuple args, list fields) except -1
    cdef int _note(self, object stream, unsigned long long handle, tuple args) except -1


cdef class LauncherBase:
    cdef public LaunchedBase kernel
    cdef public object configuration  # a `runtime.launch.loaded.Configuration`
    cdef public dict plans
