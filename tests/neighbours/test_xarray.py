"""xarray: arrays out of it, and SmartArrays in it."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import LaunchError
from support.neighbours import neighbour

xarray = neighbour("xarray")


@pytest.fixture(autouse=True)
def on_the_processor():
    with haulage.use("cpu"):
        yield


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@pytest.fixture
def labelled():
    return xarray.DataArray(np.arange(4.0), dims="x", coords={"x": [10, 20, 30, 40]})


@pytest.mark.parametrize("take", [lambda a: a, lambda a: a.variable], ids=["array", "variable"])
def test_copies_take_labelled_arrays(labelled, take):
    given = take(labelled)
    array = cuda.to_device(given)
    assert (array.dtype, array.copy_to_host().tolist()) == (np.float64, [0, 1, 2, 3])
    array[...] = 0
    array.copy_to_device(given)
    array[:2] = given[2:]
    assert array.copy_to_host().tolist() == [2, 3, 2, 3]
    smart = haulage.SmartArray(given)
    add_one[1, 4](smart)
    assert smart.tolist() == [1, 2, 3, 4]
    assert labelled.values.tolist() == [0, 1, 2, 3]


def test_a_kernel_wants_the_array_and_writes_to_it_in_place(labelled):
    with pytest.raises(LaunchError, match=r"of type DataArray; give the array of its \.to_numpy"):
        add_one[1, 4](labelled)
    for own in (labelled.data, labelled.to_numpy(), labelled.values):
        add_one[1, 4](own)
    assert labelled.values.tolist() == [3, 4, 5, 6]


def test_a_data_set_is_several_arrays(labelled):
    with pytest.raises(TypeError, match="Dataset"):
        cuda.to_device(xarray.Dataset({"a": labelled}))


def test_a_smart_array_stays_one_in_a_labelled_array():
    smart = haulage.SmartArray(np.arange(6.0).reshape(2, 3))
    labelled = xarray.DataArray(smart, dims=("y", "x"), coords={"x": [1, 2, 3]})
    assert labelled.data is smart
    part = labelled.isel(y=1)
    assert type(part.data) is haulage.SmartArray
    add_one[1, 4](part.data)
    assert labelled.sel(x=2).values.tolist() == [1, 5]
    assert labelled.sum().item() == 18
    assert labelled.mean("y").values.tolist() == [2, 3, 4]
    assert type((labelled + 1).data) is np.ndarray
    assert (labelled + 1).values.tolist() == (smart + 1).tolist()
    assert type(labelled.T.data) is haulage.SmartArray


def test_a_device_array_is_copied_into_a_labelled_array():
    array = cuda.to_device(np.arange(4.0))
    labelled = xarray.DataArray(array, dims="x")
    assert type(labelled.data) is np.ndarray
    labelled[0] = 9
    assert array[0] == 0
