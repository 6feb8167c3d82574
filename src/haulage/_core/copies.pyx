# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Small copies between the host and a device, and single elements, without what takes long.

Each function here makes what it says where nothing is out of the ordinary: nobody is told of copies,
nothing is captured, and both sides are memory without gaps. Where anything is, it changes nothing
and says so, and Python decides.

Where the host reaches the memory and nothing is left that the copy comes after, it is made at once.
No step of Python's runs between the look at the streams and its end. So no other thread hands work
over meanwhile, and no block needs to note that a stream uses it. Else the driver is asked, as
`haulage.runtime.buffers.transfer` asks it.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport intptr_t, uintptr_t
from libc.string cimport memcpy, memmove

from haulage._core.arrays cimport Header
from haulage._core.memory cimport (
    BlockBase,
    DeviceBase,
    RuntimeBase,
    block_type,
    current_device,
    current_runtime,
)

from haulage._core.arrays import new_array


cdef extern from "array_struct.h":
    const int HAULAGE_C_CONTIGUOUS, HAULAGE_F_CONTIGUOUS, HAULAGE_WRITEABLE

    ctypedef struct haulage_array_struct:
        int nd
        int flags
        intptr_t *shape
        void *data


# Bytes that are copied or filled in less than it takes to hand that over to another thread.
SMALL = 256 << 10
cdef long long _SMALL = SMALL

cdef int _MOST_DTYPES = 1000

# The most bytes of an element that drivers fill memory with.
cdef int _MOST_FILLED = 16

cdef type _host_type, _stream_type
cdef object _dtype_type, _empty, _flush, _hold, _parts
cdef dict _registered


def know(
    host_type, stream_type, dtype_type, empty, parts, flush, hold, dict registered not None
):
    """Tell what `numpy.ndarray`, `Stream`, `numpy.dtype`, `numpy.empty`, `dtypes.parts`,
    `printing.flush` and `memory.hold` are, and which memory of the host is registered as pinned."""
    global _host_type, _stream_type, _dtype_type, _empty, _parts, _flush, _hold, _registered
    _host_type, _stream_type, _dtype_type = host_type, stream_type, dtype_type
    _empty, _parts, _flush, _hold, _registered = empty, parts, flush, hold, registered


# ---- what is in the ordinary --------------------------------------------------------------------


cdef bint _is_ordinary(Header array, RuntimeBase runtime) except -1:
    """Whether nobody but streams has a say in when an array may be used."""
    return not (
        type(array.block) is not block_type()
        or (<BlockBase>array.block).closed
        or (<DeviceBase?>array.device).capturing
        or runtime.watchers
        or runtime.observer is not None
        or runtime.adversary_seed is not None
    )


cdef bint _is_near(Header array) except -1:
    """Whether the host reaches an array's memory, and can see whether its device is idle."""
    return (<DeviceBase>array.device).queues is not None and (<BlockBase>array.block).host_ptr != 0


cdef object _stream_of(Header array, object given):
    """The stream that is meant; None: that takes more than a look."""
    if given is None or (type(given) is int and given == 0):
        given = array.stream
        if type(given) is not _stream_type:
            return (<DeviceBase>array.device).default_stream
    elif type(given) is not _stream_type:
        return None
    return given if given.device is array.device else None


cdef bint _is_next(Header array, object stream) except -1:
    """Whether nothing is left before work that is handed to a stream and uses an array now, which
    is near."""
    cdef DeviceBase device = array.device
    cdef unsigned long long handle = stream.handle
    # Who had the memory before may use it in its home stream.
    if handle and (<BlockBase>array.block).home is stream:
        return device.queues.is_idle(handle) and device.queues.is_idle(0)
    return device.queues.are_idle()


cdef bint _is_noted(Header array, object stream) except -1:
    """Whether the block need not note that a stream uses it, as `Block.use` decides."""
    cdef BlockBase block = array.block
    handle = stream.handle
    return (
        not handle
        or block.home is stream
        or (block.streams is not None and handle in block.streams)
    )


cdef bint _may_see(Header array, RuntimeBase runtime) except -1:
    """Whether the host may use an array itself, where it is next."""
    return _is_ordinary(array, runtime) and _is_near(array)


cdef char *_address(Header array) except? NULL:
    """Where the host finds an array that is near."""
    cdef BlockBase block = array.block
    cdef uintptr_t pointer = array.device_pointer, start = block.device_ptr
    cdef uintptr_t on_host = block.host_ptr
    return <char *>(pointer - start + on_host)


# ---- by the driver ------------------------------------------------------------------------------


cdef bint _copy_by_driver(
    Header array,
    object stream,
    uintptr_t there,
    uintptr_t on_host,
    long long nbytes,
    object host,
    bint to_host,
) except -1:
    """Copy from or to memory of the host that lies in the array `host`, and wait for it."""
    cdef object device = array.device
    if there < on_host + nbytes and on_host < there + nbytes:
        return False  # drivers do not copy memory to itself
    if not _is_noted(array, stream):
        return False
    if stream.handle and (host.base is not None or _registered):
        return False  # it may be pinned, and then nobody waits
    try:
        device.activate()
        if to_host:
            device.backend.copy(on_host, there, nbytes, stream.handle)
        else:
            device.backend.copy(there, on_host, nbytes, stream.handle)
        stream.finish()
    except BaseException:
        # Ctrl-C may have cut the wait short with the copy under way.
        _hold(stream, host)
        raise
    return True


# ---- copies -------------------------------------------------------------------------------------


cdef class Kind:
    """What copies ask of a dtype.

    `itemsize` is how many bytes are copied of an element; 0: between them are some that are not.
    `plain` is a dtype without fields for the same bytes, if it has fields: NumPy describes these
    for each array anew, which takes long.
    """

    cdef long long itemsize
    cdef object plain


cdef dict _kinds = {}


cdef Kind _kind_of(object dtype):
    cdef Kind kind = _kinds.get(dtype)
    if kind is None:
        kind = Kind.__new__(Kind)
        kind.itemsize = dtype.itemsize if _parts(dtype) is None else 0
        if dtype.names is not None:
            kind.plain = _dtype_type(f"V{dtype.itemsize}")
        if len(_kinds) >= _MOST_DTYPES:
            _kinds.clear()
        _kinds[dtype] = kind
    return kind


cdef object _capsule_of(object host, Kind kind):
    """What has the structure of an array on the host."""
    seen = host if kind.plain is None else host.view(kind.plain)
    return seen.__array_struct__


cdef haulage_array_struct *_struct_of(object capsule) except NULL:
    return <haulage_array_struct *>PyCapsule_GetPointer(capsule, NULL)


def address_of(host):
    """The address of the first element of an array of NumPy.

    A launch asks this of each host array; `ndarray.ctypes` takes nine times as long.
    """
    dtype = host.dtype
    if dtype.names:  # whose fields NumPy would describe one by one
        host = host.view(f"V{dtype.itemsize}")
    capsule = host.__array_struct__
    return <uintptr_t>_struct_of(capsule).data


cdef long long _nbytes_of(Header array) except -1:
    """How many bytes a copy of all elements moves at once; 0: it is none that is made here."""
    cdef long long nbytes
    if array.layout == "A":
        return 0
    nbytes = _kind_of(array.dtype).itemsize * <long long>array.size
    return nbytes if nbytes <= _SMALL else 0


cdef bint _are_alike(Header array, haulage_array_struct *host) except -1:
    """Whether the elements of a host array lie as those of an array that has no gaps."""
    cdef tuple shape = array.shape
    cdef int n
    if host.nd != len(shape):
        return False
    for n in range(host.nd):
        if host.shape[n] != <long long>shape[n]:
            return False
    return (host.flags & (HAULAGE_F_CONTIGUOUS if array.layout == "F" else HAULAGE_C_CONTIGUOUS)) != 0


cdef bint _move(Header array, object host, object stream, bint to_host) except -1:
    cdef RuntimeBase runtime = current_runtime()
    cdef haulage_array_struct *there
    cdef object chosen, capsule, dtype
    cdef long long nbytes
    cdef char *address
    if type(host) is not _host_type or not _is_ordinary(array, runtime):
        return False
    chosen = _stream_of(array, stream)
    nbytes = _nbytes_of(array)
    if chosen is None or not nbytes:
        return False
    dtype = host.dtype
    if dtype != array.dtype:
        return False
    capsule = _capsule_of(host, _kind_of(dtype))
    there = _struct_of(capsule)
    if not _are_alike(array, there):
        return False
    if to_host and not there.flags & HAULAGE_WRITEABLE:
        return False
    if not (_is_near(array) and _is_next(array, chosen)):
        return _copy_by_driver(
            array, chosen, array.device_pointer, <uintptr_t>there.data, nbytes, host, to_host
        )
    address = _address(array)
    if to_host:
        memmove(there.data, address, nbytes)
    else:
        memmove(address, there.data, nbytes)
    if runtime.printing:
        _flush()  # as after each wait
    return True


def upload(Header array not None, source, stream):
    """Copy a host array, or one on the same device, as `copy_to_device` does; whether that is done.
    """
    if array.readonly:
        return False
    if isinstance(source, Header):
        return _copy_within(array, source, stream)
    return _move(array, source, stream, False)


def download(Header array not None, host, stream):
    """Copy an array on a device to a host array, a new one if that is None, as `copy_to_host` does;
    None: nothing is done."""
    cdef object made = host
    if host is None:
        if not (_is_ordinary(array, current_runtime()) and _nbytes_of(array)):
            return None
        try:
            made = _empty(array.shape, array.dtype, array.layout)
        except MemoryError:
            return None
    return made if _move(array, made, stream, True) else None


def uploaded(host, stream):
    """A new array on the current device or that of a stream, with the elements of a host array, as
    `to_device` makes it; None: nothing is done."""
    cdef haulage_array_struct *there
    cdef object capsule, dtype
    cdef Header array
    cdef Kind kind
    if type(host) is not _host_type:
        return None
    dtype = host.dtype
    kind = _kind_of(dtype)
    if not kind.itemsize:
        return None
    capsule = _capsule_of(host, kind)
    there = _struct_of(capsule)
    if there.flags & HAULAGE_C_CONTIGUOUS:
        array = new_array(host.shape, dtype, "C", stream)
    elif there.flags & HAULAGE_F_CONTIGUOUS:
        array = new_array(host.shape, dtype, "F", stream)
    else:
        return None
    if array is not None and not _move(array, host, stream, False):
        array.copy_to_device(host, stream)
    return array


cdef bint _copy_within(Header array, Header source, object stream) except -1:
    cdef RuntimeBase runtime = current_runtime()
    cdef object chosen
    cdef long long nbytes
    if (
        source.device is not array.device
        or source.layout != array.layout
        or source.shape != array.shape
        or source.dtype != array.dtype
        or not _is_ordinary(array, runtime)
        or not _is_ordinary(source, runtime)
    ):
        return False
    chosen = _stream_of(array, stream)
    nbytes = _nbytes_of(array)
    if chosen is None or not nbytes:
        return False
    if not (
        _is_near(array)
        and _is_near(source)
        and _is_next(array, chosen)
        and _is_next(source, chosen)
    ):
        return _copy_within_by_driver(array, source, chosen, nbytes)
    memmove(_address(array), _address(source), nbytes)
    if runtime.printing and not chosen.handle:
        _flush()
    return True


cdef bint _copy_within_by_driver(
    Header array, Header source, object stream, long long nbytes
) except -1:
    cdef object device = array.device
    cdef uintptr_t to = array.device_pointer, of = source.device_pointer
    if to < of + nbytes and of < to + nbytes:
        return False
    if not (_is_noted(array, stream) and _is_noted(source, stream)):
        return False
    device.activate()
    device.backend.copy(to, of, nbytes, stream.handle)
    if not stream.handle:
        stream.finish()
    return True


def copied(Header array not None, stream):
    """A new array without gaps on the device of another one, with its elements; None: nothing is
    done."""
    cdef Header made = None
    if array.layout != "A" and (type(stream) is _stream_type or current_device() is array.device):
        made = new_array(array.shape, array.dtype, array.layout, stream)
    if made is not None and not _copy_within(made, array, stream):
        made.copy_to_device(array, stream)
    return made


def set_all(Header array not None, value, stream):
    """Set every element to a number, as `DeviceNDArray.fill` does; whether that is done. It is not
    for what cannot be converted."""
    cdef RuntimeBase runtime = current_runtime()
    cdef long long nbytes, done
    cdef object chosen
    cdef char *address
    cdef Cell cell
    if array.readonly or not (_is_number(array, value) and _may_see(array, runtime)):
        return False
    chosen = _stream_of(array, stream)
    cell = _cell_of(array.dtype)
    nbytes = _nbytes_of(array)
    if chosen is None or cell is None or not nbytes:
        return False
    cell.is_taken = True
    try:
        cell.array[0] = value
        # NumPy may have warned, by Python's functions.
        if not (_may_see(array, runtime) and _is_next(array, chosen)):
            return False
        address = _address(array)
        done = cell.itemsize
        memcpy(address, cell.address, done)
    except (TypeError, ValueError, OverflowError):
        return False
    finally:
        cell.is_taken = False
    while done < nbytes:
        memcpy(address + done, address, min(done, nbytes - done))
        done *= 2
    if runtime.printing and not chosen.handle:
        _flush()
    return True


# ---- elements -----------------------------------------------------------------------------------


cdef class Cell:
    """An element of a dtype on the host, which NumPy makes Python's objects of, and of these."""

    cdef object array
    cdef char *address
    cdef long long itemsize
    cdef bint is_taken


cdef dict _cells = {}


cdef Cell _cell_of(object dtype):
    """One that nobody has; None: of elements that are views themselves, or have no bytes."""
    cdef Cell cell = _cells.get(dtype)
    cdef bint is_known = cell is not None
    if is_known and not cell.is_taken:
        return cell
    if dtype.kind == "V" or not dtype.itemsize:
        return None
    cell = Cell.__new__(Cell)
    cell.array = _empty(1, dtype)
    cell.itemsize = dtype.itemsize
    capsule = cell.array.__array_struct__
    cell.address = <char *>_struct_of(capsule).data
    if not is_known and len(_cells) < _MOST_DTYPES:
        _cells[dtype] = cell
    return cell


cdef bint _is_number(Header array, object value) except -1:
    """Whether NumPy takes a value for one element without asking it."""
    cdef object kind = type(value)
    return (
        kind is int or kind is float or kind is bool or kind is complex or kind is array.dtype.type
    )


cdef object load(Header array, long long offset):
    """The element that lies so many bytes after the first one; None: it takes more."""
    cdef RuntimeBase runtime = current_runtime()
    cdef Cell cell = _cell_of(array.dtype)
    cdef object value = None
    if cell is None or not _is_ordinary(array, runtime):
        return None
    cell.is_taken = True
    try:
        if _is_near(array) and (<DeviceBase>array.device).queues.are_idle():
            memcpy(cell.address, _address(array) + offset, cell.itemsize)
            value = cell.array[0]
            if runtime.printing:
                _flush()
        elif _load_by_driver(array, offset, cell):
            value = cell.array[0]
    finally:
        cell.is_taken = False
    return value


cdef bint _load_by_driver(Header array, long long offset, Cell cell) except -1:
    cdef object stream = _stream_of(array, 0)
    return stream is not None and _copy_by_driver(
        array,
        stream,
        <uintptr_t>array.device_pointer + offset,
        <uintptr_t>cell.address,
        cell.itemsize,
        cell.array,
        True,
    )


cdef bint store(Header array, long long offset, object value) except -1:
    """Write the element that lies so many bytes after the first one; False: it takes more.

    Raises:
        TypeError, ValueError, OverflowError: as NumPy's assignment.
    """
    cdef RuntimeBase runtime = current_runtime()
    cdef Cell cell
    if array.readonly or not (_is_number(array, value) and _is_ordinary(array, runtime)):
        return False
    cell = _cell_of(array.dtype)
    if cell is None:
        return False
    cell.is_taken = True
    try:
        cell.array[0] = value
        # NumPy may have warned, by Python's functions.
        if not _is_ordinary(array, runtime):
            return False
        if not (_is_near(array) and (<DeviceBase>array.device).queues.are_idle()):
            return _store_by_driver(array, offset, cell)
        memcpy(_address(array) + offset, cell.address, cell.itemsize)
    finally:
        cell.is_taken = False
    if runtime.printing:
        _flush()
    return True


cdef bint _store_by_driver(Header array, long long offset, Cell cell) except -1:
    cdef object device = array.device, stream = _stream_of(array, 0)
    if stream is None or cell.itemsize > _MOST_FILLED or not _is_noted(array, stream):
        return False
    value = PyBytes_FromStringAndSize(cell.address, cell.itemsize)
    device.activate()
    device.backend.fill(<uintptr_t>array.device_pointer + offset, value, 1, stream.handle)
    if stream is not array.stream and not stream.handle:
        stream.synchronize()  # one that the program named is not waited for
    return True


def element_of(Header array not None):
    """The first element, of an array without axes for one; None: it takes more."""
    return load(array, 0)


def set_element_of(Header array not None, value):
    """Write the first element; whether that is done.

    Raises:
        TypeError, ValueError, OverflowError: as NumPy's assignment.
    """
    return store(array, 0, value)
