# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""The argument block of a launch, made of one value for each field."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport isinf
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t
from libc.stdint cimport uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset


cdef extern from *:
    double PyFloat_AsDouble(object number) except? -1
    int PyFloat_Pack2(double number, char *to, int little) except -1
    object PyNumber_Index(object number)
    bint PyLong_Check(object number) noexcept
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object number) except? 0xFFFFFFFFFFFFFFFF
    bint _HAULAGE_LITTLE "PY_LITTLE_ENDIAN"


cdef bint _put_signed(char *to, Py_ssize_t nbytes, object number) except -1:
    cdef int overflow = 0
    cdef int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow:
        return False
    if nbytes == 8:
        (<int64_t *>to)[0] = value
        return True
    if value != <int64_t>(<uint64_t>value << (64 - 8 * nbytes)) >> (64 - 8 * nbytes):
        return False
    if nbytes == 4:
        (<int32_t *>to)[0] = <int32_t>value
    elif nbytes == 2:
        (<int16_t *>to)[0] = <int16_t>value
    else:
        (<int8_t *>to)[0] = <int8_t>value
    return True


cdef bint _put_unsigned(char *to, Py_ssize_t nbytes, object number) except -1:
    cdef uint64_t value = PyLong_AsUnsignedLongLong(number)
    if nbytes == 8:
        (<uint64_t *>to)[0] = value
        return True
    if value >> (8 * nbytes):
        return False
    if nbytes == 4:
        (<uint32_t *>to)[0] = <uint32_t>value
    elif nbytes == 2:
        (<uint16_t *>to)[0] = <uint16_t>value
    else:
        (<uint8_t *>to)[0] = <uint8_t>value
    return True


cdef bint _put_float(char *to, Py_ssize_t nbytes, object number) except -1:
    cdef double value = PyFloat_AsDouble(number)
    cdef float narrow
    if nbytes == 8:
        (<double *>to)[0] = value
        return True
    if nbytes == 2:
        PyFloat_Pack2(value, to, _HAULAGE_LITTLE)
        return True
    narrow = <float>value
    if isinf(narrow) and not isinf(value):
        return False
    (<float *>to)[0] = narrow
    return True


def pack_array(array, unsigned long long address):
    """The field of an array of a device or of NumPy whose elements begin at an address.

    As Numba lays arrays out, in words: no reference count, no owner, elements, bytes of each, the
    address, shape, strides.
    """
    cdef tuple shape = array.shape, strides = array.strides
    cdef Py_ssize_t axis, axes = len(shape)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 8 * (5 + 2 * axes))
    cdef int64_t *words = <int64_t *>PyBytes_AS_STRING(made)
    words[0] = words[1] = 0
    words[2], words[3] = array.size, array.dtype.itemsize
    words[4] = <int64_t>address
    for axis in range(axes):
        words[5 + axis] = shape[axis]
        words[5 + axes + axis] = strides[axis]
    return made


def unit_axis(bytes field not None):
    """Which axis of an array with that field has unit stride: 'l', the last one, else 'f', the
    first one, else '-', none of these; letters as in `compiler.unit_strides`."""
    cdef const int64_t *words = <const int64_t *>PyBytes_AS_STRING(field)
    cdef Py_ssize_t axes = (len(field) // 8 - 5) // 2
    if axes == 0:
        return "-"
    if words[5 + 2 * axes - 1] == words[3]:
        return "l"
    return "f" if words[5 + axes] == words[3] else "-"


cdef class Packer:
    """Makes argument blocks of one layout.

    Args:
        header: what each block begins with.
        fields: of each field 'i', 'u', 'f' or 's' (a signed or unsigned number, a float, or bytes
            as they are), where it lies behind the header, a multiple of a number's size, and its
            size in bytes.
    """

    def __init__(self, bytes header not None, list fields not None):
        cdef Py_ssize_t number
        free(self._fields)
        self._count = 0
        self._fields = <Field *>calloc(max(1, len(fields)), sizeof(Field))
        if self._fields is NULL:
            raise MemoryError
        self._header = header
        self._nbytes = len(header)
        for number, (letter, at, nbytes) in enumerate(fields):
            self._fields[number] = Field(ord(letter), len(header) + at, nbytes)
            self._nbytes = len(header) + at + nbytes
        self._count = len(fields)

    def __dealloc__(self):
        free(self._fields)

    cdef bytes pack(self, list values):
        """The block; None if a value does not fit its field as it is."""
        cdef bytes made
        cdef char *to
        cdef char letter
        cdef Field *field
        cdef Py_ssize_t number, header = len(self._header), end = header
        cdef bint fits
        if len(values) != self._count:
            return None
        made = PyBytes_FromStringAndSize(NULL, self._nbytes)
        to = PyBytes_AS_STRING(made)
        memcpy(to, <const char *>self._header, header)
        for number in range(self._count):
            field = &self._fields[number]
            if field.at > end:
                memset(to + end, 0, field.at - end)
            end = field.at + field.nbytes
            value = <object>values[number]
            letter = field.letter
            if letter == c"s":
                if type(value) is not bytes or len(<bytes>value) != field.nbytes:
                    return None
                memcpy(to + field.at, <const char *>(<bytes>value), field.nbytes)
                continue
            try:
                if letter == c"f":
                    fits = _put_float(to + field.at, field.nbytes, value)
                else:
                    if not PyLong_Check(value):
                        value = PyNumber_Index(value)
                    if letter == c"i":
                        fits = _put_signed(to + field.at, field.nbytes, value)
                    else:
                        fits = _put_unsigned(to + field.at, field.nbytes, value)
            except (TypeError, OverflowError):
                return None
            if not fits:
                return None
        return made

    def __call__(self, list values not None):
        return self.pack(values)
