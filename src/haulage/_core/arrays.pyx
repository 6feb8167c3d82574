# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Arrays on a device that are made where nothing is out of the ordinary."""

cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.string cimport memcpy

import numpy as np

from haulage._core.fields cimport make_members
from haulage._core.memory cimport (
    BlockBase,
    DeviceBase,
    allocate_at_once,
    allocate_for_host,
    current_device,
)
from haulage._core.objects cimport haulage_is_a, haulage_made


cdef extern from "recycled.h":
    int haulage_recycle(object kind) except -1


cdef extern from *:
    """
    /* What `numpy.ndarray.__new__(kind, *args)` gives. */
    static PyObject *haulage_ndarray(PyObject *ndarray, PyObject *kind, PyObject *args)
    {
        return ((PyTypeObject *)ndarray)->tp_new((PyTypeObject *)kind, args, NULL);
    }
    """
    object haulage_ndarray(object ndarray, object kind, tuple args)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef enum:
    _MOST_AXES = 8

# More bytes than a device has; no product of two of these is too large for 64 bits.
cdef long long _MOST = 1 << 56

# Names, types and dtypes that were asked for before: (what NumPy makes of each, its bytes).
cdef dict _dtypes = {}
cdef int _MOST_DTYPES = 1000

cdef object _dtype_type, _array_type, _stream_type
cdef object _host_visible_type = type(None)


@cython.freelist(64)
cdef class Header:
    """What `haulage.runtime.buffers.strided.Strided`, where its attributes are described, has in C.
    """


make_members(
    Header,
    Header(),
    (b"block", b"device", b"device_pointer", b"dtype", b"layout",
     b"readonly", b"shape", b"size", b"stream", b"strides"),
)


def know(dtype_type, array_type, stream_type):
    """Tell which classes `numpy.dtype`, `DeviceNDArray` and `Stream` are."""
    global _dtype_type, _array_type, _stream_type
    _dtype_type, _array_type, _stream_type = dtype_type, array_type, stream_type
    haulage_recycle(array_type)


def know_host_visible(host_visible_type):
    """Tell which class `HostVisibleNDArray` is."""
    global _host_visible_type
    _host_visible_type = host_visible_type


def know_dtype(given, dtype):
    """Note that a program that gives `given`, a name, a type or a dtype, always means `dtype`,
    which has no shape of its own."""
    if len(_dtypes) < _MOST_DTYPES:
        _dtypes[given] = (dtype, dtype.itemsize)


cdef bint _axis_of(object given, long long *axis) except -1:
    """Put down a whole number from 0 on, if `given` is an exact int that is one."""
    cdef int overflow = 0
    if type(given) is not int:
        return False
    axis[0] = PyLong_AsLongLongAndOverflow(given, &overflow)
    return overflow == 0 and 0 <= axis[0] < _MOST


cdef tuple _tuple_of(long long *numbers, Py_ssize_t count):
    cdef tuple made = PyTuple_New(count)
    cdef Py_ssize_t n
    cdef object number
    for n in range(count):
        number = numbers[n]
        Py_INCREF(number)
        PyTuple_SET_ITEM(made, n, number)
    return made


cdef class Layout:
    """What arrays of one shape, dtype and order have in common."""

    cdef long long axes[_MOST_AXES]
    cdef Py_ssize_t ndim
    cdef bint is_fortran
    cdef long long nbytes
    cdef object given  # as dtype
    cdef object dtype, shape, size, strides, letter


# Those that were asked for lately, each at its place.
cdef enum:
    _LAYOUTS = 256
cdef list _layouts = [None] * _LAYOUTS


cdef Layout _layout_of(object shape, object dtype, object order):
    """None: it is none of an array without gaps, of a known dtype, or it takes more than a look."""
    cdef long long axes[_MOST_AXES]
    cdef Py_ssize_t ndim = 1, n
    cdef bint is_fortran
    cdef size_t mixed
    cdef Layout found
    if type(shape) is tuple:
        ndim = len(<tuple>shape)
        if ndim > _MOST_AXES:
            return None
        for n in range(ndim):
            if not _axis_of(<object>(<tuple>shape)[n], &axes[n]):
                return None
    elif not _axis_of(shape, &axes[0]):
        return None
    if type(order) is not str:
        return None
    is_fortran = order is not "C" and order == "F"
    if not is_fortran and order is not "C" and order != "C":
        return None

    mixed = (<size_t><void *>dtype >> 4) + is_fortran
    for n in range(ndim):
        mixed = mixed * 31 + <size_t>axes[n]
    mixed = (mixed ^ (mixed >> 8)) % _LAYOUTS
    if _layouts[mixed] is not None:
        found = <Layout>_layouts[mixed]
        if found.given is dtype and found.ndim == ndim and found.is_fortran == is_fortran:
            n = 0
            while n < ndim and found.axes[n] == axes[n]:
                n += 1
            if n == ndim:
                return found
    found = _new_layout(axes, ndim, dtype, is_fortran)
    if found is not None:
        _layouts[mixed] = found
    return found


cdef Layout _new_layout(long long *axes, Py_ssize_t ndim, object dtype, bint is_fortran):
    cdef long long steps[_MOST_AXES]
    cdef long long count = 1, step
    cdef Py_ssize_t n, at
    cdef int long_axes = 0
    cdef tuple known
    cdef Layout made
    cdef bint is_dtype = haulage_is_a(dtype, _dtype_type)
    if not (type(dtype) is type or type(dtype) is str or is_dtype):
        return None
    known = _dtypes.get(dtype)
    if known is None:
        return None
    step = known[1]
    for n in range(ndim):
        at = n if is_fortran else ndim - 1 - n
        steps[at] = step
        if axes[at] > 1:
            if step > _MOST // axes[at]:
                return None
            step *= axes[at]
            long_axes += 1
        count *= axes[at]
    if count == 0:
        return None
    made = Layout.__new__(Layout)
    memcpy(made.axes, axes, ndim * sizeof(long long))
    made.ndim, made.is_fortran, made.nbytes = ndim, is_fortran, step
    made.given = dtype
    # Equal dtypes can differ in what they say of themselves.
    made.dtype = dtype if is_dtype else known[0]
    made.shape, made.strides = _tuple_of(axes, ndim), _tuple_of(steps, ndim)
    made.size = count
    made.letter = "F" if is_fortran and long_axes > 1 else "C"
    return made


cpdef object new_array(object shape, object dtype, object order, object stream):
    """A new array without gaps, not initialised, as `device_array` makes it; None: nothing is
    changed, and it takes more than a look.

    It is an array of the current device or that of a `Stream`, of a dtype that is known, in device
    memory that a pool has.
    """
    cdef object device, bound
    cdef BlockBase block
    cdef Header array
    cdef Layout layout = _layout_of(shape, dtype, order)
    if layout is None:
        return None
    if stream is None or (type(stream) is int and stream == 0):
        device, bound = current_device(), 0
    elif type(stream) is _stream_type:
        device, bound = stream.device, stream
    else:
        return None
    block = allocate_at_once(<DeviceBase?>device, layout.nbytes, bound)
    if block is None:
        return None

    array = <Header>haulage_made(_array_type)
    array.block = block
    array.device = device
    array.device_pointer = block.device_ptr
    array.dtype = layout.dtype
    array.layout = layout.letter
    array.readonly = False
    array.shape = layout.shape
    array.size = layout.size
    array.stream = bound
    array.strides = layout.strides
    return array


cdef object _ndarray = np.ndarray


cpdef object new_host_array(
    object kind, object shape, object dtype, object order, object stream, tuple memory, tuple hints
):
    """A new NumPy array without gaps, not initialised, in memory that the host and a device write
    to; None: nothing is changed, and it takes more than a look.

    Args:
        kind: NumPy's class of arrays, or `MappedNDArray` and the like.
        shape, dtype, order: as for `device_array`.
        stream: what its copies use; its device is that of the array.
        memory: (kind, flags) of its memory, as `Backend.alloc` has them.
        hints: the names of the flags.
    """
    cdef object device, bound
    cdef BlockBase block
    cdef Layout layout = _layout_of(shape, dtype, order)
    if layout is None:
        return None
    if stream is None or (type(stream) is int and stream == 0):
        device, bound = current_device(), None
    elif type(stream) is _stream_type:
        device, bound = stream.device, stream if stream.handle else None
    else:
        return None
    block = allocate_for_host(<DeviceBase?>device, layout.nbytes, memory)
    if block is None:
        return None
    array = haulage_ndarray(_ndarray, kind, (layout.shape, layout.dtype, block, 0, None, order))
    if bound is not None:
        array._stream = bound
    if hints:
        array._hints = hints
    return array


@cython.binding(True)
def keep_binding(self, obj):
    """`__array_finalize__` of the NumPy arrays that devices reach: views have what the array has."""
    if obj is not None and haulage_is_a(obj, _host_visible_type):
        self._stream = obj._stream
        self._hints = obj._hints


# ---- what programs call -------------------------------------------------------------------------

# So that the innermost frame of Python is the program's, which is asked for: see `memory.pyx`.
# Their docstrings stand in arrays.pyi too, for editors.

# What makes arrays where that takes more than a look.
cdef object _device_otherwise, _pinned_otherwise, _mapped_otherwise, _managed_otherwise
cdef object _mapped_type, _managed_type
cdef tuple _PINNED = ("pinned", 0), _MAPPED = ("mapped", 0), _MANAGED = ("managed", 0)


def let_make_device(otherwise):
    """Let `otherwise`, with the arguments of `device_array`, make arrays where this takes more than a
    look."""
    global _device_otherwise
    _device_otherwise = otherwise


def let_make_host(pinned, mapped, managed, mapped_type, managed_type):
    """The same for the other kinds of memory; the last two are the classes of their arrays."""
    global _pinned_otherwise, _mapped_otherwise, _managed_otherwise, _mapped_type, _managed_type
    _pinned_otherwise, _mapped_otherwise, _managed_otherwise = pinned, mapped, managed
    _mapped_type, _managed_type = mapped_type, managed_type


@cython.binding(True)
@cython.annotation_typing(False)
def device_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """A new array on the device, not initialised, as `np.empty` gives on the host.

    Args:
        shape: a number or a tuple of numbers.
        dtype: anything that `np.dtype` takes.
        strides: in bytes; by default without gaps, in `order`.
        order: 'C' or 'F'.
        stream: that the array is bound to.
    """
    made = new_array(shape, dtype, order, stream) if strides is None else None
    return _device_otherwise(shape, dtype, strides, order, stream) if made is None else made


@cython.binding(True)
@cython.annotation_typing(False)
def empty(
    shape: Shape, dtype: Any = np.float64, order: str = "C", stream: StreamLike = 0
) -> DeviceNDArray:
    """`device_array` under NumPy's name and with its order of arguments."""
    made = new_array(shape, dtype, order, stream)
    return _device_otherwise(shape, dtype, None, order, stream) if made is None else made


@cython.binding(True)
@cython.annotation_typing(False)
def pinned_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """A new NumPy array, not initialised, in pinned memory.

    Copies in a stream from and to it may still run when the call that makes them returns.
    """
    made = None
    if strides is None:
        made = new_host_array(_ndarray, shape, dtype, order, 0, _PINNED, ())
    return _pinned_otherwise(shape, dtype, strides, order) if made is None else made


@cython.binding(True)
@cython.annotation_typing(False)
def mapped_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
    portable: bool = False,
    wc: bool = False,
) -> MappedNDArray:
    """A new NumPy array in pinned memory that kernels reach as well, not initialised.

    Args:
        shape: a number or a tuple of numbers.
        dtype: anything that `np.dtype` takes.
        strides: in bytes; by default without gaps, in `order`.
        order: 'C' or 'F'.
        stream: that its copies use where they are given none.
        portable: pinned for copies, and in the reach of kernels, of all devices of the driver, not
            of the array's own alone. NVIDIA's and AMD's drivers have all mapped arrays so.
        wc: write-combined: faster for the host to write and the device to read, slow for the host
            to read.

    `portable` and `wc` are asked of the driver; the CPU device has no use for them. The array's
    `hints` show them.
    """
    made = None
    if strides is None and portable is False and wc is False:
        made = new_host_array(_mapped_type, shape, dtype, order, stream, _MAPPED, ())
    if made is None:
        return _mapped_otherwise(shape, dtype, strides, order, stream, portable, wc)
    return made


@cython.binding(True)
@cython.annotation_typing(False)
def managed_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
    attach_global: bool = True,
) -> ManagedNDArray:
    """A new array in managed memory, which host and device both address; not initialised.

    Args:
        shape, dtype, strides, order, stream: as for `mapped_array`.
        attach_global: False makes it the host's at first, where the driver knows such a thing.
    """
    made = None
    if strides is None and attach_global is True:
        made = new_host_array(_managed_type, shape, dtype, order, stream, _MANAGED, ())
    if made is None:
        return _managed_otherwise(shape, dtype, strides, order, stream, attach_global)
    return made
