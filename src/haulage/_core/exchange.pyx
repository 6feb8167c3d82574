"""DLPack's C exchange API: what another library's arrays are, and its current streams.

After dlpack.h of DLPack 1.3. PyTorch has it since 2.10, `cuda.core` since its 1.0.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #define MAJOR 1
    #define READ_ONLY 1
    #define STRIDED (1 << 8)
    """
    const uint32_t MAJOR, READ_ONLY, STRIDED


cdef struct DLDevice:
    int32_t device_type
    int32_t device_id


cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes


cdef struct DLTensor:
    char *data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset


cdef struct DLPackVersion:
    uint32_t major
    uint32_t minor


cdef struct DLManagedTensorVersioned:
    DLPackVersion version
    void *manager_ctx
    void (*deleter)(DLManagedTensorVersioned *) noexcept
    uint64_t flags
    DLTensor dl_tensor


# `previous` is the table of an older version, or NULL.
cdef struct DLPackExchangeAPI:
    DLPackVersion version
    DLPackExchangeAPI *previous
    void *allocate
    int (*managed_from_object)(PyObject *, DLManagedTensorVersioned **) except *
    void *object_from_managed
    int (*tensor_from_object)(PyObject *, DLTensor *) except *
    int (*current_stream)(int32_t, int32_t, void **) except *


# What `Exchange.look` gives begins with this; lengths and, where the flags have STRIDED, strides in
# elements follow, each an int64.
cdef struct Record:
    uint64_t address
    DLDevice device
    int32_t axes
    DLDataType dtype
    uint32_t flags
    uint32_t last_bits


cdef class Exchange:
    """What a library's table offers."""

    cdef DLPackExchangeAPI *table
    cdef bint short_way, has_unsaid

    def look(self, array: object) -> bytes:
        """What an array of the library's is: its address in 8 bytes, and behind it all else, so that
        two arrays that are alike but for their addresses have equal bytes from the ninth on.

        Raises:
            BufferError: the tensor is of an unknown version, it is more than DLPack can say
                (`check_said`), or the library does not give it.
        """
        cdef DLTensor tensor
        cdef DLManagedTensorVersioned *managed = NULL
        cdef uint32_t major
        if self.has_unsaid:
            check_said(array)
        try:
            if self.short_way:
                if self.table.tensor_from_object(<PyObject *>array, &tensor):
                    raise _refused(array)
                return _record(&tensor, 0)
            if self.table.managed_from_object(<PyObject *>array, &managed) or managed is NULL:
                raise _refused(array)
        except RuntimeError as error:
            # PyTorch's errors go on with the frames of its own code.
            reason = str(error).partition("\nException raised from ")[0]
            raise BufferError(f"{type(array).__name__} object: {reason}") from None
        major = managed.version.major
        try:
            if major == MAJOR:
                return _record(&managed.dl_tensor, managed.flags & READ_ONLY)
        finally:
            if managed.deleter is not NULL:
                managed.deleter(managed)
        raise BufferError(
            f"a DLPack tensor of version {major}, another version than {MAJOR}.x; "
            "update its library or Haulage"
        )

    def current_stream(self, device_type: int, device_id: int) -> int:
        """The handle of the stream that the library works in just now, in this thread."""
        cdef void *found = NULL
        if self.table.current_stream(device_type, device_id, &found):
            raise BufferError(
                f"a library does not tell its current stream of device {device_id} of DLPack's "
                f"type {device_type}, and gives no reason"
            )
        return <uintptr_t>found


def check_said(array: object) -> None:
    """Raise BufferError for a tensor after PyTorch of which the memory is not all: one that
    requires a gradient, or is a view whose elements are the conjugate or the negative of what is
    in memory. DLPack has no words for these, and PyTorch's C functions do not refuse them."""
    kind = type(array).__name__
    if array.requires_grad:
        raise BufferError(
            f"{kind} object that requires a gradient: what a kernel does to it is not recorded; "
            "give its .detach(), or call the kernel in a torch.autograd.Function"
        )
    if array.is_conj():
        raise BufferError(
            f"{kind} object that is a conjugate view: its memory has other elements; give its "
            ".resolve_conj()"
        )
    if array.is_neg():
        raise BufferError(
            f"{kind} object that is a negative view: its memory has other elements; give its "
            ".resolve_neg()"
        )


def has_unsaid(kind: object) -> bool:
    """Whether `check_said` can be asked about the arrays of a class."""
    return hasattr(kind, "is_neg") and hasattr(kind, "is_conj") and hasattr(kind, "requires_grad")


def exchange_in(capsule: object, never_read_only: bool, unsaid: bool = False) -> Exchange | None:
    """What the table in a capsule offers; None if there is none of a version that is known.

    Args:
        unsaid: the arrays can be more than DLPack says; see `check_said`.
        never_read_only: the library has no such arrays; a shorter call will do, which could not
            tell.
    """
    cdef DLPackExchangeAPI *table
    cdef Exchange made
    if not PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
        return None
    table = <DLPackExchangeAPI *>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    while table is not NULL and table.version.major != MAJOR:
        table = table.previous
    if table is NULL:
        return None
    made = Exchange.__new__(Exchange)
    made.table = table
    made.has_unsaid = unsaid
    made.short_way = never_read_only and table.tensor_from_object is not NULL
    return made


cdef object _refused(object array):
    return BufferError(
        f"the library of a {type(array).__name__} does not describe it by DLPack's C exchange API, "
        "and gives no reason"
    )


cdef bytes _record(const DLTensor *tensor, uint32_t flags):
    cdef Py_ssize_t axes = max(tensor.ndim, 0)
    cdef Py_ssize_t size = axes * <Py_ssize_t>sizeof(int64_t)
    cdef bint strided = axes > 0 and tensor.strides is not NULL
    cdef Record record
    record.address = <uintptr_t>tensor.data + tensor.byte_offset
    record.device = tensor.device
    record.axes = tensor.ndim
    record.dtype = tensor.dtype
    record.flags = flags | (STRIDED if strided else 0)
    record.last_bits = record.address & 15
    cdef bytes made = PyBytes_FromStringAndSize(NULL, sizeof(record) + (1 + strided) * size)
    cdef char *into = PyBytes_AS_STRING(made)
    memcpy(into, &record, sizeof(record))
    if axes:
        memcpy(into + sizeof(record), tensor.shape, size)
    if strided:
        memcpy(into + sizeof(record) + size, tensor.strides, size)
    return made
