"""Tensors of other libraries by DLPack's C exchange API, without capsules.

What calls that API is `haulage._core.exchange`.
"""

from functools import lru_cache
from struct import Struct
from typing import Any

from haulage._core.exchange import Exchange, exchange_in, has_unsaid
from haulage.runtime.protocols import dlpack

_ATTRIBUTE = "__dlpack_c_exchange_api__"

# What `Exchange.look` gives.
# Address; device type and number; axes; dtype as in a DLTensor; flags; the last four bits of the
# address. Behind that are the lengths and, where the flags have `STRIDED`, the strides, as int64.
RECORD = Struct("=QiiiIII")
READ_ONLY, STRIDED = 1, 1 << 8

# What the dtype of a DLTensor is made of: code, bits, lanes.
_DTYPE = Struct("=BBH")

# PyTorch's tensors are never read-only, so that the shorter call, which could not tell, will do.
_NEVER_READ_ONLY = {"torch"}


def tensor_of(record: bytes, owner: Any) -> dlpack.Tensor:
    """The tensor that `Exchange.look` saw.

    Raises:
        BufferError: NumPy has no such dtype.
    """
    pointer, device_type, device_id, axes, dtype, flags, _ = RECORD.unpack_from(record)
    element = dlpack.numpy_dtype(*_DTYPE.unpack(dtype.to_bytes(4, "little")))
    lengths = Struct(f"={axes}q")
    shape = lengths.unpack_from(record, RECORD.size)
    steps = None
    if flags & STRIDED or not axes:
        steps = lengths.unpack_from(record, RECORD.size + 8 * axes if axes else RECORD.size)
    strides = dlpack.byte_strides(shape, steps, element.itemsize)
    place, readonly = (device_type, device_id), bool(flags & READ_ONLY)
    return dlpack.Tensor(place, pointer, shape, strides, element, readonly, owner)


def exchange_of(kind: type) -> Exchange | None:
    """What the arrays of a type offer; None if it is not this API, or an unknown version of it."""
    # Others are not kept: a class that a program makes may hold arrays, and so their memory.
    return None if getattr(kind, _ATTRIBUTE, None) is None else _found(kind)


@lru_cache(256)
def _found(kind: Any) -> Exchange | None:
    library = getattr(kind, "__module__", "").partition(".")[0]
    capsule = getattr(kind, _ATTRIBUTE)
    return exchange_in(capsule, library in _NEVER_READ_ONLY, has_unsaid(kind))
