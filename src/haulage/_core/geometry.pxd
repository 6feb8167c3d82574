cdef enum:
    MOST_AXES = 64  # as NumPy's arrays


cdef struct Geometry:
    int ndim
    long long shape[MOST_AXES]
    long long strides[MOST_AXES]


cdef int read_geometry(Geometry *made, object shape, object strides) except -1
cdef bint select(const Geometry *of, object key, Geometry *made, long long *offset) except -1
cdef object size_of(const Geometry *of)
cdef str letter_of(const Geometry *of, long long itemsize)
cdef tuple tuple_of(const long long *numbers, int count)
