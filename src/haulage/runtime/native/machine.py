"""The emitted code in this process: linked, with the type and the functions that Python sees."""

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_ssize_t, c_uint, c_void_p
from typing import Any

from haulage.backends.cpu_driver import loader
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.memory import allocation, limits
from haulage.runtime.memory.block import Block
from haulage.runtime.native import fields, layouts
from haulage.runtime.native.text import EXPORTS, text
from haulage.runtime.process import call_sites, finalize, runtime

_DEALLOC, _MEMBERS = 52, 72  # typeslots.h: Py_tp_dealloc, Py_tp_members
_OBJECT, _NUMBER, _READONLY = 16, 17, 1  # structmember.h: T_OBJECT_EX, T_LONGLONG
_FLAGS = 1 << 18 | 1 << 7  # Py_TPFLAGS_DEFAULT, Py_TPFLAGS_DISALLOW_INSTANTIATION
_FASTCALL, _NO_ARGUMENTS = 0x80, 0x4  # METH_FASTCALL, METH_NOARGS

# What blocks of the native type have, by the names that Python sees.
_NAMES = {
    "plan": b"_plan",
    "code": b"_code",
    "lasti": b"_lasti",
    "born": b"_born",
    "generation": b"generation",
}
# Computed from these.
_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "call_site": lambda block: ((block._code, block._lasti),),
    "born": lambda block: block._born * 1e-9,
}
# So the numbers of native blocks and of Python's are never the same.
_FIRST_GENERATION = 1 << 40

# Two that say which device is meant, in the order of `fields`; then those that have these values
# while all is plain. The first of these matter to blocks that go, too.
_RUNTIME = runtime.current
_OF_DEVICES: tuple[tuple[Any, str, object], ...] = (
    (_RUNTIME, "chosen", None),
    (_RUNTIME, "choice", None),
)
_WATCHED_BY_FREE: tuple[tuple[Any, str, object], ...] = (
    (_RUNTIME, "observer", None),
    (finalize, "_deferring", 0),
    (finalize, "_ended", False),
)
_WATCHED = (
    *_OF_DEVICES,
    *_WATCHED_BY_FREE,
    (allocation, "_provider", None),
    (limits, "is_limited", False),
    (_RUNTIME, "adversary_seed", None),
    (call_sites, "frames_kept", 1),
)

_ABSENT = object()


class _Slot(ctypes.Structure):
    _fields_ = (("slot", c_int), ("pointer", c_void_p))


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("type", c_int),
        ("offset", c_ssize_t),
        ("flags", c_int),
        ("doc", c_char_p),
    )


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("basicsize", c_int),
        ("itemsize", c_int),
        ("flags", c_uint),
        ("slots", c_void_p),
    )


class _Method(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("meth", c_void_p), ("flags", c_int), ("doc", c_char_p))


class _Table:
    """A table of objects in the state; each is at its place or one of the next ones."""

    def __init__(self, at: int, size: int) -> None:
        self._at = at
        self._things: list[Any] = [_ABSENT] * size
        self._turn = 0

    def has(self, place: int, is_it: Callable[[Any], bool]) -> bool:
        """Whether a thing of which `is_it` says so is at one of its places."""
        size = len(self._things)
        found = (self._things[(place + way) % size] for way in range(fields.WAYS))
        return any(each is not _ABSENT and is_it(each) for each in found)

    def put(self, place: int, thing: object, is_of_same: Callable[[Any], bool]) -> None:
        """Let `thing` be found, in place of what is there for the same, if anything is."""
        size = len(self._things)
        places = [(place + way) % size for way in range(fields.WAYS)]
        chosen = places[self._turn % fields.WAYS]
        self._turn += 1
        for each in reversed(places):
            if self._things[each] is _ABSENT:
                chosen = each
        for each in places:
            if self._things[each] is not _ABSENT and is_of_same(self._things[each]):
                chosen = each
        self._things[chosen] = thing
        _exchange(self._at + 8 * chosen, thing)


class Machine:
    """The native path. There is one a process, which stays to its end.

    Args:
        array: an array of the plain kind, for the places of slots.

    Attributes:
        take: `take(shape, dtype, strides, order, stream)` as `device_array` calls it: the array,
            or None where it is not one of the plain cases.
        live: `live()` gives a list of the native blocks that are alive.
        plans, codes: what `take` finds plans in, and the code objects of the program.
        block_slots, array_slots: the slots that a plan has values for, in its order.
    """

    def __init__(self, array: DeviceNDArray) -> None:
        computed = (*_PROPERTIES, "generation")
        self.block_slots = [s for s in layouts.slots(Block, array.block) if s.name not in computed]
        self.array_slots = [
            s
            for s in layouts.slots(DeviceNDArray, array)
            if s.name not in ("_elements", "_launch_part")
        ]
        weak: int = Block.__weakrefoffset__
        code = loader.link_ir(
            "native",
            list(EXPORTS),
            text(self.block_slots, Block.__basicsize__, weak, self.array_slots),
        )
        self._state: int = ctypes.CFUNCTYPE(c_void_p)(code["state_at"])()
        self.block_type = _block_type(code["dealloc"])
        self.take: Callable[..., DeviceNDArray | None] = _function(b"take", code["take"], _FASTCALL)
        self.live: Callable[[], list[Block]] = _function(b"live", code["live"], _NO_ARGUMENTS)
        self.plans = _Table(self._state + fields.PLANS_AT, fields.PLANS)
        self.codes = _Table(self._state + fields.CODES_AT, fields.CODES)
        self._tell_constants()

    def _tell_constants(self) -> None:
        environment: Any = os.environ
        constants = {
            "none": None,
            "order_c": sys.intern("C"),
            "stream_0": 0,
            "one": 1,
            "getframe": sys._getframe,
            "array_type": DeviceNDArray,
            "block_type": self.block_type,
            "give_back": Block.__del__,
            "in_context": _RUNTIME.entered,
            "selected": _RUNTIME.selected,
            "environment": environment._data,
            "memory_variable": environment.encodekey("HAULAGE_MEMORY"),
            "device_variable": environment.encodekey("HAULAGE_DEVICE"),
            "aside": finalize._waiting,
            "aside_handles": finalize._waiting_handles,
        }
        for name, value in constants.items():
            self.set(name, value)
        for number, (module, _, value) in enumerate(_WATCHED):
            at = self._state + fields.WATCHED_AT + 32 * number
            _exchange(at, vars(module))
            _exchange(at + 24, value)
        self._find_names()
        self._write("end_for_free", fields.FIRST_PLAIN + len(_WATCHED_BY_FREE))
        self._write("end_for_take", len(_WATCHED))
        self._write("generation", _FIRST_GENERATION)

    def _find_names(self) -> None:
        """Look where the watched names are, unless they are still where they were."""
        for number, (module, name, _) in enumerate(_WATCHED):
            at = self._state + fields.WATCHED_AT + 32 * number
            if layouts.word(at + 8) != layouts.word(id(vars(module)) + layouts.DICT_KEYS):
                table, place = layouts.place_in(vars(module), name)
                layouts.set_word(at + 16, place)
                layouts.set_word(at + 8, table)

    # ---- what is told to the code while it runs -------------------------------------------------

    def note_surroundings(self) -> None:
        """Memory comes from pools with what the environment says now."""
        environment: Any = os.environ
        variable = environment.encodekey("HAULAGE_MEMORY")
        self.set("memory_value", environment._data.get(variable, _ABSENT))
        self._find_names()

    def note_device(self, device: Device) -> None:
        """`device` is meant where neither thread nor process chose one, by what the environment
        says now."""
        environment: Any = os.environ
        variable = environment.encodekey("HAULAGE_DEVICE")
        self.set("device_of_value", device)
        self.set("device_value", environment._data.get(variable, _ABSENT))

    def set(self, name: str, value: object) -> None:
        """Let a cell of the state have an object."""
        _exchange(self._cell(name), value)

    def _write(self, name: str, number: int) -> None:
        layouts.set_word(self._cell(name), number)

    def _cell(self, name: str) -> int:
        return self._state + 8 * fields.STATE.index(name)


def _keep(thing: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _exchange(at: int, thing: object) -> None:
    """Let a cell of 8 bytes have an object, or 0, and drop the one that it had."""
    before = layouts.word(at)
    if thing is _ABSENT:
        layouts.set_word(at, 0)
    else:
        _keep(thing)
        layouts.set_word(at, id(thing))
    if before:
        ctypes.pythonapi.Py_DecRef(c_void_p(before))


def _block_type(dealloc: int) -> type[Block]:
    """A subclass of `Block` whose objects the code makes, and `dealloc` takes back."""
    members = (_Member * (len(_NAMES) + 1))()
    for number, (name, seen) in enumerate(_NAMES.items()):
        kind = _OBJECT if name in ("plan", "code") else _NUMBER
        place = Block.__basicsize__ + 8 * fields.OF_BLOCK.index(name)
        members[number] = _Member(seen, kind, place, _READONLY, None)
    slots = (_Slot * 3)(
        _Slot(_DEALLOC, dealloc), _Slot(_MEMBERS, ctypes.addressof(members)), _Slot(0, None)
    )
    size = Block.__basicsize__ + 8 * len(fields.OF_BLOCK)
    full_name = f"{Block.__module__}.PooledBlock".encode()
    spec = _Spec(full_name, size, 0, _FLAGS, ctypes.addressof(slots))
    for thing in (members, slots, spec):
        _keep(thing)
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, (c_void_p, ctypes.py_object)
    made: type[Block] = make(ctypes.addressof(spec), (Block,))
    for name_seen, get in _PROPERTIES.items():
        setattr(made, name_seen, property(get))
    return made


def _function(name: bytes, address: int, flags: int) -> Any:
    """A function of Python's over the code at an address."""
    definition = _Method(name, address, flags, None)
    _keep(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (c_void_p, c_void_p, c_void_p)
    return make(ctypes.addressof(definition), None, None)
