from haulage._core.memory cimport DeviceBase


cdef bint is_stream_done(DeviceBase device, unsigned long long handle) except -1
