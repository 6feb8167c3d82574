# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Views of arrays on a device: other shapes, strides and dtypes over the same memory."""

from haulage._core.arrays cimport Header
from haulage._core.copies cimport load, store
from haulage._core.geometry cimport Geometry, letter_of, read_geometry, select, size_of, tuple_of
from haulage._core.objects cimport haulage_made


cdef int _put(
    Header array, const Geometry *of, tuple shape, tuple strides, object dtype
) except -1:
    array.shape = shape
    array.strides = strides
    array.dtype = dtype
    array.size = size_of(of)
    array.layout = letter_of(of, dtype.itemsize)
    return 0


cdef Header _view_of(
    Header array,
    object kind,
    const Geometry *of,
    tuple shape,
    tuple strides,
    object offset,
    object dtype,
    object stream,
):
    cdef Header view = <Header?>haulage_made(kind)
    view.block = array.block
    view.device = array.device
    view.device_pointer = array.device_pointer + offset if offset else array.device_pointer
    view.readonly = array.readonly
    view.stream = array.stream if stream is None else stream
    _put(view, of, shape, strides, array.dtype if dtype is None else dtype)
    return view


cdef class StridedBase(Header):
    """What `haulage.runtime.buffers.strided.Strided` has in C besides its attributes."""

    def _set(
        self,
        block,
        pointer,
        tuple shape not None,
        tuple strides not None,
        dtype,
        stream,
        readonly,
    ):
        cdef Geometry of
        read_geometry(&of, shape, strides)
        self.block = block
        self.device = block.device
        self.device_pointer = pointer
        self.stream = stream
        self.readonly = readonly
        _put(self, &of, shape, strides, dtype)

    def _view(
        self,
        tuple shape not None,
        tuple strides not None,
        *,
        offset=0,
        dtype=None,
        stream=None,
    ):
        cdef Geometry of
        read_geometry(&of, shape, strides)
        return _view_of(self, type(self), &of, shape, strides, offset, dtype, stream)

    def _as(self, kind):
        """The same elements as an object of another class of these."""
        cdef Geometry of
        read_geometry(&of, self.shape, self.strides)
        return _view_of(self, kind, &of, self.shape, self.strides, 0, None, None)

    def __getitem__(self, key):
        cdef Geometry of, made
        cdef long long offset
        if isinstance(key, (str, list)):
            return self._getitem(key)  # fields
        read_geometry(&of, self.shape, self.strides)
        if select(&of, key, &made, &offset):
            element = load(self, offset)
            return self._getitem(key) if element is None else element
        shape, strides = tuple_of(made.shape, made.ndim), tuple_of(made.strides, made.ndim)
        return _view_of(self, type(self), &made, shape, strides, offset, None, None)

    def __setitem__(self, key, value):
        cdef Geometry of, made
        cdef long long offset
        if not isinstance(key, (str, list)):
            read_geometry(&of, self.shape, self.strides)
            if select(&of, key, &made, &offset) and store(self, offset, value):
                return
        self._setitem(key, value)

    def __delitem__(self, key):
        raise TypeError(f"elements of a {type(self).__name__} cannot be deleted")
