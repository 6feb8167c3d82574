# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Shapes and strides of views: what `haulage.runtime.geometry.layout` has in C.

A `Geometry` has the numbers of one array. Strides are in bytes, as NumPy's. The rules for contiguity
are NumPy's as well: an array without elements is contiguous in both orders, and the stride of an
axis of length 0 or 1 does not matter.
"""

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

from collections.abc import Mapping, Set
from math import prod
import operator


cdef extern from *:
    bint __builtin_mul_overflow(long long one, long long other, long long *product) noexcept
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    int PySlice_Unpack(
        object slice, Py_ssize_t *start, Py_ssize_t *stop, Py_ssize_t *step
    ) except -1
    Py_ssize_t PySlice_AdjustIndices(
        Py_ssize_t length, Py_ssize_t *start, Py_ssize_t *stop, Py_ssize_t step
    ) noexcept


# NumPy's own types of whole numbers.
cdef frozenset _integers = frozenset()


def know_integers(types):
    """Tell which classes besides int have nothing but whole numbers."""
    global _integers
    _integers = types


# ---- numbers ------------------------------------------------------------------------------------


cdef int read_geometry(Geometry *made, object shape, object strides) except -1:
    """Put down shape and strides, sequences of ints.

    Raises:
        ValueError: there are more axes than an array can have, or numbers beyond 64 bits.
    """
    cdef Py_ssize_t ndim, n
    cdef tuple sizes = shape if type(shape) is tuple else tuple(shape)
    cdef tuple steps = strides if type(strides) is tuple else tuple(strides)
    ndim = len(sizes)
    if ndim != len(steps):
        raise ValueError(f"strides {steps} do not fit shape {sizes}: expected one for each axis")
    if ndim > MOST_AXES:
        raise ValueError(f"shape {sizes}: an array has {MOST_AXES} axes at most")
    try:
        for n in range(ndim):
            made.shape[n] = sizes[n]
            made.strides[n] = steps[n]
    except OverflowError:
        raise ValueError(
            f"shape {sizes} with strides {steps}: expected numbers of 64 bits"
        ) from None
    made.ndim = <int>ndim
    return 0


cdef tuple tuple_of(const long long *numbers, int count):
    cdef tuple made = PyTuple_New(count)
    cdef int n
    cdef object number
    for n in range(count):
        number = numbers[n]
        Py_INCREF(number)
        PyTuple_SET_ITEM(made, n, number)
    return made


cdef object size_of(const Geometry *of):
    """How many elements there are."""
    cdef long long size = 1
    cdef int n
    for n in range(of.ndim):
        if __builtin_mul_overflow(size, of.shape[n], &size):
            return prod(tuple_of(of.shape, of.ndim))  # as where each element is shown many times
    return size


# ---- contiguity ---------------------------------------------------------------------------------


cdef bint _is_contiguous(const Geometry *of, long long itemsize, bint is_fortran) noexcept:
    cdef long long step = itemsize
    cdef bint contiguous = True
    cdef int n, axis
    for n in range(of.ndim):
        axis = n if is_fortran else of.ndim - 1 - n
        if of.shape[axis] == 0:
            return True
        if of.shape[axis] != 1:
            contiguous = contiguous and of.strides[axis] == step
            if __builtin_mul_overflow(step, of.shape[axis], &step):
                contiguous = contiguous and itemsize == 0  # no stride is that long
    return contiguous


cdef str letter_of(const Geometry *of, long long itemsize):
    if _is_contiguous(of, itemsize, False):
        return "C"
    return "F" if _is_contiguous(of, itemsize, True) else "A"


def is_c_contiguous(shape, strides, long long itemsize):
    """Whether the elements lie without gaps in C order."""
    cdef Geometry of
    read_geometry(&of, shape, strides)
    return _is_contiguous(&of, itemsize, False)


def is_f_contiguous(shape, strides, long long itemsize):
    """Whether the elements lie without gaps in Fortran order."""
    cdef Geometry of
    read_geometry(&of, shape, strides)
    return _is_contiguous(&of, itemsize, True)


def layout_letter(shape, strides, long long itemsize):
    """'C', 'F' or 'A' (any), in the sense of Numba's array types."""
    cdef Geometry of
    read_geometry(&of, shape, strides)
    return letter_of(&of, itemsize)


# ---- basic indexing -----------------------------------------------------------------------------


def index(shape, strides, key):
    """NumPy's basic indexing: whole numbers, slices, Ellipsis and newaxis, in a tuple or alone.

    Returns (byte offset, shape, strides, whether the result is one element rather than a view).

    Raises:
        IndexError: too many axes, an index out of bounds, or a key of another kind.
    """
    cdef Geometry of, made
    cdef long long offset
    cdef bint is_element
    read_geometry(&of, shape, strides)
    is_element = select(&of, key, &made, &offset)
    return offset, tuple_of(made.shape, made.ndim), tuple_of(made.strides, made.ndim), is_element


cdef bint select(const Geometry *of, object key, Geometry *made, long long *offset) except -1:
    """`index` into an array; whether that is one element."""
    cdef Py_ssize_t named = 0, ellipses = 0, count = 1, n
    cdef bint only_numbers = True
    cdef int axis = 0
    cdef tuple keys = None
    cdef object one = key
    if isinstance(key, tuple):
        keys = <tuple>key
        count = len(keys)
    for n in range(count):
        if keys is not None:
            one = keys[n]
        if one is Ellipsis:
            ellipses += 1
        elif one is not None:
            named += 1
    if ellipses > 1:
        raise IndexError("an index can have one Ellipsis ('...') only")
    if named > of.ndim:
        raise IndexError(f"too many indices: the array has {of.ndim} axes, {named} are indexed")
    if count - named - ellipses + of.ndim > MOST_AXES:
        raise IndexError(f"too many new axes: an array has {MOST_AXES} at most")
    made.ndim, offset[0] = 0, 0
    for n in range(count):
        if keys is not None:
            one = keys[n]
        if one is Ellipsis:
            axis = _keep(of, axis, axis + of.ndim - named, made)
        elif one is None:
            made.shape[made.ndim], made.strides[made.ndim] = 1, 0
            made.ndim += 1
            only_numbers = False
        elif isinstance(one, slice):
            offset[0] += _slice(one, of.shape[axis], of.strides[axis], made)
            axis += 1
        else:
            offset[0] += _whole_number(one, axis, of.shape[axis]) * of.strides[axis]
            axis += 1
    if not ellipses:
        _keep(of, axis, of.ndim, made)
    return made.ndim == 0 and not ellipses and only_numbers


cdef int _keep(const Geometry *of, Py_ssize_t start, Py_ssize_t stop, Geometry *made) noexcept:
    """Take axes as they are; what comes after them."""
    cdef Py_ssize_t axis
    for axis in range(start, stop):
        made.shape[made.ndim], made.strides[made.ndim] = of.shape[axis], of.strides[axis]
        made.ndim += 1
    return <int>stop


cdef long long _slice(object key, long long n, long long stride, Geometry *made) except? -1:
    """Put down the axis that a slice makes of one; how many bytes after that it begins."""
    cdef Py_ssize_t start, stop, step, count
    cdef long long longer
    try:
        PySlice_Unpack(key, &start, &stop, &step)
    except TypeError:
        raise IndexError(f"index {key!r}: a slice has whole numbers or None") from None
    count = PySlice_AdjustIndices(n, &start, &stop, step)
    if __builtin_mul_overflow(step, stride, &longer):
        longer = stride  # of an axis with one element at most, so it does not matter
    made.shape[made.ndim], made.strides[made.ndim] = count, longer
    made.ndim += 1
    return start * stride if count else 0


cdef long long _whole_number(object key, int axis, long long n) except -1:
    cdef int overflow = 0
    cdef long long number
    if not (type(key) is int or type(key) in _integers):
        _check_is_number(key)
    whole = key if type(key) is int else operator.index(key)
    number = PyLong_AsLongLongAndOverflow(whole, &overflow)
    if overflow or not -n <= number < n:
        raise IndexError(f"index {whole} is out of bounds for axis {axis} with size {n}")
    return number + n if number < 0 else number


cdef int _check_is_number(object key) except -1:
    # A class of arrays has such attributes too.
    of_array = not isinstance(key, type) and hasattr(key, "dtype")
    is_bool = isinstance(key, bool) or (of_array and getattr(key.dtype, "kind", "") == "b")
    if is_bool or isinstance(key, list) or (of_array and getattr(key, "ndim", 0)):
        what = "a Boolean mask" if is_bool else "an index array"
        raise IndexError(
            f"{what} cannot select elements of a device array; index the host copy "
            "(array.copy_to_host()[...]) or write a kernel that selects"
        )
    try:
        operator.index(key)
    except TypeError:
        raise IndexError(
            f"index {key!r} is a {type(key).__name__}; "
            "expected whole numbers, slices, '...' or None"
        ) from None
    return 0


# ---- other shapes -------------------------------------------------------------------------------


def whole_numbers(given):
    """A number or a sequence of numbers as a tuple of ints; TypeError if it is neither."""
    if type(given) is tuple and _are_ints(given):
        return given
    if not isinstance(given, (tuple, list)):
        try:
            return (operator.index(given),)
        except TypeError:
            pass
        if isinstance(given, (Mapping, Set)):
            raise TypeError(f"{type(given).__name__} object has no order")
    try:
        return tuple([operator.index(n) for n in given])
    except TypeError:
        raise TypeError(f"{given!r}: expected a whole number or a tuple of them") from None


cdef bint _are_ints(tuple given) except -1:
    cdef Py_ssize_t n
    for n in range(len(given)):
        if type(given[n]) is not int:
            return False
    return True


def resolve_shape(size, shape):
    """`shape` with its one -1 replaced so that it has `size` elements.

    Raises:
        ValueError: that is not possible.
    """
    cdef tuple sizes = whole_numbers(tuple(shape))
    cdef object known = 1, unknown = None, n
    for n in sizes:
        if n != -1:
            known = known * n
        elif unknown is None:
            unknown = n
        else:
            raise ValueError(
                f"can only specify one unknown dimension: shape {sizes} has more than one -1"
            )
    if unknown is not None:
        if not known or size % known:
            raise ValueError(
                f"cannot infer valid shape for unknown dimension: {size} elements do not make "
                f"{sizes}"
            )
        sizes = tuple([size // known if n == -1 else n for n in sizes])
        known = size
    if known != size or (sizes and min(sizes) < 0):
        raise ValueError(
            f"reshape changes the size of the array: {size} elements do not make {tuple(shape)}"
        )
    return sizes


def reshape(shape, strides, long long itemsize, new_shape, order="C"):
    """Strides that show the same elements in the same `order` as `new_shape`.

    Returns None where that takes a copy. Both shapes have the same number of elements.
    """
    cdef Geometry of, runs, made
    cdef bint is_fortran = order == "F"
    cdef int n, axis, at = 0
    cdef long long reach = 0, step = itemsize, left = 1
    if not is_fortran and order != "C":
        raise ValueError(f"order {order!r}: expected 'C' or 'F'")
    read_geometry(&of, shape, strides)
    read_geometry(&made, new_shape, new_shape)
    # Runs of old axes that lie densely behind each other, the fastest first: elements, last stride.
    runs.ndim = 0
    for n in range(of.ndim):
        axis = n if is_fortran else of.ndim - 1 - n
        if of.shape[axis] == 1:
            continue
        if runs.ndim and of.strides[axis] == reach:
            if __builtin_mul_overflow(
                runs.shape[runs.ndim - 1], of.shape[axis], &runs.shape[runs.ndim - 1]
            ):
                return None
        else:
            runs.shape[runs.ndim], runs.strides[runs.ndim] = of.shape[axis], of.strides[axis]
            runs.ndim += 1
        reach = of.strides[axis] * of.shape[axis]
    for n in range(made.ndim):
        axis = n if is_fortran else made.ndim - 1 - n
        if made.shape[axis] == 0:
            return _dense_strides(&made, itemsize, is_fortran)
    for n in range(made.ndim):
        axis = n if is_fortran else made.ndim - 1 - n
        if made.shape[axis] > 1 and left == 1:
            left, step = runs.shape[at], runs.strides[at]
            at += 1
        if left % made.shape[axis]:
            return None
        made.strides[axis] = step
        step *= made.shape[axis]
        left //= made.shape[axis]
    return tuple_of(made.strides, made.ndim)


cdef tuple _dense_strides(Geometry *made, long long itemsize, bint is_fortran):
    cdef long long step = itemsize
    cdef int n, axis
    for n in range(made.ndim):
        axis = n if is_fortran else made.ndim - 1 - n
        made.strides[axis] = step
        step *= made.shape[axis] or 1
    return tuple_of(made.strides, made.ndim)


# ---- other axes ---------------------------------------------------------------------------------


cdef tuple _axes(object given):
    try:
        return whole_numbers(given)
    except TypeError:
        raise TypeError(f"axis {given!r}: expected a whole number or a tuple of them") from None


cdef int _axis(object given, int ndim) except -2:
    """The number of an axis that can be counted from the end; -1: there is none."""
    cdef int overflow = 0
    cdef long long number = PyLong_AsLongLongAndOverflow(given, &overflow)
    if overflow or not -ndim <= number < ndim:
        return -1
    return <int>(number + ndim if number < 0 else number)


def transpose(shape, strides, axes=None):
    """Shape and strides with the axes in the order `axes` (None: reversed).

    Raises:
        ValueError: `axes` does not name each axis once.
    """
    cdef Geometry of, made
    cdef bint is_taken[MOST_AXES]
    cdef tuple chosen = None
    cdef int n, axis
    read_geometry(&of, shape, strides)
    if axes is not None:
        chosen = _axes(axes)
        if len(chosen) != of.ndim:
            raise ValueError(
                f"axes don't match array: axes {chosen}: expected each of the {of.ndim} axes once"
            )
    for n in range(of.ndim):
        is_taken[n] = False
    for n in range(of.ndim):
        axis = of.ndim - 1 - n
        if chosen is not None:
            axis = _axis(chosen[n], of.ndim)
            if axis < 0:
                out = f"axis {chosen[n]} is out of bounds for array of dimension {of.ndim}"
                raise _not_each_once(out, chosen, of.ndim)
        made.shape[n], made.strides[n] = of.shape[axis], of.strides[axis]
        is_taken[axis] = True
    for n in range(of.ndim):
        if not is_taken[n]:
            raise _not_each_once("repeated axis in transpose", chosen, of.ndim)
    return tuple_of(made.shape, of.ndim), tuple_of(made.strides, of.ndim)


cdef object _not_each_once(str words, tuple chosen, int ndim):
    error = ValueError(words)
    error.add_note(f"axes {chosen}: expected each of the {ndim} axes once")
    return error


def squeeze(shape, strides, axis=None):
    """Shape and strides without the axes of length 1 (or without those of `axis`).

    Raises:
        ValueError: an axis that was named is not of length 1, or not there.
    """
    cdef Geometry of, made
    cdef bint is_gone[MOST_AXES]
    cdef int n, gone
    read_geometry(&of, shape, strides)
    for n in range(of.ndim):
        is_gone[n] = axis is None and of.shape[n] == 1
    if axis is not None:
        for number in _axes(axis):
            gone = _axis(number, of.ndim)
            if gone < 0 or is_gone[gone] or of.shape[gone] != 1:
                raise ValueError(
                    f"cannot squeeze axis {axis} of shape {tuple(shape)}: "
                    "expected different axes of length 1"
                )
            is_gone[gone] = True
    made.ndim = 0
    for n in range(of.ndim):
        if not is_gone[n]:
            made.shape[made.ndim], made.strides[made.ndim] = of.shape[n], of.strides[n]
            made.ndim += 1
    return tuple_of(made.shape, made.ndim), tuple_of(made.strides, made.ndim)
