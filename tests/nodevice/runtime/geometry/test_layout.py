"""Shape and stride arithmetic against NumPy."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage.runtime.geometry import layout

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
filled_shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4)
slices = st.slices(6)


def address(array):
    return array.__array_interface__["data"][0]


@st.composite
def views(draw, base_shapes=filled_shapes):
    """An array that may be transposed, stepped and flipped."""
    shape = draw(base_shapes)
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1]))) for _ in array.shape)
    return array[(*steps, ...)]


@given(filled_shapes, st.sampled_from("CF"))
def test_strides_of_new_arrays_are_numpys(shape, order):
    assert layout.order_strides(shape, 8, order) == np.empty(shape, order=order).strides


@given(views(shapes))
def test_contiguity_flags_are_numpys(array):
    shape, strides = array.shape, array.strides
    assert layout.is_c_contiguous(shape, strides, 4) == array.flags.c_contiguous
    assert layout.is_f_contiguous(shape, strides, 4) == array.flags.f_contiguous
    letter = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "A"
    assert layout.layout_letter(shape, strides, 4) == letter


@given(views(shapes))
def test_extent_holds_every_element_and_no_more(array):
    low, high = np.lib.array_utils.byte_bounds(array)
    if array.size:
        expected = (low - address(array), high - address(array))
        assert layout.extent(array.shape, array.strides, 4) == expected
    else:
        assert layout.extent(array.shape, array.strides, 4) == (0, 0)


@given(views())
def test_dense_strides_are_those_of_empty_like(array):
    dense = layout.dense_strides(array.shape, array.strides, 4)
    low, high = layout.extent(array.shape, dense, 4)
    assert (low, high) == (0, array.nbytes)
    assert dense == np.empty_like(array).strides or 1 in array.shape


@settings(max_examples=400)
@given(st.data())
def test_basic_indexing_is_numpys(data):
    array = data.draw(views(shapes))
    key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))
    expected = array[key]
    offset, shape, strides, one = layout.index(array.shape, array.strides, key)
    assert one == (not isinstance(expected, np.ndarray))
    assert shape == np.shape(expected)
    if one:
        assert expected == np.ndarray((), np.int32, _memory(array), _start(array) + offset)[()]
    elif expected.size:
        assert offset == address(expected) - address(array)
        moved = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
        wanted = [(n, s) for n, s in zip(shape, expected.strides, strict=True) if n != 1]
        assert moved == wanted


def _memory(array):
    while array.base is not None:
        array = array.base
    return array.data


def _start(array):
    base = array
    while base.base is not None:
        base = base.base
    return address(array) - address(base)


def test_indexing_takes_numpy_integers_and_partial_keys():
    assert layout.index((4, 5), (20, 4), np.int8(-1)) == (60, (5,), (4,), False)
    assert layout.index((4, 5), (20, 4), (1, np.uint64(2))) == (28, (), (), True)
    assert layout.index((4, 5), (20, 4), (1, 2, ...)) == (28, (), (), False)
    assert layout.index((), (), ()) == (0, (), (), True)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (4, "out of bounds for axis 0 with size 4"),
        ((0, -6), "out of bounds for axis 1 with size 5"),
        ((0, 0, 0), "too many indices: the array has 2 axes, 3"),
        ((..., ...), "one Ellipsis"),
        (1.0, "float"),
        ("x", "str"),
        (True, "Boolean mask"),
        (np.ones(4, bool), "Boolean mask.*copy_to_host"),
        (np.arange(2), "index array.*copy_to_host"),
        ([0, 1], "index array.*copy_to_host"),
    ],
)
def test_wrong_keys_say_what_is_wrong(key, message):
    with pytest.raises(IndexError, match=message):
        layout.index((4, 5), (20, 4), key)


def test_indexing_a_huge_array_takes_no_longer():
    n = 10**15
    assert layout.index((n,), (8,), slice(None, None, 2))[1] == (n // 2,)
    assert layout.extent((n, n), (8, -16), 8) == (-16 * (n - 1), 8 * n)


@given(views(shapes), st.data())
def test_reshape_shares_memory_exactly_where_numpy_does(array, data):
    order = data.draw(st.sampled_from("CF"))
    new_shape = data.draw(_factorings(array.size))
    strides = layout.reshape(array.shape, array.strides, 4, new_shape, order)
    expected = array.reshape(new_shape, order=order)
    shared = np.shares_memory(array, expected) if array.size else strides is not None
    assert (strides is not None) == shared
    if strides is not None and array.size:
        shown = np.lib.stride_tricks.as_strided(array, new_shape, strides)
        np.testing.assert_array_equal(shown, expected)


@st.composite
def _factorings(draw, size):
    if size == 0:
        return draw(st.sampled_from([(0,), (3, 0), (0, 1)]))
    shape, left = [], size
    while left > 1:
        shape.append(draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0])))
        left //= shape[-1]
    for _ in range(draw(st.integers(0, 3))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(shape)


@pytest.mark.parametrize("shape", [(-1,), (3, -1), (-1, 4), (12,), (2, 2, 3)])
def test_one_axis_of_a_new_shape_may_be_left_open(shape):
    assert layout.resolve_shape(12, shape) == np.empty(12).reshape(shape).shape


@pytest.mark.parametrize("shape", [(5,), (-1, 5), (-1, -1), (0, -1), (-2, -6), (12, 0)])
def test_new_shapes_of_another_size_are_refused(shape):
    with pytest.raises(ValueError, match=r"-1|changes the size"):
        layout.resolve_shape(12, shape)


@given(views(), st.data())
def test_transpose_is_numpys(array, data):
    axes = data.draw(st.none() | st.permutations(range(array.ndim)))
    expected = array.transpose(axes)
    assert layout.transpose(array.shape, array.strides, axes) == (expected.shape, expected.strides)


@pytest.mark.parametrize("axes", [(0, 0), (0,), (0, 2), (0, -3), (0, 1, 1)])
def test_transpose_refuses_other_axes_with_numpys_words(axes):
    with pytest.raises(ValueError, match="ax") as numpys:
        np.zeros((2, 3)).transpose(axes)
    with pytest.raises(ValueError, match=re.escape(str(numpys.value))) as ours:
        layout.transpose((2, 3), (12, 4), axes)
    said = str(ours.value) + "".join(getattr(ours.value, "__notes__", ()))
    assert f"axes {axes}: expected each of the 2 axes once" in said


@given(hnp.mutually_broadcastable_shapes(num_shapes=1, max_dims=3, max_side=3))
def test_broadcast_strides_are_numpys(shapes_):
    source, to = shapes_.input_shapes[0], shapes_.result_shape
    to = (2, *to)
    array = np.zeros(source, np.int16)
    expected = np.broadcast_to(array, to)
    strides = layout.broadcast(source, array.strides, to)
    assume(array.size)
    shown = [s for n, s in zip(to, strides, strict=True) if n != 1]
    assert shown == [s for n, s in zip(to, expected.strides, strict=True) if n != 1]


def test_broadcast_drops_leading_ones_as_assignment_does():
    assert layout.broadcast((1, 1, 3), (12, 12, 4), (3,)) == (4,)


@pytest.mark.parametrize(
    ("source", "to"), [((2, 3), (3,)), ((2,), (3, 4)), ((1, 1, 2, 3), (3, 4)), ((3,), ())]
)
def test_broadcast_refuses_shapes_with_numpys_words(source, to):
    array = np.zeros(source)
    with pytest.raises(ValueError, match="broadcast") as numpys:
        np.zeros(to)[...] = array
    with pytest.raises(ValueError, match="broadcast") as ours:
        layout.broadcast(source, array.strides, to)
    assert str(ours.value) == str(numpys.value)


def test_squeeze_is_numpys_and_names_a_wrong_axis():
    assert layout.squeeze((1, 3, 1), (12, 4, 4)) == ((3,), (4,))
    assert layout.squeeze((1, 3, 1), (12, 4, 4), -1) == ((1, 3), (12, 4))
    assert layout.squeeze((1, 3, 1), (12, 4, 4), (0, 2)) == ((3,), (4,))
    for axis in (1, 3, (0, 0)):
        with pytest.raises(ValueError, match="cannot squeeze"):
            layout.squeeze((1, 3, 1), (12, 4, 4), axis)


@given(views(), st.data())
def test_coalesced_axes_pair_the_same_elements(source, data):
    target = np.zeros(source.shape, np.int32, order=data.draw(st.sampled_from("CF")))
    shape, to, of = layout.coalesce(source.shape, target.strides, source.strides)
    left = np.lib.stride_tricks.as_strided(target, shape, to)
    left[...] = np.lib.stride_tricks.as_strided(source, shape, of)
    np.testing.assert_array_equal(target, source)
    if target.flags.c_contiguous and source.flags.c_contiguous:
        assert len(shape) <= 1


def test_shapes_are_numbers_or_tuples_of_numbers():
    assert layout.normalise_shape(np.int64(3)) == (3,)
    assert layout.normalise_shape([2, 3]) == (2, 3)
    with pytest.raises(ValueError, match="negative"):
        layout.normalise_shape((2, -1))
    with pytest.raises(TypeError, match="whole number"):
        layout.normalise_shape((2.0, 1))
    with pytest.raises(ValueError, match="'C' or 'F'"):
        layout.order_strides((2,), 4, "Q")
