"""Views of a SmartArray: one storage, of which only what is used is moved."""

import operator
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haulage import SmartArray, cuda

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def double_2d(a):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        a[i, j] *= 2


@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b[i]


def numbers(n=20):
    return np.arange(n, dtype=np.float32)


def moves(a):
    return [("down" if t.target == "host" else "up", t.nbytes) for t in a.coherence.transfers]


def test_a_kernel_that_is_given_a_slice_moves_that_and_changes_the_whole():
    a = SmartArray(numbers())
    double[1, 32](a[5:9])
    assert moves(a) == [("up", 16)]
    expected = numbers()
    expected[5:9] *= 2
    np.testing.assert_array_equal(a, expected)
    assert moves(a) == [("up", 16), ("down", 16)]
    double[1, 32](a)  # the rest was there never
    assert moves(a) == [("up", 16), ("down", 16), ("up", 20), ("up", 44)]
    np.testing.assert_array_equal(a[2:4], [4, 6])
    assert moves(a)[4:] == [("down", 8)]


def test_host_and_device_write_to_different_parts_and_lose_nothing():
    a, expected = SmartArray(numbers()), numbers()
    double[1, 32](a)
    expected *= 2
    a[:5] = expected[:5] = 7
    double[1, 32](a[10:])
    expected[10:] *= 2
    a[5:7] = expected[5:7] = 8
    assert moves(a) == [("up", 80)]
    np.testing.assert_array_equal(a, expected)
    assert moves(a) == [("up", 80), ("down", 52)]
    double[1, 32](a)
    assert moves(a)[2:] == [("up", 28)]


VIEWS = {
    "slice": lambda a: a[1:3],
    "row": lambda a: a[2],
    "column": lambda a: a[:, 1],
    "backwards": lambda a: a[::-1, ::2],
    "newaxis": lambda a: a[..., None, 1:],
    "ellipsis": lambda a: a[...],
    "T": lambda a: a.T,
    "mT": lambda a: a.mT,
    "transpose": lambda a: a.transpose(1, 0),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "reshape": lambda a: a.reshape(2, -1),
    "reshape of a tuple": lambda a: a.reshape((4, 3)),
    "ravel": lambda a: a.ravel(),
    "squeeze": lambda a: a[None].squeeze(0),
    "view": lambda a: a.view(np.int32),
    "real": lambda a: a.real,
    "np.transpose": np.transpose,
    "reshape of an array": lambda a: a.reshape(np.array([2, 6])),
    "np.reshape": lambda a: np.reshape(a, (3, 4)),
    "np.reshape by name": lambda a: np.reshape(a, shape=(3, 4), order="C", copy=False),
    "np.ravel": np.ravel,
    "np.squeeze": np.squeeze,
    "np.swapaxes": lambda a: np.swapaxes(a, 0, 1),
    "np.moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "np.expand_dims": lambda a: np.expand_dims(a, 1),
    "np.flip": np.flip,
    "np.rot90": np.rot90,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_moves_nothing_and_what_is_written_through_it_is_the_arrays(name, device):
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    a, expected = SmartArray(values), values.copy()
    double_2d[(1, 1), (8, 8)](a)
    expected *= 2
    view, like = VIEWS[name](a), VIEWS[name](expected)
    assert moves(a) == [("up", 48)]
    assert type(view) is SmartArray
    assert view.coherence is a.coherence
    assert (view.shape, view.strides, view.dtype) == (like.shape, like.strides, like.dtype)
    assert (view.flags.c_contiguous, view.flags.aligned) == (like.flags.c_contiguous, True)
    np.testing.assert_array_equal(view, like)
    view[...] = like[...] = 5
    np.testing.assert_array_equal(a, expected)
    if view.ndim == 2 and view.dtype == np.float32:
        double_2d[(1, 1), (8, 8)](view)
        like *= 2
    view += 1
    like += 1
    np.testing.assert_array_equal(a, expected)
    assert repr(view).endswith("current on host>")


def test_several_views_at_once():
    a = SmartArray(numbers(12))
    first, second = np.split(a, 2)
    double[1, 32](second)
    assert moves(a) == [("up", 24)]
    np.testing.assert_array_equal(np.concatenate([first, second]), [*range(6), *range(12, 24, 2)])
    rows = list(a.reshape(3, 4))
    assert all(type(row) is SmartArray for row in rows)
    rows[1][0] = 100
    assert a[4] == 100


def test_what_is_no_view_in_numpy_is_a_copy():
    a = SmartArray(np.arange(12.0).reshape(4, 3))
    for copied in (a.T.reshape(12), a.T.ravel(), a[[0, 1]], a[a > 3], a.reshape(12, copy=True)):
        assert type(copied) is np.ndarray
        copied[...] = 99
    with pytest.raises(ValueError, match="needs a copy"):
        a.T.reshape(12, copy=False)
    with pytest.raises(ValueError, match="order='X'"):
        a.reshape(12, order="X")
    with pytest.raises(ValueError, match="reshape"):
        a.reshape(5, 5)
    with pytest.raises(IndexError):
        a[7]
    with pytest.raises(IndexError):
        a[0, 0, 0]
    np.testing.assert_array_equal(a, np.arange(12.0).reshape(4, 3))


def test_a_view_of_a_class_of_numpys_is_the_hosts():
    a = SmartArray(np.zeros(3, "i4,f8"))
    for seen in (a.view(np.recarray), a.view(type=np.recarray)):
        assert type(seen) is np.recarray
        assert not seen.flags.writeable
    assert type(a.view("i4,i8")) is SmartArray


def test_fields_are_views():
    kind = np.dtype([("x", "i4"), ("y", "f8", 2)])
    a, expected = SmartArray(shape=3, dtype=kind), np.zeros(3, kind)
    a["x"] = expected["x"] = [1, 2, 3]
    a["y"] = expected["y"] = 4.5
    a[1:]["x"][0] = expected[1:]["x"][0] = 9
    assert a["x"].strides == (20,)
    assert a["y"].shape == (3, 2)
    assert not a["y"].flags.aligned
    np.testing.assert_array_equal(np.asarray(a), expected)
    np.testing.assert_array_equal(np.asarray(a[["x"]])["x"], expected["x"])
    with pytest.raises(ValueError, match="no field"):
        a["z"]


def test_an_operator_in_place_on_a_slice():
    a, expected = SmartArray(numbers()), numbers()
    double[1, 32](a)
    expected *= 2
    a[2:4] += 1
    expected[2:4] += 1
    assert moves(a) == [("up", 80), ("down", 8)]
    a[1:] = a[:-1]
    expected[1:] = expected[:-1]
    np.testing.assert_array_equal(a, expected)


def test_an_element_brings_its_neighbours_and_not_all_of_a_large_array():
    a = SmartArray(np.zeros(1 << 16, np.float32))
    double[1 << 8, 256](a)
    for i in range(20_000, 20_010):
        assert a[i] == 0
    assert moves(a) == [("up", 1 << 18), ("down", 1 << 16)]
    a[7] = 3
    assert moves(a)[2:] == []
    double[1 << 8, 256](a)
    assert moves(a)[2:] == [("up", 4)]
    assert a[7] == 6


def test_an_element_that_is_there_brings_nothing():
    a = SmartArray(numbers())
    double[1, 32](a[10:])
    assert (a[3], a[9]) == (3, 9)
    assert moves(a) == [("up", 40)]


def test_many_places_are_moved_together():
    n = 2000
    a, expected = SmartArray(numbers(n)), numbers(n)
    double[8, 256](a)
    expected *= 2
    for i in range(0, n, 2):
        a[i] = expected[i] = 1
    before = len(moves(a))
    assert before <= 70
    double[8, 256](a)
    expected *= 2
    assert len(moves(a)) <= before + 8
    np.testing.assert_array_equal(a, expected)


def test_views_of_views_have_one_storage_which_lives_as_long():
    a = SmartArray(numbers())
    view = a[2:][::2][1:4]
    double[1, 32](a)
    del a
    np.testing.assert_array_equal(view, [8, 12, 16])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view)), [8, 12, 16])
    again = SmartArray(view, copy=False)
    again[0] = 1
    assert view[0] == 1
    np.testing.assert_array_equal(SmartArray(view), [1, 12, 16])


def test_two_arguments_can_be_parts_of_one_storage():
    a = SmartArray(numbers())
    add[1, 32](a[:5], a[10:15])
    np.testing.assert_array_equal(a[:5], [10, 12, 14, 16, 18])
    add[1, 32](a[3:8], a[3:8])
    np.testing.assert_array_equal(a[3:8], [32, 36, 10, 12, 14])


def test_device_arrays_of_views():
    a = SmartArray(numbers())
    there = a[4:8].get("gpu")
    np.testing.assert_array_equal(there.copy_to_host(), [4, 5, 6, 7])
    there[1] = 50
    a[4:8].mark_changed("gpu")
    assert a[5] == 50
    assert moves(a) == [("up", 16), ("down", 16)]
    protected = a.get("gpu", "r")
    with pytest.raises(ValueError, match="read-only"):
        protected[0] = 1
    with pytest.raises(ValueError, match="on a device expected 'r' or 'rw'"):
        a.get("gpu", "w")


KEYS = st.tuples(
    st.slices(6), st.one_of(st.slices(5), st.integers(0, 4), st.just(...), st.just(None))
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kernel", "stream", "set", "add", "look", "lease", "write", "T"]),
            KEYS,
            st.integers(0, 9),
        ),
        max_size=10,
    )
)
def test_any_views_in_any_order_are_as_those_of_one_numpy_array(device, steps):
    oracle = np.arange(30, dtype=np.float32).reshape(6, 5)
    a = SmartArray(oracle)
    stream, held = cuda.stream(), []
    for what, key, number in steps:
        view, like = a[key], oracle[key]
        if what in ("kernel", "stream", "T"):
            view, like = (view.T, like.T) if what == "T" else (view, like)
            if view.ndim == 2 and view.size:
                held.clear()
                double_2d[(1, 1), (8, 8), stream if what == "stream" else 0](view)
                like *= 2
        elif what == "set":
            view[...] = like[...] = number
        elif what == "add":
            view += number
            like += number
        elif what == "look":
            np.testing.assert_array_equal(view, like)
        elif what == "lease":
            view.get()[...] = like[...] = number
        else:
            held.append(view.get())
            held[-1][...] = like[...] = number
    np.testing.assert_array_equal(a, oracle)


def test_the_methods_for_elements_in_place_work_on_views():
    a, expected = SmartArray(numbers()[::-1].copy()), numbers()[::-1].copy()
    double[1, 32](a)
    expected *= 2
    a[5:10].sort()
    expected[5:10].sort()
    np.negative(a[:3], out=a[:3])
    np.negative(expected[:3], out=expected[:3])
    operator.setitem(a, slice(12, None, 3), [1, 2, 3])
    expected[12::3] = [1, 2, 3]
    np.testing.assert_array_equal(a, expected)
