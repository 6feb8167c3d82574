cdef class Header:
    cdef object __weakref__
    cdef public object block, device, device_pointer, dtype, layout, readonly
    cdef public object shape, size, stream, strides
    # What it is in launches: set when that is first asked for.
    cdef public object _launch_part
