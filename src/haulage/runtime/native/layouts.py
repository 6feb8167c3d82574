"""Where CPython keeps what the native path reads: found out, and tried out, in this very process.

All numbers are bytes from the beginning of an object.
"""

import ctypes
import platform
import struct
import sys
import sysconfig
from collections import deque
from types import MemberDescriptorType
from typing import NamedTuple

# PyObject and PyVarObject: the reference count, the type, the number of items.
TYPE, SIZE = 8, 16
# PyListObject: the address of the items, and how many there is room for.
LIST_ITEMS, LIST_ROOM = 24, 32
# PyDictObject: the address of its table of keys and values.
DICT_KEYS = 32
# PyTupleObject's items, PyBytesObject's bytes.
TUPLE_ITEMS = tuple.__basicsize__
BYTES_DATA = bytes.__basicsize__ - 1
# PyMemberDescrObject: its PyMemberDef, and in that the member's place.
_MEMBER, _PLACE = 40, 16


class NotHere(Exception):
    """This interpreter keeps things in other ways; says which."""


class Slot(NamedTuple):
    """A name of `__slots__`, and where objects keep its value."""

    name: str
    place: int


def word(address: int) -> int:
    """The 8 bytes at an address."""
    return ctypes.c_uint64.from_address(address).value


def set_word(address: int, value: int) -> None:
    """Write 8 bytes at an address."""
    ctypes.c_uint64.from_address(address).value = value


def check() -> None:
    """See that this interpreter is one whose objects are known.

    Raises:
        NotHere: it is not.
    """
    if sys.implementation.name != "cpython":
        raise NotHere(f"{sys.implementation.name} is not CPython")
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        raise NotHere("the machine is not one of 64 bits, the lowest byte first")
    if platform.system() not in ("Linux", "Darwin"):
        raise NotHere(f"it was not tried on {platform.system()}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotHere("threads of this interpreter run at once")
    if hasattr(sys, "gettotalrefcount") or hasattr(sys, "getobjects"):
        raise NotHere("the interpreter was built for debugging")
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = api.PyInterpreterState_Main.restype = ctypes.c_void_p
    if api.PyInterpreterState_Get() != api.PyInterpreterState_Main():
        raise NotHere("this is not the main interpreter")
    things = [object(), object(), object()]
    items = [id(thing) for thing in things]
    queue, several = deque(things), tuple(things)
    known = (
        word(id(things) + TYPE) == id(list)
        and word(id(things) + SIZE) == word(id(queue) + SIZE) == word(id(several) + SIZE) == 3
        and [word(word(id(things) + LIST_ITEMS) + 8 * i) for i in range(3)] == items
        and 3 <= word(id(things) + LIST_ROOM) < 64
        and [word(id(several) + TUPLE_ITEMS + 8 * i) for i in range(3)] == items
        and ctypes.string_at(id(b"native") + BYTES_DATA, 6) == b"native"
        and ctypes.c_uint32.from_address(id(things[0])).value == sys.getrefcount(things[0]) - 1
    )
    if not known:
        raise NotHere("its lists and tuples are not as in CPython 3.11 to 3.14")


def place_in(names: dict[str, object], name: str) -> tuple[int, int]:
    """(address of a dictionary's table, address in it that has the value of a name).

    The place is right as long as the dictionary has that table.

    Raises:
        NotHere: it is not found.
    """
    name = next(key for key in names if key == name)
    table = word(id(names) + DICT_KEYS)
    # What `getsizeof` says beyond the dictionary itself, before which there are 16 bytes, is that.
    count = (sys.getsizeof(names) - dict.__basicsize__ - 16) // 8
    words = (ctypes.c_uint64 * count).from_address(table)
    for place in range(count - 1):
        if words[place] == id(name) and words[place + 1] == id(names[name]):
            return table, table + 8 * (place + 1)
    raise NotHere(f"no place of {name!r} in a dictionary")


def slots(cls: type, example: object) -> list[Slot]:
    """All `__slots__` of a class and of its bases that objects keep a value for, in their order.

    `example` is an object of the class whose slots have values, with which each is tried.

    Raises:
        NotHere: a value is not where it should be.
    """
    found = []
    for base in cls.__mro__:
        for name, descriptor in vars(base).items():
            if not isinstance(descriptor, MemberDescriptorType) or base is object:
                continue
            place = word(word(id(descriptor) + _MEMBER) + _PLACE)
            missing = not hasattr(example, name)
            value = 0 if missing else id(descriptor.__get__(example))
            if place >= cls.__basicsize__ or word(id(example) + place) != value:
                raise NotHere(f"{cls.__name__}.{name} is not where its descriptor says")
            found.append(Slot(name, place))
    return sorted(found, key=lambda slot: slot.place)
