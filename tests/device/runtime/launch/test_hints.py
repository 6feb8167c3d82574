"""In, Out and InOut, and host arrays and records given straight to kernels."""

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import KernelError, LaunchError, Unsupported

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@pytest.fixture(params=["as usual", "by copies"])
def way(request):
    """Host arrays go to kernels in place where that can be, or by copies as on a GPU."""
    if request.param == "as usual":
        yield
        return
    try:
        turned_on = haulage.adversary(1)
    except Unsupported as error:
        pytest.skip(str(error))
    with turned_on:
        yield


@cuda.jit
def add_to_both(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1
        b[i] += 2


@cuda.jit
def double_into(source, target):
    i = cuda.grid(1)
    if i < source.size:
        target[i] = 2 * source[i]


@cuda.jit
def fails_after_a_write(a):
    a[0] = 7
    raise ValueError("on purpose")


@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_only_out_and_inout_come_back(words, way):
    a, b = np.zeros(100), np.zeros(100)
    add_to_both[4, 32](words.In(a), words.InOut(b))
    cuda.synchronize()
    np.testing.assert_array_equal(a, np.zeros(100))
    np.testing.assert_array_equal(b, np.full(100, 2.0))
    target = np.full(100, np.nan)
    double_into[4, 32](words.In(b), words.Out(target))
    np.testing.assert_array_equal(target, np.full(100, 4.0))


def test_out_brings_nothing_to_a_device_that_takes_copies():
    @cuda.jit
    def add(x):
        x[cuda.grid(1)] += 1

    try:
        turned_on = haulage.adversary(1)
    except Unsupported as error:
        pytest.skip(str(error))
    host = np.ones(20, np.float32)
    with turned_on:
        add[1, 20](cuda.Out(host))
        assert (host != 2).all()
        host[...] = 1
        add[1, 20](cuda.In(host))
        assert (host == 1).all()
        add[1, 20](cuda.InOut(host))
        assert (host == 2).all()


def test_without_a_hint_arrays_are_both(way):
    a, b = np.zeros(40, np.float32)[::2], np.zeros((20,), order="F")
    add_to_both[1, 32](a, b)
    assert (a == 1).all()
    assert (b == 2).all()


def test_gaps_of_a_host_array_stay_as_they_are(way):
    whole = np.arange(40.0)
    add_to_both[1, 32](whole[1::2], whole[38::-2])
    expected = np.arange(40.0)
    expected[1::2] += 1
    expected[::2] += 2
    np.testing.assert_array_equal(whole, expected)


def test_a_broadcast_host_array_is_an_input(way):
    ones = np.broadcast_to(np.float64(1), (50,))
    target = np.zeros(50)
    double_into[2, 32](ones, target)
    assert (target == 2).all()


def test_a_read_only_host_array_is_an_input_that_a_kernel_cannot_write(way):
    fixed = np.arange(8.0)
    fixed.flags.writeable = False
    target = np.zeros(8)
    double_into[1, 8](fixed, target)
    np.testing.assert_array_equal(target, 2 * np.arange(8.0))
    with pytest.raises(TypeError, match=r"(?i)read-?only|immutable"):
        add_to_both[1, 8](fixed, target)
    np.testing.assert_array_equal(fixed, np.arange(8.0))


def test_hints_take_what_is_on_the_device_as_it_is(way):
    there = cuda.to_device(np.zeros(10))
    mapped = cuda.mapped_array(10)
    mapped[...] = 0
    smart = haulage.SmartArray(np.zeros(10))
    add_to_both[1, 32](cuda.In(there), cuda.Out(mapped))
    add_to_both[1, 32](cuda.InOut(smart), cuda.In(there))
    cuda.synchronize()
    assert (there.copy_to_host() == 3).all()
    assert (mapped == 2).all()
    assert (smart.get() == 1).all()


def test_hints_work_in_streams_and_inside_tuples(way):
    @cuda.jit
    def sum_pair(pair, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = pair[0][i] + pair[1][i]

    stream = cuda.stream()
    out = np.zeros(10)
    sum_pair[1, 16, stream]((cuda.In(np.ones(10)), np.arange(10.0)), cuda.Out(out))
    np.testing.assert_array_equal(out, np.arange(10.0) + 1)


def test_a_failing_kernel_still_gives_back_what_it_wrote(way):
    a = np.zeros(3)
    with pytest.raises(KernelError, match="on purpose"):
        fails_after_a_write[1, 1](a)
    assert a[0] == 7
    cuda.synchronize()  # it is reported once


def test_nothing_comes_back_where_the_launch_is_refused(way):
    a, b = np.arange(4.0), np.arange(4.0)
    with pytest.raises(LaunchError, match="threads"):
        add_to_both[1, 5000](cuda.Out(a), b)
    with pytest.raises(LaunchError, match="cannot take 'text'"):
        add_to_both[1, 4](cuda.Out(a), "text")
    np.testing.assert_array_equal(a, np.arange(4.0))
    np.testing.assert_array_equal(b, np.arange(4.0))


@pytest.mark.parametrize("hint", [cuda.In, cuda.Out, cuda.InOut])
def test_hints_refuse_what_is_no_array(hint):
    for wrong in (3, [1.0, 2.0], None, "text"):
        with pytest.raises(
            TypeError, match=rf"{hint.__name__}\(.*expected a NumPy array or record"
        ):
            hint(wrong)
    array = np.zeros(2)
    assert hint(array).value is array
    assert repr(hint(array)) == f"{hint.__name__}(array([0., 0.]))"


def test_records_of_the_host_go_both_ways(way):
    dtype = np.dtype([("n", np.int32), ("x", np.float64)], align=True)

    @cuda.jit
    def fill(record):
        record.n = 5
        record.x += 0.5

    records = np.zeros(3, dtype)
    records["x"] = 1
    fill[1, 1](records[1])
    fill[1, 1](cuda.In(records[2]))
    cuda.synchronize()
    assert records.tolist() == [(0, 1.0), (5, 1.5), (0, 1.0)]


@cuda.jit("void(float64[:], int64)")
def add_declared(x, number):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += number


@cuda.jit("void(UniTuple(float64[:], 2))")
def swap_declared(both):
    i = cuda.grid(1)
    if i < both[0].size:
        both[0][i], both[1][i] = both[1][i], both[0][i]


def unaligned(values):
    """A host array whose elements do not lie at multiples of their size."""
    room = np.zeros(8 * len(values) + 8, np.uint8)
    array = np.ndarray(len(values), np.float64, room[1:-7])
    array[...] = values
    assert not array.flags.aligned
    return array


def test_a_kernel_with_a_signature_takes_unaligned_host_arrays():
    array = unaligned([1, 2, 3])
    add_declared[1, 32](array, 10)
    assert array.tolist() == [11, 12, 13]
    add_declared[1, 32](cuda.In(array), 10)
    assert array.tolist() == [11, 12, 13]
    column = np.zeros(3, [("flag", "i1"), ("x", "f8")])["x"]
    add_declared[1, 32](column, 10)
    assert column.tolist() == [10, 10, 10]
    second = np.arange(3.0)
    swap_declared[1, 32]((array, second))
    assert (array.tolist(), second.tolist()) == ([0, 1, 2], [11, 12, 13])


def test_an_unaligned_array_that_is_read_only_is_not_written():
    array = unaligned([1, 2, 3])
    array.flags.writeable = False
    with pytest.raises(LaunchError, match="readonly array"):
        add_declared[1, 32](array, 10)
    assert array.tolist() == [1, 2, 3]
