"""Dtypes that a device can hold, and which bytes of an element their fields take."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage.runtime.geometry import dtypes

PAIR = np.dtype([("number", "i4"), ("weights", "f8", (2, 3))])
GAPS = np.dtype({"names": ["a", "b"], "formats": ["i1", "f4"], "offsets": [2, 8], "itemsize": 16})


@pytest.mark.parametrize("given", ["f4", ">i8", "M8[s]", "S3", "?", PAIR, GAPS, float, np.int16])
def test_plain_bytes_are_taken(given):
    assert dtypes.check_dtype(given) == np.dtype(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object, "a device cannot hold Python objects"),
        ([("a", "i4"), ("b", "O")], "a device cannot hold Python objects"),
        ("no such name", "data type 'no such name' not understood"),
        ("f4,(", "NumPy knows no such dtype"),
    ],
)
def test_what_no_device_holds_is_a_type_error(given, message):
    with pytest.raises(TypeError, match=message):
        dtypes.check_dtype(given)


@pytest.mark.parametrize(
    ("given", "constant"),
    [("f4", True), (np.dtype("f4"), True), (np.float32, True), (int, True), ([("a", "i4")], False)],
)
def test_what_always_means_one_dtype(given, constant):
    assert dtypes.is_constant(given) is constant
    assert not dtypes.is_constant(type("Mine", (), {"dtype": "f4"}))


def test_fields_are_found_by_name_title_and_number():
    titled = np.dtype([(("Title", "x"), "i4"), ("y", "f8")])
    assert dtypes.field(titled, "Title") == dtypes.field(titled, "x") == (np.dtype("i4"), 0)
    assert dtypes.field(PAIR, "weights") == (np.dtype(("f8", (2, 3))), 4)
    assert [dtypes.numbered(PAIR, number) for number in (0, 1, -1)] == [*PAIR.names, "weights"]
    with pytest.raises(ValueError, match="no field of name 'z'; the fields are x, y"):
        dtypes.field(titled, "z")
    with pytest.raises(ValueError, match="dtype int32 has no fields"):
        dtypes.field(np.dtype("i4"), "z")
    with pytest.raises(IndexError, match="a record of 2 fields"):
        dtypes.numbered(PAIR, 2)


def test_some_fields_are_where_they_were():
    some = dtypes.chosen(PAIR, ["weights"])
    assert (some.itemsize, dtypes.field(some, "weights")[1]) == (PAIR.itemsize, 4)
    assert dtypes.parts(some) == ((4, 48),)
    with pytest.raises(KeyError, match="no field of name 'z'"):
        dtypes.chosen(PAIR, ["number", "z"])
    assert dtypes.is_names(["number"])
    assert not any(map(dtypes.is_names, ([], "number", ("number",), [0])))


def test_parts_are_what_the_fields_take():
    assert dtypes.parts(np.dtype("f8")) is dtypes.parts(PAIR) is None
    assert dtypes.parts(GAPS) == ((2, 1), (8, 4))
    assert dtypes.parts(np.dtype([("inner", GAPS, (2,))])) == ((2, 1), (8, 4), (18, 1), (24, 4))
    overlapping = {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2], "itemsize": 8}
    assert dtypes.parts(np.dtype(overlapping)) == ((0, 6),)


@settings(max_examples=100, deadline=None)
@given(hnp.nested_dtypes())
def test_no_byte_of_a_part_is_between_fields(dtype):
    parts = dtypes.parts(dtype)
    taken = np.zeros(dtype.itemsize, bool)

    def mark(kind, offset):
        for start in range(offset, offset + kind.itemsize, max(kind.base.itemsize, 1)):
            if kind.base.names is None:
                taken[start : start + kind.base.itemsize] = True
            else:
                for name in kind.base.names:
                    field, place = kind.base.fields[name][:2]
                    mark(field, start + place)

    mark(dtype, 0)
    told = np.zeros(dtype.itemsize, bool)
    for start, nbytes in ((0, dtype.itemsize),) if parts is None else parts:
        told[start : start + nbytes] = True
    assert (told == taken).all()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["i1", "i4", "f8", "c16", PAIR]), st.data())
def test_elements_are_aligned_as_numpy_has_it(dtype, data):
    memory = np.zeros(4096, np.uint8)
    dtype = np.dtype(dtype)
    start = data.draw(st.integers(0, 32))
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=3))
    strides = tuple(dtype.itemsize + data.draw(st.integers(0, 16)) for _ in shape)
    array = np.ndarray(shape, dtype, memory, start, strides)
    found = dtypes.is_aligned(dtype, array.ctypes.data, shape, strides)
    assert found is bool(array.flags.aligned)


def test_fields_are_described_for_people():
    assert dtypes.described(PAIR) == "number: int32, weights: float64 (2, 3)"
    assert (
        dtypes.described(np.dtype([("in", PAIR)])) == "in: (number: int32, weights: float64 (2, 3))"
    )


def test_what_the_array_interface_cannot_tell():
    backwards = {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]}
    assert dtypes.has_description(PAIR)
    assert not dtypes.has_description(np.dtype(backwards))
