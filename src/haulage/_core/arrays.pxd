cdef class Header:
    cdef object __weakref__
    cdef public object block, device, device_pointer, dtype, layout, readonly
    cdef public object shape, size, stream, strides
