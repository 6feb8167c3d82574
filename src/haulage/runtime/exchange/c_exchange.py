"""DLPack's C exchange API: tensors of other libraries without capsules, and their current streams.

After dlpack.h of DLPack 1.3. PyTorch has it since 2.10, `cuda.core` since its 1.0.
"""

import ctypes
from collections.abc import Callable, Hashable
from ctypes import c_int, c_int32, c_void_p, py_object
from functools import cache, cached_property, lru_cache, partial
from struct import Struct
from typing import Any

from haulage.runtime.arrays import dlpack
from haulage.runtime.arrays.dlpack_structs import MAJOR, DLPackVersion, address_in
from haulage.runtime.exchange.c_exchange_ir import (
    ANOTHER_VERSION,
    EXPORTS,
    IR,
    READ_ONLY,
    RECORD,
    STRIDED,
)

_ATTRIBUTE = "__dlpack_c_exchange_api__"


class _Table(ctypes.Structure):
    """DLPackExchangeAPI; `previous` is the table of an older version, or NULL."""

    _fields_ = (
        ("version", DLPackVersion),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("managed_from_object", c_void_p),
        ("object_from_managed", c_void_p),
        ("tensor_from_object", c_void_p),
        ("current_stream", c_void_p),
    )


# Called with the lock of the interpreter held; what they raise is raised.
_LOOK = ctypes.PYFUNCTYPE(py_object, c_void_p, py_object)
_STREAM = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)

# What the dtype of a DLTensor is made of: code, bits, lanes.
_DTYPE = Struct("=BBH")

# PyTorch's tensors are never read-only, so that the shorter call, which could not tell, will do.
_NEVER_READ_ONLY = {"torch"}


@cache
def _native() -> Any:
    from haulage.backends.cpu_driver import loader  # which few programs need this for

    return loader.link_ir("exchange", EXPORTS, IR, quickly=True)


def _address(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


class Exchange:
    """What a library's table offers."""

    def __init__(self, table: _Table, library: str) -> None:
        self._short = bool(table.tensor_from_object) and library in _NEVER_READ_ONLY
        self._describe = table.tensor_from_object if self._short else table.managed_from_object
        self._stream = _STREAM(table.current_stream)

    def current_stream(self, device_type: int, device_id: int) -> int:
        """The handle of the stream that the library works in just now, in this thread."""
        found = c_void_p()
        self._stream(device_type, device_id, ctypes.addressof(found))
        return found.value or 0

    @cached_property
    def look(self) -> Callable[[Any], bytes]:
        """A function of one of the library's arrays: its address in 8 bytes, and behind it all
        else, so that two arrays that are alike but for their addresses have equal bytes from the
        ninth on. See `tensor_of`."""
        api = ctypes.pythonapi
        functions = (
            self._describe,
            _address(api.PyBytes_FromStringAndSize),
            _address(api.PyBytes_AsString),
        )
        table = (c_void_p * 3)(*functions)
        native = _LOOK(_native()["look" if self._short else "look_managed"])
        found = partial(native, ctypes.addressof(table))
        # Not this object's: several threads may make one each, at the same time.
        found.table = table  # type: ignore[attr-defined]
        return found


def tensor_of(record: bytes, owner: Any) -> dlpack.Tensor:
    """The tensor that `Exchange.look` saw.

    Raises:
        BufferError: NumPy has no such dtype, or it is of an unknown version.
    """
    pointer, device_type, device_id, axes, dtype, flags, _ = RECORD.unpack_from(record)
    if axes == ANOTHER_VERSION:
        raise BufferError(
            f"a DLPack tensor of another version than {MAJOR}.x; update its library or Haulage"
        )
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
def _found(kind: Hashable) -> Exchange | None:
    address = address_in(getattr(kind, _ATTRIBUTE), b"dlpack_exchange_api")
    while address:
        table = _Table.from_address(address)
        if table.version.major == MAJOR:
            return Exchange(table, getattr(kind, "__module__", "").partition(".")[0])
        address = table.previous
    return None
