"""The registry of arguments: which values a kernel takes, and what a launch does with each.

The *kind* of an argument stands for all that decides how a launch goes: launches whose arguments
have the same kinds have one plan (`launch.plan`). There is one function for each sort of value,
marked with `@argument`, which is asked for values of the types that its test holds for. It appends
the value's field of the argument block (`launch.packing`) and returns the kind. What else is to be
done with it, the kind's role says:

    VALUE       nothing: numbers, None, types
    ON_DEVICE   the stream's use of its memory, `value.block`, is noted: arrays and records of the
                device
    MAPPED      likewise, and the memory is on the host, so that other devices may reach it too:
                mapped and managed arrays
    ON_HOST     used in place where kernels reach the host's memory, and the host waits for the
                launch; else copied to the device before, and back after it: NumPy arrays, records
    MOVING      acquired before, released after: SmartArrays and others with the protocol of
                `buffers.coherent`; its field is made then
    ORDERED     another library's array, described without opening it; its field is a pair: the
                bytes, and whose stream the launch is ordered with (`foreign_arrays.Order`)
    OPENED      another library's array that is opened in the launch's stream, and then is one of
                those above
    TUPLE       its entries' kinds say it

So a new sort of argument is one function: a program's own fixed-point number, for example, as

    @argument(lambda of: issubclass(of, Fixed))
    def _fixed(value, fields):
        fields.append(int(value.raw))
        return kind(VALUE, (SCALAR, np.dtype(np.int64)))
"""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage._core.coherence import Moving
from haulage._core.launches import Part
from haulage._core.packing import integer_of, pack_array, unit_axis
from haulage.compiler.versions import END, FIRST, LAST, NONNEGATIVE, NOTHING
from haulage.runtime.arrays import keys
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.arrays.keys import ARRAY, DTYPE, ENUM, MOST_ALIGNED, NONE, SCALAR, Key
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.launch import foreign_arrays
from haulage.runtime.launch.hints import ArgHint
from haulage.runtime.protocols.cuda_array_interface import NAME
from haulage.runtime.protocols.offered import is_foreign

VALUE, ON_DEVICE, MAPPED, ON_HOST = "value", "on device", "mapped", "on host"
MOVING, ORDERED, OPENED, TUPLE = "moving", "ordered", "opened", "tuple"


class Kind:
    """A kind of argument; two with the same attributes are one object.

    Attributes:
        role: what a launch does with it, see above.
        key: what code is chosen by; None: it is not known before the argument is opened.
        device: that it is on; None: on none, or wherever it is needed.
        hint: `In`, `Out` or `InOut`, if it was given inside of one.
        parts: the kinds of a tuple's entries.
        trait: what of it code has versions for, as `compiler.versions` has it.
    """

    __slots__ = ("device", "hint", "key", "parts", "role", "trait")

    def __init__(
        self,
        role: str,
        key: Key | None,
        device: Device | None = None,
        hint: type[ArgHint] | None = None,
        parts: tuple["Kind", ...] = (),
        trait: str = NOTHING,
    ) -> None:
        self.role = role
        self.key = key
        self.device = device
        self.hint = hint
        self.parts = parts
        self.trait = trait

    def leaves(self) -> tuple["Kind", ...]:
        """Itself; of a tuple the kinds of its entries, those in tuples too."""
        if self.role != TUPLE:
            return (self,)
        return tuple(leaf for part in self.parts for leaf in part.leaves())


_kinds: dict[Any, Kind] = {}
# Kinds hold what programs made, as classes; so they are not kept without end.
_MOST = 4096


def kind(
    role: str,
    key: Key | None,
    device: Device | None = None,
    hint: type[ArgHint] | None = None,
    parts: tuple[Kind, ...] = (),
    trait: str = NOTHING,
) -> Kind:
    """The kind with these attributes."""
    described = role, key, device, hint, parts, trait
    found = _kinds.get(described)
    if found is None:
        if len(_kinds) >= _MOST:
            forget()
        found = _kinds.setdefault(described, Kind(*described))
    return found


def _kept(table: dict[Any, Kind], described: Any, made: Kind) -> Kind:
    """Let a kind be found by what decides it."""
    if len(table) >= _MOST:
        forget()
    table[described] = made
    return made


def forget() -> None:
    """Forget the kinds that were made; launches plan anew for those made later."""
    for table in (_kinds, _host, _mapped, _records, _tuples, _enums):
        table.clear()


# ---- the registry -----------------------------------------------------------------------------

# Takes a value and the list of the fields of the argument block; returns the value's kind.
Classify = Callable[[Any, list[Any]], Kind]

_entries: list[tuple[Callable[[type], bool], Classify]] = []
# The function for each exact type, once it was found.
classifiers: dict[type, Classify] = {}
_MOST_TYPES = 1024


def argument(test: Callable[[type], bool]) -> Callable[[Classify], Classify]:
    """Enter a function for values of the types that `test` holds for and no test before it."""

    def enter(classify: Classify) -> Classify:
        _entries.append((test, classify))
        return classify

    return enter


def classify(value: Any, fields: list[Any]) -> Kind:
    """The kind of an argument, whose fields of the argument block are appended to `fields`.

    Raises:
        TypeError: no kernel takes it.
        ValueError: it is an array that is closed.
    """
    of = type(value)
    found = classifiers.get(of) or next((each for test, each in _entries if test(of)), None)
    if found is None:
        # An object may have an interface that its class has not.
        if not is_foreign(value):
            raise refusal(value)
        return _foreign(value, fields)
    if of not in classifiers:
        if len(classifiers) >= _MOST_TYPES:
            classifiers.clear()
        classifiers[of] = found
    return found(value, fields)


def key_of(value: Any) -> Key:
    """What decides how a kernel is compiled for an argument.

    Raises:
        TypeError: no kernel takes it; or it is another library's, which a launch opens first.
    """
    if isinstance(value, DeviceNDArray):
        return value._code_key
    key = classify(value, []).key
    if key is None:
        raise refusal(value)
    return key


def refusal(value: Any) -> TypeError:
    """The error for a value that no kernel takes."""
    return TypeError(
        f"a kernel cannot take {_shown_as(value)} of type {type(value).__name__}{_instead(value)}: "
        "expected an array or a record, of the device or of NumPy, a NumPy scalar, a number, None, "
        "a member of an Enum, a dtype, or a tuple of these"
    )


def _shown_as(value: Any) -> str:
    """A value on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _instead(value: Any) -> str:
    """What to give in the place of a value that no kernel takes."""
    if isinstance(value, (list, range)):
        return "; give np.array(...) of it"
    if hasattr(value, "to_numpy"):
        return "; give the array of its .to_numpy()"
    if isinstance(value, dict):
        return "; give its values as arrays or numbers, one argument each"
    return ""


# ---- arrays of a device -----------------------------------------------------------------------


def part_of(array: DeviceNDArray) -> Part:
    """The part of an array in launches, made now and kept with it."""
    field = pack_array(array, array.device_pointer)
    own = kind(ON_DEVICE, array._code_key, array.device, trait=unit_axis(field))
    made = Part(own, array.shape, array.strides, field)
    array._launch_part = made
    return made


def current_part(array: DeviceNDArray) -> Part:
    """The part that is kept with an array, or a new one if it does not hold any more."""
    part: Part | None = array._launch_part
    if part is None or part.shape is not array.shape or part.strides is not array.strides:
        part = part_of(array)
    return part


@argument(lambda of: issubclass(of, DeviceNDArray))
def _device_array(array: DeviceNDArray, fields: list[Any]) -> Any:
    part = current_part(array)
    if array.block.closed:
        array.block.use()
    fields.append(part.data)
    return part.kind


# ---- numbers ----------------------------------------------------------------------------------


def _scalar(dtype: Any, trait: str = NOTHING) -> Kind:
    return kind(VALUE, (SCALAR, np.dtype(dtype)), trait=trait)


# By the exact type, numbers that are packed as they are: the kind of any one, and the kind of an
# integer that is not negative and below `END`.
number_kinds: dict[type, tuple[Kind, Kind | None]] = {
    **{
        of: (_scalar(of), None)
        for of in (
            *(bool, np.bool_, float, np.float16, np.float32, np.float64),
            *(complex, np.complex64, np.complex128),
        )
    },
    **{
        of: (_scalar(of), _scalar(of, NONNEGATIVE))
        for of in (
            *(np.int8, np.int16, np.int32, np.int64, np.longlong),
            *(np.uint8, np.uint16, np.uint32, np.uint64, np.ulonglong),
        )
    },
}


@argument(number_kinds.__contains__)
def _number(value: Any, fields: list[Any]) -> Kind:
    fields.append(value)
    of_any, nonnegative = number_kinds[type(value)]
    return nonnegative if nonnegative is not None and 0 <= value < END else of_any


int_kinds = _scalar(np.int64), _scalar(np.int64, NONNEGATIVE)
_UNSIGNED = _scalar(np.uint64)
_LEAST_INT, _GREATEST_INT = -(2**63), 2**63 - 1


@argument(lambda of: issubclass(of, int) and not issubclass(of, enum.Enum))
def _int(value: int, fields: list[Any]) -> Kind:
    fields.append(value)
    if _LEAST_INT <= value <= _GREATEST_INT:
        return int_kinds[0 <= value < END]
    if 0 <= value < 2**64:
        return _UNSIGNED
    raise TypeError(
        f"the integer {value} does not fit the 64 bits of a kernel argument; give it as a float"
    )


@argument(lambda of: issubclass(of, np.void))
def _host_record(value: np.void, fields: list[Any]) -> Kind:
    if value.dtype.names is None:
        return _numpy_scalar(value, fields)
    address = address_of(np.asarray(value))  # NumPy's array over the record's own memory
    fields.append(address)
    described = value.dtype, value.flags.writeable, address & MOST_ALIGNED
    found = _records.get(described)
    if found is None:
        found = _kept(_records, described, kind(ON_HOST, keys.of_host_record(value)))
    return found


@argument(lambda of: issubclass(of, np.generic))
def _numpy_scalar(value: np.generic, fields: list[Any]) -> Kind:
    dtype = value.dtype
    if dtype.kind not in "biufcMm":
        raise TypeError(f"a kernel cannot take a NumPy scalar of dtype {dtype}")
    if dtype.kind in "Mm":
        fields.append(integer_of(value))
    else:
        fields.append(value)
    return kind(VALUE, (SCALAR, dtype))


@argument(lambda of: issubclass(of, float))
def _float(value: float, fields: list[Any]) -> Kind:
    fields.append(value)
    return _scalar(np.float64)


@argument(lambda of: issubclass(of, complex))
def _complex(value: complex, fields: list[Any]) -> Kind:
    fields.append(value)
    return _scalar(np.complex128)


# ---- arrays and records -----------------------------------------------------------------------

# What kinds are looked up by, for each sort of array: what of it decides its key.
_host: dict[Any, Kind] = {}
_mapped: dict[Any, Kind] = {}
_records: dict[Any, Kind] = {}

# C and F contiguous, aligned, writeable: as `ndarray.flags.num` has them.
_CONTIGUOUS = 0x1 | 0x2
_FLAGS = _CONTIGUOUS | 0x100 | 0x400


@argument(lambda of: issubclass(of, HostVisibleNDArray))
def _host_visible(array: HostVisibleNDArray, fields: list[Any]) -> Kind:
    block = pinned_memory.block_of(array)
    if block is None:  # a copy that NumPy made, in ordinary memory
        return _host_array(array, fields)
    if block.closed:
        block.use()
    pointer = block.device_ptr + address_of(array) - block.host_ptr if block.nbytes else 0
    field = pack_array(array, pointer)
    fields.append(field)
    flags, axis = array.flags.num & _FLAGS, unit_axis(field)
    steps = array.ndim if flags & _CONTIGUOUS else (array.shape, array.strides)
    described = block.device, array.dtype, steps, flags, pointer & MOST_ALIGNED, axis
    found = _mapped.get(described)
    if found is None:
        made = kind(MAPPED, array.device_view()._code_key, block.device, trait=axis)
        found = _kept(_mapped, described, made)
    return found


@argument(lambda of: issubclass(of, np.ndarray))
def _host_array(array: np.ndarray, fields: list[Any]) -> Kind:
    field = pack_array(array, address_of(array))
    fields.append(field)
    axis = unit_axis(field)
    described = array.dtype, array.ndim, array.flags.num & _FLAGS, axis
    found = _host.get(described)
    if found is None:
        made = kind(ON_HOST, keys.of_host_array(array), trait=axis)
        found = _kept(_host, described, made)
    return found


@argument(lambda of: issubclass(of, DeviceRecord))
def _device_record(record: DeviceRecord, fields: list[Any]) -> Kind:
    block, pointer = record.block, record.device_pointer
    if block.closed:
        block.use()
    fields.append(pointer)
    described = block.device, record.dtype, record.readonly, pointer & MOST_ALIGNED
    found = _records.get(described)
    if found is None:
        found = _kept(_records, described, kind(ON_DEVICE, record._code_key, block.device))
    return found


def _unit_axis_of(array: Any) -> str:
    """Of an array that has the same strides on each device."""
    strides, nbytes = array.strides, array.dtype.itemsize
    if not strides or nbytes not in (strides[-1], strides[0]):
        return NOTHING
    return LAST if strides[-1] == nbytes else FIRST


@argument(lambda of: hasattr(of, "__haulage_acquire__"))
def _moving(array: Any, fields: list[Any]) -> Kind:
    fields.append(None)
    found: Kind | None = getattr(array, "_launch_kind", None)
    if found is None:
        axis = _unit_axis_of(array) if isinstance(array, Moving) else NOTHING
        found = kind(MOVING, (ARRAY, *array.__haulage_describe__()), trait=axis)
        array._launch_kind = found
    return found


@argument(lambda of: hasattr(of, "__dlpack__") or hasattr(of, NAME))
def _foreign(array: Any, fields: list[Any]) -> Kind:
    described = foreign_arrays.describe(array)
    if described is None:
        if not is_foreign(array):
            raise refusal(array)
        fields.append(None)
        return _OPENED
    layout, data, of_stream = described
    fields.append((data, of_stream))
    if layout.kind is None:
        layout.kind = kind(ORDERED, layout.key, layout.device, trait=layout.unit_axis)
    found: Kind = layout.kind
    return found


_OPENED = kind(OPENED, None)

# ---- what is made of others, and what is no memory --------------------------------------------


@argument(lambda of: issubclass(of, tuple))
def _tuple(values: tuple[Any, ...], fields: list[Any]) -> Kind:
    parts = tuple([classify(value, fields) for value in values])
    named = type(values) if hasattr(values, "_fields") else None
    found = _tuples.get((named, parts))
    if found is None:
        own = tuple([part.key for part in parts])
        key = None if None in own else (keys.TUPLE, own, named)
        found = _kept(_tuples, (named, parts), kind(TUPLE, key, parts=parts))
    return found


_tuples: dict[Any, Kind] = {}


@argument(lambda of: issubclass(of, ArgHint))
def _hinted(hint: ArgHint, fields: list[Any]) -> Kind:
    own = classify(hint.value, fields)
    # A copy of an array that moves itself may have other strides.
    axis = NOTHING if own.role == MOVING else own.trait
    return kind(own.role, own.key, own.device, type(hint), own.parts, axis)


@argument(lambda of: issubclass(of, enum.Enum))
def _enum(member: enum.Enum, fields: list[Any]) -> Kind:
    of = type(member)
    found = _enums.get(of)
    if found is None:
        own = {int_kinds[0].key} if isinstance(member, int) else {key_of(each.value) for each in of}
        if len(own) != 1:
            raise TypeError(
                f"a kernel cannot take a member of {of.__name__}: the values of its members are of "
                "different types"
            )
        part = classify(member.value, [])
        found = _kept(_enums, of, kind(part.role, (ENUM, of, own.pop()), parts=part.parts))
    classify(member.value, fields)
    return found


_enums: dict[type, Kind] = {}
_NOTHING = kind(VALUE, (NONE,))


@argument(lambda of: of is type(None))
def _none(value: None, fields: list[Any]) -> Kind:
    fields.append(0)  # Numba passes None, and types, as a pointer to nothing
    return _NOTHING


@argument(lambda of: issubclass(of, (type, np.dtype)))
def _type(value: Any, fields: list[Any]) -> Kind:
    fields.append(0)
    if isinstance(value, np.dtype):
        return kind(VALUE, (DTYPE, value, False))
    if issubclass(value, (np.number, np.bool_)):
        return kind(VALUE, (DTYPE, np.dtype(value), True))
    raise refusal(value)
