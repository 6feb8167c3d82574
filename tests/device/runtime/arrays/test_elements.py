"""Single elements of device arrays, and iteration: what NumPy gives, and how it gets there."""

import itertools
import os
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda
from haulage.backends.base import NON_BLOCKING
from haulage.errors import CaptureError, KernelError
from haulage.runtime.devices.stream import Stream

pytestmark = pytest.mark.usefixtures("device")

DTYPES = [
    *("?", "i1", "u1", "<i2", ">i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f8"),
    *("c8", "c16", "M8[s]", "m8[ns]", "S3", "U2", "V5"),
]
INTEGERS = (int, np.int8, np.uint16, np.int32, np.int64, np.uint64)


@pytest.fixture
def copies(device, monkeypatch):
    """What the driver is asked to copy and fill."""
    calls = []
    for name in ("copy", "copy_nd", "fill"):
        method = getattr(device.backend, name)

        def counted(*args, _name=name, _method=method):
            calls.append(_name)
            return _method(*args)

        monkeypatch.setattr(device.backend, name, counted)
    return calls


@pytest.fixture
def near(device):
    """The device's memory is the host's."""
    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"memory of {device} is not the host's")


def values(dtype, count=24):
    kind = np.dtype(dtype).kind
    if kind in "SUV":
        return np.array([str(n) for n in range(count)], "S5").astype(dtype)
    return np.arange(count).astype(dtype)


def same(found, expected):
    return type(found) is type(expected) and (
        found == expected or found.tobytes() == expected.tobytes()
    )


# ---- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_those_of_numpy_and_of_its_types(dtype):
    host = values(dtype).reshape(2, 3, 4)
    views = [
        lambda a: a,
        lambda a: a[1],
        lambda a: a[:, ::-1, 1::2],
        lambda a: a.transpose(2, 0, 1),
        lambda a: a[0, 0],
    ]
    there = cuda.to_device(host)
    for view in views:
        expected, found = view(host), view(there)
        for place in itertools.product(*(range(-n, n) for n in expected.shape)):
            assert same(found[place], expected[place])
            if len(place) == 1:
                assert same(found[place[0]], expected[place[0]])
    for integer in INTEGERS:
        assert same(there[integer(1), integer(2), integer(3)], host[1, 2, 3])
        assert same(there[1][2][integer(3)], host[1, 2, 3])


def test_an_array_without_axes_has_one_element():
    there = cuda.to_device(np.float32(5))
    assert same(there[()], np.float32(5))
    there[()] = 6
    assert same(there[()], np.float32(6))
    assert there[...].shape == ()


@pytest.mark.parametrize("key", [3, -4, (3,), (-4,), np.int64(3), np.uint8(200), 10**30, (1, 0)])
def test_what_is_out_of_bounds_is_an_index_error(key):
    there = cuda.to_device(np.arange(3))
    with pytest.raises((IndexError, OverflowError)):
        there[key]
    with pytest.raises((IndexError, OverflowError)):
        there[key] = 1
    empty = cuda.to_device(np.arange(0))
    with pytest.raises(IndexError):
        empty[0]
    assert there.copy_to_host().tolist() == [0, 1, 2]


@pytest.mark.parametrize("key", [True, np.True_, (True,), 1.0, (1.0,), "x", None, [0], slice(1)])
def test_other_keys_are_what_they_were(key):
    host = np.arange(3)
    there = cuda.to_device(host)
    try:
        found = there[key]
    except (IndexError, TypeError, ValueError, KeyError):
        return
    assert found.shape == host[key].shape


def test_fields_of_records_are_read_and_written():
    dtype = np.dtype([("x", "f4"), ("y", "i2", 3), ("z", [("w", "c8")])])
    packed = np.dtype([("a", "i1"), ("b", "f8")])
    there = cuda.to_device(np.zeros(3, dtype))
    there[1].x = 2.5
    there["x"][2] = 3
    there[1].y[2] = -7
    there[2]["z"]["w"] = 1j
    assert same(there[1].x, np.float32(2.5))
    assert same(there["x"][2], np.float32(3))
    assert same(there[1]["y"][-1], np.int16(-7))
    assert same(there[2].z.w, np.complex64(1j))
    unaligned = cuda.to_device(np.zeros(3, packed))
    unaligned[1].b = 0.5
    unaligned["b"][2] = 1.5
    assert [unaligned[n]["b"] for n in range(3)] == [0, 0.5, 1.5]
    assert unaligned["a"].copy_to_host().tolist() == [0, 0, 0]


# ---- writing ------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.complex_numbers(),
    st.sampled_from([np.float32(1.5), np.int16(-3), np.uint64(7), np.bool_(True), "4", b"5", None]),
)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dtype=st.sampled_from([d for d in DTYPES if d != "V5"]), value=NUMBERS)
def test_an_element_is_written_as_numpy_writes_it(dtype, value):
    host = values(dtype, 6).reshape(2, 3)
    there = cuda.to_device(host)
    outcomes = []
    for array in (host, there):
        try:
            array[1, -2] = value
            array[0][2] = value
        except (TypeError, ValueError, OverflowError) as error:
            outcomes.append(type(error))
        else:
            outcomes.append(None)
    assert outcomes[0] is outcomes[1]
    assert there.copy_to_host().tobytes() == host.tobytes()


def test_a_read_only_array_is_not_written():
    there = cuda.to_device(np.arange(3))
    assert there[0] == 0
    there.readonly = True
    with pytest.raises(ValueError, match="read-only"):
        there[0] = 5
    assert there[0] == 0


def test_a_closed_array_has_no_elements():
    there = cuda.to_device(np.arange(3))
    assert there[1] == 1
    there.close()
    with pytest.raises(ValueError, match="close"):
        there[1]
    with pytest.raises(ValueError, match="close"):
        there[1] = 2


# ---- how they get there -------------------------------------------------------------------------


# The adversarial mode holds work back, so that no device is idle.
HELD_BACK = bool(os.environ.get("HAULAGE_ADVERSARY"))


@pytest.mark.usefixtures("near")
@pytest.mark.skipif(HELD_BACK, reason="no device is idle in the adversarial mode")
def test_elements_of_an_idle_device_are_loads_and_stores(copies):
    there = cuda.to_device(np.arange(12.0).reshape(3, 4))
    row, records = there[1], cuda.to_device(np.zeros(2, [("x", "f4")]))
    bound = cuda.to_device(np.arange(3), stream=cuda.stream())
    cuda.synchronize()
    copies.clear()
    there[2, 3] = there[0, 1] + row[2]
    row[0] = 5
    records[1].x = 2
    records["x"][0] = 1
    bound[0] = bound[2]
    assert (there[2, 3], row[0], records[1].x, records["x"][0], bound[0]) == (7, 5, 2, 1, 2)
    assert copies == []


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


def test_an_element_is_read_and_written_in_the_order_of_streams(hold_up):
    there = cuda.to_device(np.zeros(3))
    stream = cuda.stream()
    seen = []

    def look():
        seen.append(there[1])
        there[1] = 10
        seen.append(there[1])

    reader = threading.Thread(target=look)
    with hold_up(stream):
        add_one[1, 3, stream](there)  # the default stream waits for it
        reader.start()
        assert not seen
    reader.join(60)
    assert seen == [1, 10]


def test_an_element_is_written_after_the_kernels_that_were_handed_over_before(hold_up):
    there = cuda.to_device(np.zeros(3))
    stream = cuda.stream()
    with hold_up(stream):
        add_one[1, 3, stream](there)
        there.bind(stream)[1] = 20
    assert [there[0], there[1], there[2]] == [1, 20, 1]


def test_a_stream_that_the_array_is_not_bound_to_is_not_waited_for(device, hold_up):
    """Such a stream does not make the default one wait, nor that of the array."""
    there = cuda.to_device(np.arange(3), stream=cuda.stream())
    other = Stream.create(device, NON_BLOCKING)
    with hold_up(other):
        assert there[2] == 2
        there[2] = 5
        assert there[2] == 5
        assert list(there) == [0, 1, 5]


def test_what_a_kernel_failed_with_is_raised_where_an_element_is_read():
    @cuda.jit
    def fails(a):
        if a[0] == 0:
            raise ValueError("on purpose")

    there = cuda.to_device(np.zeros(3))
    assert there[0] == 0
    fails[1, 1](there)
    with pytest.raises((ValueError, KernelError), match="on purpose"):
        there[0]
    assert there[0] == 0


def test_what_kernels_print_is_shown_where_an_element_is_read_or_written(capsys, copies):
    @cuda.jit
    def say(a):
        print("it is", a[0])

    there = cuda.to_device(np.arange(3))
    say[1, 1](there)
    assert there[1] == 1
    assert capsys.readouterr().out == "it is 0\n"
    say[1, 1](there)
    there[0] = 5
    assert capsys.readouterr().out == "it is 0\n"
    copies.clear()
    assert there[0] == 5
    there[1] = 4
    if there.device.properties.host_memory_is_device_memory and not HELD_BACK:
        assert copies == []


def test_in_a_capture_an_element_is_not_read():
    there = cuda.to_device(np.arange(3))
    assert there[1] == 1
    try:
        capture = cuda.graph()
    except haulage.errors.Unsupported as error:
        pytest.skip(str(error))
    with capture:
        add_one[1, 3](there)
        with pytest.raises(CaptureError):
            there[1]


def test_elements_are_counted_as_transfers_and_iteration_as_one():
    there = cuda.to_device(np.arange(1000.0))
    with haulage.transfers() as record:
        assert there[3] == 3
        there[3] = 4
        assert there[3] == 4
    assert (record.count(), record.nbytes) == (2, 16)
    with haulage.transfers() as record:
        assert max(there) == 999
    assert (record.count(), record.nbytes) == (1, 8000)
    assert record[0].why == "iteration"


def test_the_adversary_holds_work_back_before_an_element_is_read(device):
    there = cuda.to_device(np.zeros(3))
    if device.kind != "cpu":
        pytest.skip("the adversarial mode is the CPU device's")
    with haulage.adversary(3):
        add_one[1, 3](there)
        assert there[1] == 1
        there[1] = 5
        add_one[1, 3](there)
        assert there[1] == 6


# ---- iteration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_iteration_gives_what_indices_give(dtype):
    host = values(dtype)
    there = cuda.to_device(host)
    assert all(itertools.starmap(same, zip(there, host, strict=True)))
    assert all(itertools.starmap(same, zip(reversed(there), host[::-1], strict=True)))
    rows = cuda.to_device(host.reshape(4, 6))
    for row, expected in zip(rows, host.reshape(4, 6), strict=True):
        assert isinstance(row, cuda.DeviceNDArray)
        assert all(itertools.starmap(same, zip(row, expected, strict=True)))
    assert [row.shape for row in reversed(rows)] == [(6,)] * 4


def test_functions_of_python_go_over_an_array():
    host = np.array([3.0, -1, 7, 5])
    there = cuda.to_device(host)
    with haulage.transfers() as record:
        assert list(there) == list(host)
        assert (max(there), min(there), sum(there)) == (7, -1, 14)
        assert sorted(there) == [-1, 3, 5, 7]
        assert tuple(enumerate(there)) == tuple(enumerate(host))
        assert dict(zip("abcd", there, strict=True))["c"] == 7
        first, *others = there
        assert (first, others) == (3, [-1, 7, 5])
        assert np.array_equal(np.array(list(there)), host)
        assert any(there)
        assert 7 in there
        assert 8 not in there
        assert record.count() == 12  # one for each


def test_iteration_shows_the_elements_as_they_were_at_its_begin():
    there = cuda.to_device(np.zeros(3))
    elements = iter(there)
    assert next(elements) == 0
    add_one[1, 3](there)
    assert list(elements) == [0, 0]
    rows = iter(cuda.to_device(np.zeros((2, 3))))
    first = next(rows)
    first[0] = 4
    assert first[0] == 4  # a view


def test_iteration_over_records_gives_views():
    there = cuda.to_device(np.zeros(3, [("x", "f4")]))
    for n, record in enumerate(there):
        record.x = n
    assert [record.x for record in there] == [0, 1, 2]


def test_threads_that_write_elements_and_launch_take_turns():
    """A store between a kernel's load and its store would be lost."""
    there = cuda.to_device(np.zeros(2, np.int64))
    add_one[1, 1](there[:1])

    def launch():
        for _ in range(100):
            add_one[1, 1](there[:1])

    launcher = threading.Thread(target=launch)
    launcher.start()
    for n in range(100):
        there[1] = n
        assert there[1] == n
    launcher.join(60)
    assert there[0] == 101
