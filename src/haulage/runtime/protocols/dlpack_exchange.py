"""DLPack's C exchange API: tensors of other libraries without capsules, and their current streams.

After dlpack.h of DLPack 1.3. PyTorch has it since 2.10, `cuda.core` since its 1.0.
"""

import ctypes
from collections.abc import Callable, Hashable
from ctypes import c_int, c_int32, c_void_p, py_object
from functools import cache, lru_cache, partial
from struct import Struct
from typing import Any

from haulage.forks import cached_property
from haulage.runtime.protocols import dlpack
from haulage.runtime.protocols.dlpack_structs import MAJOR, DLPackVersion, address_in

_ATTRIBUTE = "__dlpack_c_exchange_api__"

# What `Exchange.look` gives.
# Address; device type and number; axes; dtype as in a DLTensor; flags; the last four bits of the
# address. Behind that are the lengths and, where the flags have `STRIDED`, the strides, as int64.
RECORD = Struct("=QiiiIII")
READ_ONLY, STRIDED = 1, 1 << 8

# So many axes stand for a tensor of another major version.
ANOTHER_VERSION = -1


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

    return loader.link_ir("exchange", _EXPORTS, _IR, quickly=True)


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


# ---- native code --------------------------------------------------------------------------------

_EXPORTS = ["look", "look_managed"]

# It looks at another library's array by the exchange API in one call, and puts what there is to
# know into a bytes object: see `RECORD`. The functions it calls come in a table: the library's,
# PyBytes_FromStringAndSize, PyBytes_AsString. The interpreter's lock is held.
# Offsets: in a DLTensor data 0, device 8, axes 16, dtype 20, shape 24, strides 32, offset 40; in a
# DLManagedTensorVersioned major 0, deleter 16, flags 24, tensor 32.
_IR = """
define ptr @look(ptr %table, ptr %object) {
entry:
  %tensor = alloca [48 x i8], align 8
  %fill = load ptr, ptr %table
  %status = call i32 %fill(ptr %object, ptr %tensor)
  %right = icmp eq i32 %status, 0
  br i1 %right, label %go, label %failed
failed:
  ret ptr null
go:
  %record = call ptr @record(ptr %tensor, i32 0, ptr %table)
  ret ptr %record
}

define ptr @look_managed(ptr %table, ptr %object) {
entry:
  %made.at = alloca ptr
  store ptr null, ptr %made.at
  %make = load ptr, ptr %table
  %status = call i32 %make(ptr %object, ptr %made.at)
  %made = load ptr, ptr %made.at
  %given = icmp ne ptr %made, null
  %fine = icmp eq i32 %status, 0
  %right = and i1 %fine, %given
  br i1 %right, label %go, label %failed
failed:
  ret ptr null
go:
  %major = load i32, ptr %made
  %known = icmp eq i32 %major, 1
  br i1 %known, label %read, label %unknown
read:
  %flags.at = getelementptr i8, ptr %made, i64 24
  %flags = load i32, ptr %flags.at
  %read.only = and i32 %flags, 1
  %tensor = getelementptr i8, ptr %made, i64 32
  %record.1 = call ptr @record(ptr %tensor, i32 %read.only, ptr %table)
  br label %end
unknown:
  %none = alloca [48 x i8], align 8
  store [48 x i8] zeroinitializer, ptr %none
  %none.axes = getelementptr i8, ptr %none, i64 16
  store i32 -1, ptr %none.axes
  %record.2 = call ptr @record(ptr %none, i32 0, ptr %table)
  br label %end
end:
  %record = phi ptr [ %record.1, %read ], [ %record.2, %unknown ]
  %deleter.at = getelementptr i8, ptr %made, i64 16
  %deleter = load ptr, ptr %deleter.at
  %owned = icmp ne ptr %deleter, null
  br i1 %owned, label %delete, label %done
delete:
  call void %deleter(ptr %made)
  br label %done
done:
  ret ptr %record
}

define internal ptr @record(ptr %tensor, i32 %flags, ptr %table) {
entry:
  %data = load i64, ptr %tensor
  %offset.at = getelementptr i8, ptr %tensor, i64 40
  %offset = load i64, ptr %offset.at
  %address = add i64 %data, %offset
  %device.at = getelementptr i8, ptr %tensor, i64 8
  %device = load i64, ptr %device.at
  %axes.at = getelementptr i8, ptr %tensor, i64 16
  %axes = load i32, ptr %axes.at
  %dtype.at = getelementptr i8, ptr %tensor, i64 20
  %dtype = load i32, ptr %dtype.at
  %shape.at = getelementptr i8, ptr %tensor, i64 24
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %tensor, i64 32
  %strides = load ptr, ptr %strides.at
  %some = icmp sgt i32 %axes, 0
  %whole = select i1 %some, i32 %axes, i32 0
  %count = zext i32 %whole to i64
  %given = icmp ne ptr %strides, null
  %strided = and i1 %some, %given
  %steps = select i1 %strided, i64 %count, i64 0
  %words = add i64 %count, %steps
  %more = shl i64 %words, 3
  %bytes = add i64 %more, 32
  %new.at = getelementptr ptr, ptr %table, i64 1
  %new = load ptr, ptr %new.at
  %made = call ptr %new(ptr null, i64 %bytes)
  %got = icmp ne ptr %made, null
  br i1 %got, label %write, label %failed
failed:
  ret ptr null
write:
  %inside.at = getelementptr ptr, ptr %table, i64 2
  %inside = load ptr, ptr %inside.at
  %into = call ptr %inside(ptr %made)
  store i64 %address, ptr %into, align 1
  %into.device = getelementptr i8, ptr %into, i64 8
  store i64 %device, ptr %into.device, align 1
  %into.axes = getelementptr i8, ptr %into, i64 16
  store i32 %axes, ptr %into.axes, align 1
  %into.dtype = getelementptr i8, ptr %into, i64 20
  store i32 %dtype, ptr %into.dtype, align 1
  %mark = select i1 %strided, i32 256, i32 0
  %marked = or i32 %flags, %mark
  %into.flags = getelementptr i8, ptr %into, i64 24
  store i32 %marked, ptr %into.flags, align 1
  %low = trunc i64 %address to i32
  %grain = and i32 %low, 15
  %into.grain = getelementptr i8, ptr %into, i64 28
  store i32 %grain, ptr %into.grain, align 1
  %into.shape = getelementptr i8, ptr %into, i64 32
  call void @copy(ptr %into.shape, ptr %shape, i64 %count)
  %into.strides = getelementptr i64, ptr %into.shape, i64 %count
  call void @copy(ptr %into.strides, ptr %strides, i64 %steps)
  ret ptr %made
}

define internal void @copy(ptr %to, ptr %of, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %from.at = getelementptr i64, ptr %of, i64 %i
  %word = load volatile i64, ptr %from.at
  %to.at = getelementptr i64, ptr %to, i64 %i
  store volatile i64 %word, ptr %to.at, align 1
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
"""
