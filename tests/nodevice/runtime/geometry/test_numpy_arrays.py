"""NumPy's arrays: where their elements are, and what is made one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage.runtime.geometry import numpy_arrays


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_address_is_that_of_the_first_element(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    array = np.zeros(
        shape,
        data.draw(st.sampled_from(["i1", "f8", ">f8", "M8[s]", "S3", "U2", "i4,f8", "O", "V0"])),
    )
    view = np.asarray(array[data.draw(hnp.basic_indices(shape))])
    if data.draw(st.booleans()):
        view.flags.writeable = False
    assert numpy_arrays.address_of(view) == view.ctypes.data
    low, high = numpy_arrays.bounds(view)
    assert high - low >= view.nbytes or not view.size
    assert low <= view.ctypes.data <= high


class Listed:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, n):
        return self.items[n]


def test_what_numpy_makes_an_array_of_is_one():
    array = np.arange(3)
    assert numpy_arrays.host_array(array) is array
    assert numpy_arrays.host_array([1, 2]).tolist() == [1, 2]
    assert numpy_arrays.host_array(3.5).shape == ()
    assert numpy_arrays.host_array(Listed([1, 2])).tolist() == [1, 2]
    with pytest.raises(TypeError, match="object object: expected an array"):
        numpy_arrays.host_array(object())
    with pytest.raises(TypeError, match="would lose its mask"):
        numpy_arrays.host_array(np.ma.array([1, 2], mask=[0, 1]))


def test_values_are_converted_as_numpy_assigns_them():
    array = np.arange(3, dtype=np.int16)
    assert numpy_arrays.converted(array, array.dtype) is array
    assert numpy_arrays.converted([1.9, 2], np.dtype("i4")).tolist() == [1, 2]
    assert numpy_arrays.converted(np.array([1.9, -1.9]), np.dtype("i4")).tolist() == [1, -1]
    assert numpy_arrays.converted(np.float32(2.5), np.dtype("f8")).dtype == np.float64
    with pytest.raises(ValueError, match="could not convert"):
        numpy_arrays.converted(np.array(["x"]), np.dtype("f8"))
