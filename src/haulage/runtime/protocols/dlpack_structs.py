"""DLPack's C structures, and the tensor inside a Python capsule.

After dlpack.h of DLPack 1.1 and the Python specification of the array API standard.
"""

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13

# Data type codes.
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6

# Flags of the versioned structure.
READ_ONLY, IS_COPIED = 1, 2

MAJOR, MINOR = 1, 1


class DLDevice(ctypes.Structure):
    """Where a tensor is."""

    _fields_ = (("device_type", c_int32), ("device_id", c_int32))


class DLDataType(ctypes.Structure):
    """What a tensor's elements are."""

    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class DLTensor(ctypes.Structure):
    """A strided tensor; strides count elements, and may be missing where it is C-contiguous."""

    _fields_ = (
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """A tensor and who frees it, before DLPack 1.0."""

    capsule: Any
    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p))


class DLPackVersion(ctypes.Structure):
    """The version of DLPack that a producer speaks."""

    _fields_ = (("major", c_uint32), ("minor", c_uint32))


class DLManagedTensorVersioned(ctypes.Structure):
    """A tensor and who frees it, since DLPack 1.0."""

    capsule: Any
    _fields_ = (
        ("version", DLPackVersion),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    )


Managed = DLManagedTensor | DLManagedTensorVersioned

_STRUCTURES: tuple[tuple[bytes, type[Managed]], ...] = (
    (b"dltensor_versioned", DLManagedTensorVersioned),
    (b"dltensor", DLManagedTensor),
)

# Function objects of our own, as the argument types of `ctypes.pythonapi`'s are everybody's.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def address_in(capsule: Any, name: bytes) -> int | None:
    """What a capsule of that name points to; None if it is none."""
    return _get_pointer(capsule, name) if _is_valid(capsule, name) else None


def inside(capsule: Any) -> Managed:
    """The structure in a capsule that nobody has consumed yet; it keeps the capsule alive.

    Raises:
        BufferError: it is no such capsule, or of a version whose layout is not known.
    """
    for name, structure in _STRUCTURES:
        address = address_in(capsule, name)
        if address is not None:
            managed = structure.from_address(address)
            managed.capsule = capsule
            if isinstance(managed, DLManagedTensorVersioned) and managed.version.major != MAJOR:
                raise BufferError(
                    f"a DLPack tensor of version {managed.version.major}.{managed.version.minor}: "
                    f"expected {MAJOR}.x; ask for it with max_version=({MAJOR}, {MINOR})"
                )
            return managed
    raise BufferError(
        f"{capsule!r} is not a DLPack capsule named 'dltensor_versioned' or 'dltensor'; "
        "a capsule that was consumed cannot be used again"
    )
