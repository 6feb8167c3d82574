"""Argument blocks, against `struct`."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage._core.packing import Packer, integer_of

HEADER = bytes(range(16))
SIGNED, UNSIGNED, FLOATS = "bhiq", "BHIQ", "efd"


def packer(letters, header=HEADER, same=False):
    fields, before = [], "@"
    for letter in letters:
        before += letter
        nbytes = struct.calcsize(letter)
        kind = "i" if letter in SIGNED else "u" if letter in UNSIGNED else "f"
        fields.append((kind, struct.calcsize(before) - nbytes, nbytes, same))
    return Packer(header, fields)


def value_for(letter):
    if letter in FLOATS:
        return st.floats(width={"e": 16, "f": 32, "d": 64}[letter]) | st.integers(-1000, 1000)
    bits = 8 * struct.calcsize(letter)
    if letter in SIGNED:
        return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) | st.booleans()
    return st.integers(0, (1 << bits) - 1) | st.booleans()


@st.composite
def blocks(draw):
    letters = draw(st.lists(st.sampled_from(SIGNED + UNSIGNED + FLOATS), max_size=12))
    return "".join(letters), [draw(value_for(letter)) for letter in letters]


@given(blocks())
def test_a_block_is_what_struct_makes_of_it(block):
    letters, values = block
    assert packer(letters)(values) == HEADER + struct.pack(f"@{letters}", *values)


@pytest.mark.parametrize("letter", SIGNED + UNSIGNED)
def test_an_int_outside_of_its_field_does_not_fit(letter):
    bits = 8 * struct.calcsize(letter)
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if letter in SIGNED else (0, 1 << bits)
    pack = packer(letter)
    assert pack([low]) is not None
    assert pack([high - 1]) is not None
    for value in (low - 1, high, 1 << 64, -(1 << 63) - 1, 1 << 200, 1.0, None, "1", b"1"):
        assert pack([value]) is None


@pytest.mark.parametrize("letter", FLOATS)
def test_a_float_that_would_be_infinite_does_not_fit(letter):
    pack = packer(letter)
    assert pack([float("inf")]) == HEADER + struct.pack(letter, float("inf"))
    greatest = {"e": 65504.0, "f": 3.4028234663852886e38, "d": 1.7976931348623157e308}[letter]
    assert pack([greatest]) is not None
    if letter != "d":
        assert pack([2 * greatest]) is None
    for value in (10**400, None, "1.0", 1j):
        assert pack([value]) is None


@pytest.mark.parametrize("letter", "bhiqBHIQefd")
def test_numpy_s_scalars_are_numbers(letter):
    value = np.dtype(letter).type(7)
    for same in (False, True):
        assert packer(letter, same=same)([value]) == HEADER + struct.pack(letter, 7)


def test_complex_numbers():
    narrow, wide = (Packer(b"", [("c", 0, nbytes, False)]) for nbytes in (8, 16))
    for value in (1 - 2j, np.complex64(1 - 2j), np.complex128(1 - 2j)):
        assert narrow([value]) == struct.pack("ff", 1, -2)
        assert wide([value]) == struct.pack("dd", 1, -2)
    for value in (-1, -1.0, np.float32(-1), np.int16(-1), complex(-1, 0)):
        assert wide([value]) == struct.pack("dd", -1, 0)
    assert narrow([complex("inf")]) == struct.pack("ff", float("inf"), 0)
    assert narrow([1e300j]) == struct.pack("ff", 0, float("inf"))  # as in NumPy and C
    for value in (None, "1j", b"1j"):
        assert narrow([value]) is None


@pytest.mark.parametrize(
    "value",
    [
        *(np.bool_(True), np.float16(-2.5), np.float32(3.25), np.float64(1e300), np.int8(-3)),
        *(np.uint64(2**64 - 1), np.complex64(1 - 2j), np.complex128(3 + 4j), np.longlong(-5)),
    ],
    ids=lambda value: value.dtype.name,
)
def test_scalars_of_the_field_s_own_dtype_are_copied(value):
    kind = {"b": "u", "i": "i", "u": "u", "f": "f", "c": "c"}[value.dtype.kind]
    pack = Packer(b"", [(kind, 0, value.dtype.itemsize, True)])
    assert pack([value]) == value.tobytes()


def test_the_bits_of_a_datetime():
    assert integer_of(np.datetime64(-5, "s")) == -5
    assert integer_of(np.timedelta64(2**60, "ns")) == 2**60
    with pytest.raises(TypeError, match="8 bytes"):
        integer_of(np.float32(1))


def test_bytes_are_put_down_as_they_are():
    pack = Packer(b"", [("s", 0, 3, False), ("u", 8, 8, False), ("s", 16, 0, False)])
    assert pack([b"abc", 5, b""]) == b"abc" + bytes(5) + struct.pack("Q", 5)
    for field in (b"ab", b"abcd", bytearray(b"abc"), "abc", 3):
        assert pack([field, 5, b""]) is None


def test_each_field_has_one_value():
    pack = packer("ii")
    assert pack([1]) is None
    assert pack([1, 2, 3]) is None
    assert Packer(HEADER, [])([]) == HEADER


def test_an_index_of_its_own_is_an_int_and_its_error_is_told():
    class Index:
        def __index__(self):
            return 3

    class Wrong:
        def __index__(self):
            raise KeyError("mine")

    assert packer("i")([Index()]) == HEADER + struct.pack("i", 3)
    with pytest.raises(KeyError, match="mine"):
        packer("i")([Wrong()])
