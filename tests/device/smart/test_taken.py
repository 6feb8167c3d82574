"""A SmartArray is taken where the vocabularies take an array, and moves only where it has to."""

import copy

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda, roc
from haulage.cuda.random import (
    create_xoroshiro128p_states,
    init_xoroshiro128p_states,
    init_xoroshiro128p_states_cpu,
    xoroshiro128p_dtype,
)
from haulage.errors import CaptureError, ShapeMismatch

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

N = 1000


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


def numbers(n=N, dtype=np.float64):
    return np.arange(n).astype(dtype)


def there(n=N, dtype=np.float64):
    """A SmartArray of `numbers(n) + 1` that is current on the device only."""
    a = SmartArray(numbers(n, dtype))
    add_one[-(-n // 128), 128](a)
    cuda.synchronize()
    return a


def moved(recorded):
    """The transfers of SmartArrays and between host and device: (direction, bytes)."""
    return [(one.direction, one.nbytes) for one in recorded]


UP, DOWN = "host to device", "device to host"


# ---- ufuncs -------------------------------------------------------------------------------------


@cuda.vectorize(["float64(float64)"])
def increased(x):
    return x + 1


@cuda.vectorize(["float64(float64, float64)"], identity=0)
def added(x, y):
    return x + y


@cuda.guvectorize(["void(float64[:], float64, float64[:])"], "(n),()->(n)")
def scaled(x, factor, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * factor


@cuda.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def sorted_pair(x, out):
    if x[0] > x[1]:
        x[0], x[1] = x[1], x[0]
    out[0] = x[0]
    out[1] = x[1]


@cuda.reduce
def reduced(x, y):
    return x + y


def test_a_ufunc_reads_it_on_the_device_and_leaves_its_result_there():
    a = there()
    with haulage.assert_no_transfers():
        once = increased(a)
        twice = increased(once)
        add_one[8, 128](twice)
    assert type(once) is type(twice) is SmartArray
    with haulage.transfers() as t:
        assert twice[3] == 7
        np.testing.assert_array_equal(once, numbers() + 2)
    assert moved(t) == [(DOWN, 8 * N)] * 2
    assert a.coherence.current() == [cuda.current_context().device]


def test_a_ufunc_brings_what_is_on_the_host_once():
    a = SmartArray(numbers())
    with haulage.transfers() as t:
        result = added(a, a)
        added(a, 3.0)
    assert moved(t) == [(UP, 8 * N)]
    assert [one.why for one in t] == ["ufunc added"]
    np.testing.assert_array_equal(result, 2 * numbers())
    a[:10] = 5
    with haulage.transfers() as t:
        result = added(a, 1.0)
    assert moved(t) == [(UP, 80)]
    assert (result[9], result[10]) == (6, 11)


def test_out_of_a_ufunc_is_current_on_the_device_only():
    a, out = there(), SmartArray(np.zeros(N))
    with haulage.assert_no_transfers():
        assert added(a, 1.0, out=out) is out
        assert added(a, out, out) is out
    # As host arrays would be: three times to the device as inputs or back as the result.
    assert haulage.explain(out).data["as_host_arrays"] == 3 * 8 * N
    assert out.coherence.current() == [cuda.current_context().device]
    np.testing.assert_array_equal(out, 2 * numbers() + 3)
    add_one[8, 128](out)
    cuda.synchronize()
    x = numbers()
    out[0] = 7.0
    added(out, 1.0, out=out)
    assert (out[0], out[1]) == (8, 7)
    added(cuda.to_device(x), 1.0, out=out)
    np.testing.assert_array_equal(out, x + 1)


def test_out_of_a_ufunc_over_a_part_leaves_the_rest():
    out, hundred, ten = SmartArray(numbers()), there(100), there(10)
    with haulage.assert_no_transfers():
        increased(hundred, out=out[100:200])
    with haulage.transfers() as t:
        increased(ten, out=out[::100])
    # What lies between the elements is kept.
    assert moved(t) == [(UP, 800), (UP, 8 * 701)]
    expected = numbers()
    expected[100:200] = numbers(100) + 2
    expected[::100] = numbers(10) + 2
    np.testing.assert_array_equal(out, expected)


def test_a_ufunc_over_overlapping_parts_of_one_array():
    a = there()
    with haulage.assert_no_transfers():
        increased(a[:-1], out=a[1:])
    np.testing.assert_array_equal(a, np.concatenate([[1], numbers(N - 1) + 2]))


def test_mixtures_with_other_arrays():
    a = there()
    device_array, host = cuda.to_device(numbers()), np.ones((2, 1))
    with haulage.assert_no_transfers():
        assert type(added(a, device_array)) is cuda.DeviceNDArray
        assert added(a, 1.0, out=device_array) is device_array
    both = added(a, host)
    assert type(both) is SmartArray
    np.testing.assert_array_equal(both, numbers() + 1 + host)
    out = np.empty(N)
    assert added(a, 1.0, out=out) is out
    np.testing.assert_array_equal(out, numbers() + 2)
    assert a.coherence.current() == [cuda.current_context().device]
    mapped = cuda.mapped_array(N)
    mapped[...] = 1
    assert type(added(a, mapped)) is cuda.DeviceNDArray
    number = added(SmartArray(np.float64(3)), 4.0)
    assert type(number) is np.float64
    assert number == 7


def test_a_view_of_a_ufunc_and_axes_that_are_broadcast():
    a = there(120).reshape(10, 12)
    x = (numbers(120) + 1).reshape(10, 12)
    with haulage.assert_no_transfers():
        results = added(a.T, a.T), added(a[::-1, ::2], a[:, :1]), added(a[0], a[1:2])
    np.testing.assert_array_equal(results[0], x.T + x.T)
    np.testing.assert_array_equal(results[1], x[::-1, ::2] + x[:, :1])
    np.testing.assert_array_equal(results[2], x[0] + x[1:2])
    assert results[0].flags.f_contiguous
    assert results[2].shape == (1, 12)


def test_a_ufunc_in_a_stream_is_ordered_with_what_uses_its_arrays():
    stream, other = cuda.stream(), cuda.stream()
    a, out = SmartArray(numbers(200_000), where="pinned"), SmartArray(shape=200_000)
    for _ in range(3):
        add_one[1563, 128, stream](a)
        increased(a, out=out, stream=other)
        add_one[1563, 128, stream](a)
        result = increased(out, stream=stream)
        add_one[1563, 128, other](result)
    np.testing.assert_array_equal(result, numbers(200_000) + 8)
    np.testing.assert_array_equal(out, numbers(200_000) + 6)


def test_errors_of_a_ufunc_leave_its_arrays_as_they_were():
    a, out = there(), there()
    with pytest.raises(ShapeMismatch):
        added(a, 1.0, out=out[:5])
    with pytest.raises(TypeError, match="no matching signature"):
        added(a, 1j, out=out)
    with pytest.raises(TypeError, match="out has dtype int8"):
        added(a, 1.0, out=SmartArray(np.zeros(N, np.int8)))
    np.testing.assert_array_equal(out, numbers() + 1)
    np.testing.assert_array_equal(a, numbers() + 1)


def test_reductions_read_it_on_the_device():
    a, results = there(), SmartArray(np.zeros(3))
    with haulage.transfers() as t:
        assert added.reduce(a) == reduced(a) == (numbers() + 1).sum()
        assert reduced(a[1:], size=3) == 2 + 3 + 4
    assert set(moved(t)) <= {(DOWN, 8)}
    with haulage.assert_no_transfers():
        assert reduced(a, res=results[1:]) is None
        assert reduced(a[:0], res=results[2:], init=7.0) is None
    assert results.tolist() == [0, (numbers() + 1).sum(), 7]
    a[0] = 100
    assert added.reduce(a) == reduced(a) == (numbers() + 1).sum() + 99
    assert reduced(cuda.to_device(numbers(4)), res=results) is None
    assert results[0] == 6


def test_a_reduction_looks_at_what_it_was_given_first():
    a = SmartArray(np.zeros((2, 3)))
    with haulage.assert_no_transfers():
        with pytest.raises(TypeError, match="only support 1D array"):
            reduced(a)
        with pytest.raises(TypeError, match="with one axis"):
            reduced(a.ravel(), res=a)
        with pytest.raises(TypeError, match="res has dtype int8"):
            reduced(a.ravel(), res=SmartArray(np.zeros(1, np.int8)))
        assert reduced(a.ravel()[:0], init=3.0) == 3


def test_functions_of_small_arrays():
    a = there(120).reshape(10, 12)
    out = SmartArray(np.zeros((10, 12)))
    with haulage.transfers() as t:
        result = scaled(a, 3.0)
        scaled(a, 2.0, out)
        scaled(out, 2.0, out=out)
    assert type(result) is SmartArray
    assert not [*t.of(a), *t.of(result)]
    # The function could leave elements of it out.
    assert moved(t.of(out)) == [(UP, 960)]
    x = (numbers(120) + 1).reshape(10, 12)
    np.testing.assert_array_equal(result, x * 3)
    np.testing.assert_array_equal(out, x * 4)
    assert a.coherence.current(a._part) == [cuda.current_context().device]
    factors = SmartArray(numbers(10))
    np.testing.assert_array_equal(scaled(a, factors), x * numbers(10)[:, None])


@cuda.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def add_every_other(x, out):
    for i in range(0, x.shape[0], 2):
        out[i] += x[i]


@pytest.mark.parametrize("given", [SmartArray, np.asarray])
def test_a_function_that_leaves_elements_of_its_output_out_leaves_them_as_they_were(given):
    out = SmartArray(np.full((2, 3), 7.0))
    add_every_other(given(np.arange(6.0).reshape(2, 3)), out=out)
    assert out.tolist() == [[7, 7, 9], [10, 7, 12]]


def test_a_function_that_writes_to_its_inputs_does_not_change_it():
    x = np.array([[3.0, 1.0], [2.0, 5.0]])
    a = SmartArray(x)
    assert sorted_pair(a).tolist() == [[1, 3], [2, 5]]
    assert a.tolist() == x.tolist()
    np.testing.assert_array_equal(a.get("gpu").copy_to_host(), x)


def test_outputs_without_axes_and_several_of_them():
    @cuda.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n)->(),()")
    def ends(x, low, high):
        low[0] = x[0]
        high[0] = x[-1]

    number, low, a = SmartArray(np.float64(0)), there(10), there(120)
    assert added(1.0, 2.0, out=number) is number
    assert number == 3
    with haulage.assert_no_transfers():
        given_back, high = ends(a.reshape(10, 12), out=(low, None))
    assert given_back is low
    assert type(high) is SmartArray
    assert low.tolist() == [12 * row + 1 for row in range(10)]
    assert high.tolist() == [12 * row + 12 for row in range(10)]


def test_a_ufunc_of_fields_and_views_of_the_host():
    records = SmartArray(np.zeros(10, [("x", "f8"), ("y", "i4")]))
    x = records["x"].get()
    x[:] = np.arange(10)
    assert increased(records["x"]).tolist() == [*range(1, 11)]
    increased(records["x"], out=records["x"])
    cuda.synchronize()
    assert x.tolist() == [*range(1, 11)]
    x[0] = 100
    assert increased(records["x"])[0] == 101
    assert not records["y"].any()


def test_ufuncs_of_the_other_vocabulary():
    doubled, a = roc.vectorize(["float64(float64)"])(lambda x: 2 * x), there()
    with haulage.assert_no_transfers():
        result = doubled(a)
        assert doubled(a, out=a) is a
        copied = roc.to_device(a)
    np.testing.assert_array_equal(result, 2 * numbers() + 2)
    np.testing.assert_array_equal(copied.copy_to_host(), result)


# ---- copies -------------------------------------------------------------------------------------


def test_a_copy_from_it_is_made_on_the_device():
    a = there()
    target = cuda.device_array((1, N))
    with haulage.assert_no_transfers():
        copies = [cuda.to_device(a), cuda.to_device(a, stream=cuda.stream())]
        target.copy_to_device(a)
        mapped = cuda.mapped_array(N)
        mapped.copy_to_device(a)
        target[0, 10:] = a[:-10]
        filled = cuda.full((3, N), a)
        whole = cuda.from_dlpack(a, copy=True)
        cuda.to_device(a, to=copies[1])
    add_one[8, 128](a)
    expected = numbers() + 1
    for made in (*copies, mapped, whole):
        np.testing.assert_array_equal(made.copy_to_host(), expected)
    np.testing.assert_array_equal(filled.copy_to_host(), np.broadcast_to(expected, (3, N)))
    np.testing.assert_array_equal(target.copy_to_host()[0, 10:], expected[:-10])
    assert a[0] == 2


def test_a_copy_of_what_is_on_the_host_takes_one_transfer():
    a = SmartArray(numbers())
    with haulage.transfers() as t:
        first = cuda.to_device(a)
        second = cuda.to_device(a[:10])
        first[:10] = a[10:20]
    assert moved(t) == [(UP, 8 * N)]
    assert [one.why for one in t.of(a)] == ["to_device"]
    assert first.copy_to_host()[:11].tolist() == [*range(10, 20), 10]
    assert second.copy_to_host().tolist() == list(range(10))
    a[3] = 77
    first.copy_to_device(a)
    assert first[3] == 77
    with haulage.assert_no_transfers():
        room = cuda.to_device(a[::2], copy=False)
    assert (room.shape, room.dtype) == ((N // 2,), a.dtype)


def test_values_of_another_dtype_are_converted_by_assignment_only():
    a, target = there(dtype=np.int32), cuda.device_array(N)
    with haulage.transfers() as t, pytest.raises(TypeError, match="incompatible dtype"):
        target.copy_to_device(a)
    with pytest.raises(ShapeMismatch):
        cuda.device_array(N + 1, np.int32).copy_to_device(a)
    with pytest.raises(ValueError, match="shape"):
        cuda.device_array(N + 1, np.int32)[:] = a
    assert not t
    target[:] = a
    np.testing.assert_array_equal(target.copy_to_host(), numbers() + 1)


def test_it_is_the_target_of_a_copy():
    source, a = cuda.to_device(numbers()), there()
    with haulage.transfers() as t:
        assert source.copy_to_host(a) is a
        assert a[5] == 5
    assert moved(t) == [(DOWN, 8 * N)]
    assert a.coherence.current() == ["host"]
    pinned = SmartArray(np.zeros(N), where="pinned")
    source.copy_to_host(pinned, stream=cuda.stream())
    np.testing.assert_array_equal(pinned, numbers())
    with haulage.transfers() as t:
        assert cuda.to_device(numbers() + 3, to=a) is a
    assert moved(t) == [(UP, 8 * N)]
    with haulage.assert_no_transfers():
        cuda.to_device(source, to=a[:])
        cuda.to_device(a[:-1], to=a[1:])
        cuda.to_device(a, to=pinned, copy=False)
    np.testing.assert_array_equal(a, np.concatenate([[0], numbers(N - 1)]))
    np.testing.assert_array_equal(pinned, numbers())
    source[: N // 2].copy_to_host(a[::2])
    np.testing.assert_array_equal(a[::2], numbers(N // 2))
    assert a[1] == 0


def test_a_target_that_does_not_fit_stays_as_it_was():
    source, a = cuda.to_device(numbers()), there()
    with haulage.assert_no_transfers():
        with pytest.raises(ShapeMismatch):
            source.copy_to_host(a[1:])
        with pytest.raises(TypeError, match="incompatible dtype"):
            source.copy_to_host(SmartArray(np.zeros(N, np.int8)))
        with pytest.raises(ShapeMismatch):
            cuda.to_device(numbers(3), to=a)
    np.testing.assert_array_equal(a, numbers() + 1)


def test_what_cannot_take_it_says_what_to_do():
    a = SmartArray(numbers())
    for refuse in (lambda: cuda.pinned(a).__enter__(), lambda: cuda.mapped(a).__enter__()):
        with pytest.raises(TypeError, match="where='pinned'"):
            refuse()
    with pytest.raises(TypeError, match="where='pinned'"):
        roc.register(a)
    assert not cuda.is_cuda_array(a)
    stream, d = cuda.stream(), cuda.to_device(a)
    for use in (
        lambda: increased(a, stream=stream),
        lambda: d.copy_to_device(a, stream),
        lambda: d.copy_to_host(a, stream),
        lambda: cuda.to_device(d, stream, to=a),
        lambda: d.setitem(slice(None), a, stream),
    ):
        with pytest.raises(CaptureError, match="SmartArray"), cuda.graph(stream):
            use()
    np.testing.assert_array_equal(a, numbers())


def test_it_is_made_of_what_is_on_a_device_there():
    array, a = cuda.to_device(numbers(12).reshape(3, 4).T), there()
    with haulage.assert_no_transfers():
        made = SmartArray(array, where="gpu")
        again = SmartArray(a[::2], where="gpu")
        copies = copy.copy(a), copy.deepcopy(a)
        add_one[8, 128](again)
    assert [type(each) for each in copies] == [SmartArray] * 2
    assert made.flags.f_contiguous
    array.fill(0)
    add_one[8, 128](a)
    np.testing.assert_array_equal(made, numbers(12).reshape(3, 4).T)
    np.testing.assert_array_equal(again, numbers()[::2] + 2)
    for each in copies:
        np.testing.assert_array_equal(each, numbers() + 1)
    with haulage.transfers() as t:
        converted = SmartArray(a, dtype=np.float32, where="gpu")
        here = SmartArray(a)
        copied = copy.copy(here)
    assert [one.direction for one in t] == [DOWN, UP]
    assert converted.dtype == np.float32
    assert here.coherence.current() == copied.coherence.current() == ["host"]


def test_generators_of_random_numbers_are_made_in_it():
    states = SmartArray(shape=10, dtype=xoroshiro128p_dtype)
    with haulage.transfers() as t:
        init_xoroshiro128p_states(states, 3)
    assert moved(t) == [(UP, 160)]
    assert states.coherence.current() == [cuda.current_context().device]
    expected = create_xoroshiro128p_states(10, 3).copy_to_host()
    assert (np.asarray(states) == expected).all()
    here = SmartArray(shape=10, dtype=xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(here, 3)
    assert (np.asarray(here) == expected).all()
    with pytest.raises(TypeError, match="xoroshiro128p_dtype"):
        init_xoroshiro128p_states(there(), 3)


def test_a_graph_works_with_the_array_on_the_device():
    a = there()
    with cuda.graph() as graph:
        add_one[8, 128](a.get("gpu"))
    for expected in (11, 12, 101):
        if expected != 12:
            a[3] = expected - 1
        array = a.get("gpu")
        graph.launch()
        a.mark_changed("gpu")
        assert a[3] == expected
    assert a.coherence.current() == ["host", array.device]


# ---- kernels ------------------------------------------------------------------------------------


@cuda.jit
def add_one_to_both(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1
        b[i] = a[i] + 1


@cuda.jit
def shifted(x, out):
    i = cuda.grid(1)
    if i < 500:
        out[i] = x[i + 1]


def test_a_kernel_s_input_stays_as_it_was():
    a, b, here = there(), SmartArray(np.zeros(N)), SmartArray(numbers())
    with haulage.transfers() as t:
        add_one_to_both[8, 128](cuda.In(a), cuda.Out(b))
        add_one_to_both[8, 128](cuda.In(b[::-1]), cuda.InOut(b))
        add_one[8, 128](cuda.In(here))
    assert moved(t) == [(UP, 8 * N)]
    assert here.coherence.current() == ["host", cuda.current_context().device]
    with haulage.assert_no_transfers():
        np.testing.assert_array_equal(here, numbers())
    np.testing.assert_array_equal(a, numbers() + 1)
    np.testing.assert_array_equal(b, (numbers() + 3)[::-1] + 2)


def test_a_kernel_s_input_is_copied_only_where_that_shows():
    a = there()
    with haulage.assert_no_transfers():
        for _ in range(2):
            shifted[4, 128](cuda.In(a), cuda.Out(a[500:]))
    expected = numbers() + 1
    for _ in range(2):
        expected[500:] = expected[1:501].copy()
    np.testing.assert_array_equal(a, expected)


def test_a_kernel_s_output_is_not_brought_to_it():
    a, pair = SmartArray(numbers()), (SmartArray(numbers()), 1.0)
    with haulage.assert_no_transfers():
        add_one[8, 128](cuda.Out(a))
    assert a.coherence.current() == [cuda.current_context().device]

    @cuda.jit
    def in_a_tuple(pair):
        i = cuda.grid(1)
        if i < pair[0].size:
            pair[0][i] += pair[1]

    with haulage.transfers() as t:
        in_a_tuple[8, 128]((cuda.In(pair[0]), pair[1]))
        in_a_tuple[8, 128](pair)
        shifted[4, 128](pair[0], cuda.Out(pair[0]))
    assert moved(t) == [(UP, 8 * N)]
    expected = numbers() + 1
    assert pair[0][N - 1] == expected[-1]
