"""What the tables of other libraries give, and what is said where they fail."""

import ctypes
from ctypes import c_int, c_int32, c_void_p, py_object

import pytest

from haulage._core.exchange import exchange_in, has_unsaid
from haulage.runtime.protocols.dlpack_exchange import RECORD, STRIDED
from haulage.runtime.protocols.dlpack_structs import (
    CPU,
    DLDataType,
    DLDevice,
    DLManagedTensorVersioned,
    DLPackVersion,
    DLTensor,
)

NAME = b"dlpack_exchange_api"

_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, ctypes.c_char_p, c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_FROM_OBJECT = ctypes.PYFUNCTYPE(c_int, py_object, c_void_p)
_STREAM = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)
_DELETER = ctypes.PYFUNCTYPE(None, c_void_p)


class Table(ctypes.Structure):
    _fields_ = (
        ("version", DLPackVersion),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("managed_from_object", _FROM_OBJECT),
        ("object_from_managed", c_void_p),
        ("tensor_from_object", _FROM_OBJECT),
        ("current_stream", _STREAM),
    )


class Library:
    """A library whose arrays are all the same, and which fails as it is told."""

    def __init__(self, major=1, previous=None):
        self.status, self.version, self.given, self.deleted = 0, 1, True, 0
        self.shape = (ctypes.c_int64 * 2)(3, 4)
        self.strides = (ctypes.c_int64 * 2)(5, -1)
        self.tensor = DLTensor(
            0x1000, DLDevice(CPU, 7), 2, DLDataType(2, 32, 1), self.shape, self.strides, 0x24
        )
        self.table = Table(
            version=DLPackVersion(major, 3),
            previous=previous and ctypes.addressof(previous.table),
            managed_from_object=_FROM_OBJECT(self._managed),
            tensor_from_object=_FROM_OBJECT(self._tensor),
            current_stream=_STREAM(self._stream),
        )
        self._deleter = _DELETER(self._delete)
        self.capsule = _new_capsule(ctypes.addressof(self.table), NAME, None)

    def _managed(self, obj, out):
        self.managed = DLManagedTensorVersioned(
            version=DLPackVersion(self.version, 0),
            deleter=ctypes.cast(self._deleter, c_void_p),
            flags=3,
            dl_tensor=self.tensor,
        )
        if self.given:
            c_void_p.from_address(out).value = ctypes.addressof(self.managed)
        return self.status

    def _tensor(self, obj, out):
        ctypes.memmove(out, ctypes.addressof(self.tensor), ctypes.sizeof(DLTensor))
        return self.status

    def _stream(self, device_type, device_id, out):
        c_void_p.from_address(out).value = 100 * device_type + device_id
        return self.status

    def _delete(self, managed):
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1


def numbers(record):
    """The record's head, lengths and strides."""
    rest = memoryview(record)[RECORD.size :].cast("q").tolist()
    return RECORD.unpack_from(record), rest


@pytest.mark.parametrize("never_read_only", [False, True])
def test_the_record_is_that_of_the_tensor(never_read_only):
    library = Library()
    exchange = exchange_in(library.capsule, never_read_only)
    head, rest = numbers(exchange.look(object()))
    dtype = int.from_bytes(bytes(library.tensor.dtype), "little")
    read_only = 0 if never_read_only else 1
    assert head == (0x1024, CPU, 7, 2, dtype, STRIDED | read_only, 4)
    assert rest == [3, 4, 5, -1]
    assert library.deleted == (0 if never_read_only else 1)


def test_a_record_has_strides_only_where_the_tensor_has():
    library = Library()
    library.tensor.strides = None
    head, rest = numbers(exchange_in(library.capsule, True).look(0))
    assert (head[5], rest) == (0, [3, 4])


def test_a_tensor_without_axes_has_neither():
    library = Library()
    library.tensor.ndim, library.tensor.shape = 0, None
    head, rest = numbers(exchange_in(library.capsule, True).look(0))
    assert (head[3], head[5], rest) == (0, 0, [])


def test_two_records_are_alike_behind_their_addresses():
    library = Library()
    look = exchange_in(library.capsule, True).look
    first = look(0)
    library.tensor.byte_offset += 16
    second = look(0)
    assert first[8:] == second[8:]
    assert first[:8] != second[:8]
    library.tensor.byte_offset += 8
    assert look(0)[8:] != second[8:]  # which code for vectors depends on


def test_a_tensor_of_another_version_is_given_back_and_refused():
    library = Library()
    library.version = 2
    with pytest.raises(BufferError, match=r"of version 2, another version than 1\.x"):
        exchange_in(library.capsule, False).look(0)
    assert library.deleted == 1


@pytest.mark.parametrize("never_read_only", [False, True])
def test_a_library_that_fails_without_a_reason_is_named(never_read_only):
    library = Library()
    library.status, library.given = -1, False
    with pytest.raises(BufferError, match="the library of a complex does not describe it"):
        exchange_in(library.capsule, never_read_only).look(1j)
    assert library.deleted == 0


def test_no_tensor_is_a_failure():
    library = Library()
    library.given = False
    with pytest.raises(BufferError, match="the library of a complex does not describe it"):
        exchange_in(library.capsule, False).look(1j)


def test_what_a_library_raises_is_raised():
    library = Library()
    # A function in C, as ctypes would print what one in Python raises.
    fails = ctypes.cast(ctypes.pythonapi.PyObject_Hash, c_void_p).value
    library.table.tensor_from_object = _FROM_OBJECT(fails)
    exchange = exchange_in(library.capsule, True)
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        exchange.look([])


def test_the_current_stream_is_that_of_the_device():
    library = Library()
    exchange = exchange_in(library.capsule, False)
    assert exchange.current_stream(2, 3) == 203
    assert exchange.current_stream(0, 0) == 0
    library.status = -1
    with pytest.raises(BufferError, match="does not tell its current stream of device 3"):
        exchange.current_stream(2, 3)


def test_the_table_of_an_older_version_is_found_behind_a_newer_one():
    old = Library()
    new = Library(3, Library(2, old))
    assert exchange_in(new.capsule, False).look(0)
    assert old.deleted == 1
    assert exchange_in(Library(2).capsule, False) is None


def test_other_capsules_are_no_tables():
    assert exchange_in(_new_capsule(1, b"another", None), False) is None
    assert exchange_in(object(), False) is None


class Lazy:
    """An array after PyTorch's, which says of itself what DLPack has no words for."""

    requires_grad = False

    def __init__(self, requires_grad=False, conj=False, neg=False):
        self.requires_grad, self._conj, self._neg = requires_grad, conj, neg

    def is_conj(self):
        return self._conj

    def is_neg(self):
        return self._neg


@pytest.mark.parametrize("never_read_only", [False, True])
@pytest.mark.parametrize(
    ("is_", "message"),
    [
        ({"requires_grad": True}, r"requires a gradient.*\.detach\(\)"),
        ({"conj": True}, r"conjugate view.*\.resolve_conj\(\)"),
        ({"neg": True}, r"negative view.*\.resolve_neg\(\)"),
    ],
)
def test_what_the_memory_is_not_all_of_is_refused(never_read_only, is_, message):
    library = Library()
    assert has_unsaid(Lazy)
    assert not has_unsaid(Library)
    exchange = exchange_in(library.capsule, never_read_only, True)
    exchange.look(Lazy())
    looked_at = library.deleted
    with pytest.raises(BufferError, match=f"Lazy object that .*{message}"):
        exchange.look(Lazy(**is_))
    assert library.deleted == looked_at


class WithoutStorage:
    """An array whose library tells the frames of its code, too."""

    def __hash__(self):
        raise RuntimeError("no storage\nException raised from f.cpp:1\nframe #0: f")


def test_the_frames_of_a_library_do_not_come_with_its_error():
    library = Library()
    # A function in C, as ctypes would print what one in Python raises.
    fails = ctypes.cast(ctypes.pythonapi.PyObject_Hash, c_void_p).value
    library.table.tensor_from_object = _FROM_OBJECT(fails)
    with pytest.raises(BufferError, match=r"^WithoutStorage object: no storage$"):
        exchange_in(library.capsule, True).look(WithoutStorage())
