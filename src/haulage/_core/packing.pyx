# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""The argument block of a launch, made of one value for each field."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport isinf
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t
from libc.stdint cimport uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset


cdef extern from *:
    ctypedef struct Py_complex:
        double real
        double imag

    Py_complex PyComplex_AsCComplex(object number) except *
    double PyFloat_AsDouble(object number) except? -1
    bint PyFloat_Check(object number) noexcept
    double PyFloat_AS_DOUBLE(object number) noexcept
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


cdef bint _put_complex(char *to, Py_ssize_t nbytes, object number) except -1:
    cdef Py_complex value = PyComplex_AsCComplex(number)
    cdef float real, imag
    if nbytes == 16:
        memcpy(to, &value, 16)
        return True
    real, imag = <float>value.real, <float>value.imag
    memcpy(to, &real, 4)
    memcpy(to + 4, &imag, 4)
    return True


cdef bint _put_number(char *to, Field *field, object number) except -1:
    if field.letter == c"f":
        return _put_float(to, field.nbytes, number)
    if field.letter == c"c":
        return _put_complex(to, field.nbytes, number)
    if not PyLong_Check(number):
        number = PyNumber_Index(number)
    if field.letter == c"i":
        return _put_signed(to, field.nbytes, number)
    return _put_unsigned(to, field.nbytes, number)


cdef bint _put_bytes(char *to, Py_ssize_t nbytes, object value) except -1:
    """Put the bytes that an object lends; False if they are not so many."""
    cdef Py_buffer lent
    cdef bint fits
    PyObject_GetBuffer(value, &lent, PyBUF_SIMPLE)
    fits = lent.len == nbytes
    if fits:
        memcpy(to, lent.buf, nbytes)
    PyBuffer_Release(&lent)
    return fits


def integer_of(value):
    """The 64 bits of a NumPy scalar as a signed integer."""
    cdef int64_t bits = 0
    if not _put_bytes(<char *>&bits, 8, value):
        raise TypeError(f"{value!r} does not have 8 bytes")
    return bits


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
    words[2], words[3] = 1, array.dtype.itemsize
    words[4] = <int64_t>address
    for axis in range(axes):
        words[5 + axis] = shape[axis]
        words[2] *= words[5 + axis]
        words[5 + axes + axis] = strides[axis]
    return made


def unit_axis(bytes field not None):
    """Which axis of an array with that field has unit stride: 'l', the last one, else 'f', the
    first one, else '-', none of these; letters as in `compiler.versions`."""
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
        fields: of each field 'i', 'u', 'f', 'c' or 's' (a signed or unsigned number, a float, a
            complex number, or bytes as they are), where it lies behind the header, a multiple of a
            number's size, its size in bytes, and whether NumPy's scalars that are given for it have
            its dtype.
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
        for number, (letter, at, nbytes, same) in enumerate(fields):
            self._fields[number] = Field(ord(letter), same, len(header) + at, nbytes)
            self._nbytes = len(header) + at + nbytes
        self._count = len(fields)

    def __dealloc__(self):
        free(self._fields)

    cdef bytes pack(self, list values):
        """The block; None if a value does not fit its field as it is."""
        cdef bytes made
        cdef char *to
        cdef Py_ssize_t header = len(self._header)
        if len(values) != self._count:
            return None
        made = PyBytes_FromStringAndSize(NULL, self._nbytes)
        to = PyBytes_AS_STRING(made)
        memcpy(to, <const char *>self._header, header)
        try:
            return made if self._put(to, values) else None
        except (TypeError, OverflowError):
            return None

    cdef bint _put(self, char *to, list values) except -1:
        """Put the values behind the header; False if one does not fit its field as it is."""
        cdef Field *field
        cdef char *at
        cdef char letter
        cdef Py_ssize_t number, end = len(self._header)
        cdef bint fits
        cdef object value
        for number in range(self._count):
            field = &self._fields[number]
            if field.at > end:
                memset(to + end, 0, field.at - end)
            end = field.at + field.nbytes
            value = <object>values[number]
            at, letter = to + field.at, field.letter
            if type(value) is float and letter == c"f" and field.nbytes == 8:
                (<double *>at)[0] = PyFloat_AS_DOUBLE(value)
                continue
            if letter == c"s":
                if type(value) is not bytes or len(<bytes>value) != field.nbytes:
                    return False
                memcpy(at, <const char *>(<bytes>value), field.nbytes)
                continue
            if PyLong_Check(value) or PyFloat_Check(value):
                fits = _put_number(at, field, value)
            elif field.same and PyObject_CheckBuffer(value):
                fits = _put_bytes(at, field.nbytes, value)
            else:
                fits = _put_number(at, field, value)
            if not fits:
                return False
        return True

    def __call__(self, list values not None):
        return self.pack(values)
