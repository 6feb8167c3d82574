"""pandas: its columns as sources of copies, and what kernels say of them."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import CompileError, LaunchError
from support.neighbours import neighbour

pandas = neighbour("pandas")


@pytest.fixture(autouse=True)
def on_the_processor():
    with haulage.use("cpu"):
        yield


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def double_into(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


NUMBERS = {
    "series": lambda: pandas.Series([0.0, 1.0, 2.0]),
    "index": lambda: pandas.Index([0.0, 1.0, 2.0]),
    "range": lambda: pandas.RangeIndex(3),
    "nullable": lambda: pandas.Series([0, 1, 2], dtype="Int64"),
    "nullable array": lambda: pandas.array([0, 1, 2], dtype="Int64"),
    "categorical": lambda: pandas.Series([0, 1, 2], dtype="category"),
    "sparse": lambda: pandas.Series(pandas.arrays.SparseArray([0.0, 1.0, 2.0])),
}


@pytest.mark.parametrize("make", NUMBERS.values(), ids=NUMBERS)
def test_copies_take_numbers_as_numpy_does(make):
    given = make()
    array = cuda.to_device(given)
    assert array.dtype == np.asarray(given).dtype
    assert array.copy_to_host().tolist() == [0, 1, 2]
    array[...] = 0
    array[1:] = make()[1:]
    assert array.copy_to_host().tolist() == [0, 1, 2]
    smart = haulage.SmartArray(given)
    add_one[1, 3](smart)
    assert smart.tolist() == [1, 2, 3]
    assert list(given) == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["double[pyarrow]", "int64[pyarrow]"])
def test_columns_of_pyarrow_are_copied_too(dtype):
    neighbour("pyarrow")
    assert cuda.to_device(pandas.Series([0, 1], dtype=dtype)).copy_to_host().tolist() == [0, 1]
    missing = cuda.to_device(pandas.Series([0, None], dtype=dtype)).copy_to_host()
    assert np.array_equal(missing, [0, np.nan], equal_nan=True)


def test_a_missing_number_becomes_nan_as_in_numpy():
    array = cuda.to_device(pandas.Series([1, None, 3], dtype="Int64"))
    assert np.array_equal(array.copy_to_host(), [1, np.nan, 3], equal_nan=True)


def test_frames_of_numbers_are_tables():
    frame = pandas.DataFrame({"a": [0.0, 1.0], "b": [2, 3]})
    assert cuda.to_device(frame).copy_to_host().tolist() == [[0, 2], [1, 3]]
    assert haulage.SmartArray(frame).tolist() == [[0, 2], [1, 3]]


def test_dates_and_durations_keep_their_unit():
    dates = pandas.Series(pandas.date_range("2020", periods=2))
    array = cuda.to_device(dates)
    assert array.dtype == dates.dtype
    assert array.copy_to_host()[1] == np.datetime64("2020-01-02")
    assert cuda.to_device(dates - dates[0]).dtype.kind == "m"


@pytest.mark.parametrize(
    "make",
    [
        lambda: pandas.Series(["a", "b"]),
        lambda: pandas.Series(list("ab"), dtype="category"),
        lambda: pandas.Series([True, None], dtype="boolean"),
        lambda: pandas.Series(pandas.date_range("2020", periods=2, tz="UTC")),
        lambda: pandas.DataFrame({"a": [0.0], "b": ["x"]}),
    ],
    ids=["text", "categories of text", "missing truth", "time zones", "mixed"],
)
def test_what_numpy_makes_python_objects_of_is_refused(make):
    with pytest.raises(TypeError, match="without Python objects"):
        cuda.to_device(make())
    with pytest.raises(TypeError, match="cannot hold Python objects"):
        haulage.SmartArray(make())


@pytest.mark.parametrize("make", [*NUMBERS.values()], ids=NUMBERS)
def test_a_kernel_wants_the_array(make):
    hint = r"give (the array of its \.to_numpy\(\)|np\.array\(\.\.\.\) of it)"
    with pytest.raises(LaunchError, match=hint):
        add_one[1, 3](make())


def test_the_array_of_a_column_is_read_where_it_is_and_is_not_written_to():
    column = pandas.Series(np.arange(3.0))
    values, out = column.to_numpy(), np.zeros(3)
    assert np.shares_memory(values, column.to_numpy())
    double_into[1, 3](values, out)
    assert out.tolist() == [0, 2, 4]
    with pytest.raises(CompileError, match=r"x is a readonly array.*give the kernel a copy"):
        add_one[1, 3](values)
    copied = column.to_numpy(copy=True)
    add_one[1, 3](copied)
    assert (copied.tolist(), column.tolist()) == ([1, 2, 3], [0, 1, 2])


def test_columns_are_made_of_our_arrays():
    array = cuda.to_device(np.arange(3.0))
    assert pandas.Series(array.copy_to_host()).tolist() == [0, 1, 2]
    assert pandas.Series(haulage.SmartArray(array)).tolist() == [0, 1, 2]
