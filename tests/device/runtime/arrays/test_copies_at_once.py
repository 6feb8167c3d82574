"""Small copies where the host reaches the device's memory: made at once, in streams' order."""

import copy
import os
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import cuda
from haulage._core.copies import SMALL
from haulage.errors import CaptureError, KernelError, ShapeMismatch

pytestmark = pytest.mark.usefixtures("device")

HELD_BACK = bool(os.environ.get("HAULAGE_ADVERSARY"))
PADDED = np.dtype({"names": ["x", "y"], "formats": ["i1", "f8"], "offsets": [0, 8]})
DTYPES = [
    "?",
    "u1",
    ">i2",
    "f2",
    "f4",
    "f8",
    "c16",
    "M8[s]",
    "S3",
    "U2",
    "V5",
    [("x", "f4")],
    PADDED,
]


@pytest.fixture
def asked(device, monkeypatch):
    """What the driver is asked to copy."""
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
    """The host makes small copies itself."""
    if HELD_BACK or device.queues is None:
        pytest.skip(f"{device} is asked for each copy")


def numbers(dtype, shape, order="C"):
    host = np.zeros(shape, dtype, order)
    raw = np.arange(host.nbytes, dtype=np.uint8) % 2
    host[...] = np.frombuffer(raw.tobytes(), host.dtype).reshape(shape)
    return host


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


# ---- what is copied -----------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    dtype=st.sampled_from(DTYPES),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    order=st.sampled_from("CF"),
    bound=st.booleans(),
)
def test_every_copy_gives_the_elements(dtype, shape, order, bound):
    host = numbers(dtype, shape, order)
    stream = cuda.stream() if bound else 0
    there = cuda.to_device(host, stream=stream)
    assert (there.shape, there.dtype, there.is_c_contiguous(), there.is_f_contiguous()) == (
        *(host.shape, host.dtype),
        *(host.flags.c_contiguous, host.flags.f_contiguous),
    )
    assert there.stream == stream
    found = there.copy_to_host()
    assert found.flags.c_contiguous == host.flags.c_contiguous
    assert found.flags.f_contiguous == host.flags.f_contiguous
    given_room = np.zeros_like(host)
    assert there.copy_to_host(given_room, stream=stream) is given_room
    other = cuda.device_array_like(there)
    other.copy_to_device(there)
    again = cuda.device_array_like(host)
    again[...] = host
    arrays = [found, given_room, other.copy_to_host(), again.copy_to_host()]
    arrays += [copy.copy(there).copy_to_host()]
    for array in arrays:
        assert array.dtype == host.dtype
        assert array.tolist() == host.tolist()


@pytest.mark.parametrize("value", [3, 2.5, True, 1j, np.float32(7), np.int8(3), "x", 1000, -1])
@pytest.mark.parametrize("dtype", ["?", "u1", ">i2", "f4", "c16"])
def test_arrays_are_filled_as_numpy_fills_them(dtype, value):
    outcomes, found = [], []
    for make in (lambda: np.zeros((3, 5), dtype), lambda: cuda.to_device(np.zeros((3, 5), dtype))):
        array, raised = make(), []
        for write in (lambda a: a.fill(value), lambda a: a.__setitem__(slice(1, 2), value)):
            try:
                write(array)
            except (TypeError, ValueError, OverflowError) as error:
                raised.append(type(error))
        outcomes.append(raised)
        found.append(np.asarray(array).tolist())
    assert outcomes[0] == outcomes[1]
    assert found[0] == found[1]


def test_bytes_between_the_fields_are_left():
    host = np.zeros(3, PADDED)
    host.view("u1")[...] = 7
    there = cuda.to_device(np.zeros(48, "u1")).view(PADDED)
    there.copy_to_device(host)
    assert there.view("u1").copy_to_host()[:16].tolist() == [7] + [0] * 7 + [7] * 8


def test_an_array_that_overlaps_its_source_has_the_values_from_before():
    there = cuda.to_device(np.arange(10))
    there[1:].copy_to_device(there[:-1])
    assert there.copy_to_host().tolist() == [0, *range(9)]
    there[:-1].copy_to_device(there[1:])
    assert there.copy_to_host().tolist() == [*range(9), 8]


# ---- how ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("near")
def test_small_copies_without_gaps_ask_no_driver(asked):
    for host in (np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4).T, np.float32([5])):
        for stream in (0, None, cuda.default_stream(), cuda.stream()):
            cuda.to_device(host, stream=stream)  # the dtype is known from now on
            asked.clear()
            there = cuda.to_device(host, stream=stream)
            there.copy_to_host()
            there.copy_to_host(host)
            there.copy_to_device(host)
            there[...] = host
            there[...] = there[...]
            there[...] = 4
            there.fill(5)
            there[...].copy_to_host()
            there.copy_to_device(copy.copy(there))
            np.asarray(there)
            assert asked == []
    assert cuda.to_device(np.zeros(2 * SMALL, "u1")).copy_to_host().size == 2 * SMALL
    assert asked == ["copy", "copy"]


@pytest.mark.usefixtures("near")
def test_a_copy_that_somebody_observes_or_records_is_told(device):
    host = np.arange(10.0)
    there = cuda.to_device(host)
    with haulage.transfers() as record:
        cuda.to_device(host)
        there.copy_to_host()
        there.copy_to_host(host)
        there.copy_to_device(host)
        there[...] = host
    assert [(one.nbytes, one.why) for one in record] == [
        (80, "to_device"),
        (80, "copy_to_host"),
        (80, "copy_to_host"),
        (80, "copy_to_device"),
        (80, "a[...] = values"),
    ]


def test_copies_come_after_the_work_that_was_handed_over_before(hold_up):
    there = cuda.to_device(np.zeros(3))
    stream = cuda.stream()
    seen = []

    def look():
        seen.append(there.copy_to_host().tolist())
        there.copy_to_device(np.full(3, 7.0))
        seen.append(cuda.to_device(np.ones(3)).copy_to_host().tolist())

    looker = threading.Thread(target=look)
    with hold_up(stream):
        add_one[1, 3, stream](there)
        looker.start()
        assert not seen
    looker.join(60)
    assert seen == [[1, 1, 1], [1, 1, 1]]
    assert there.copy_to_host().tolist() == [7, 7, 7]


def test_a_copy_in_a_stream_comes_after_the_work_of_that_stream(hold_up):
    stream, other = cuda.stream(), cuda.stream()
    there = cuda.to_device(np.zeros(3), stream=stream)
    apart = cuda.to_device(np.zeros(3), stream=other)
    with hold_up(stream):
        add_one[1, 3, stream](there)
        assert apart.copy_to_host().tolist() == [0, 0, 0]  # waits for nobody
    assert there.copy_to_host().tolist() == [1, 1, 1]


def test_what_a_kernel_failed_with_is_raised_by_the_next_copy():
    @cuda.jit
    def fails(a):
        if a[0] == 0:
            raise ValueError("on purpose")

    there = cuda.to_device(np.zeros(3))
    fails[1, 1](there)
    with pytest.raises((ValueError, KernelError), match="on purpose"):
        there.copy_to_host()
    assert there.copy_to_host().tolist() == [0, 0, 0]


def test_what_kernels_print_is_shown_after_a_copy(capsys):
    @cuda.jit
    def say(a):
        print("it is", a[0])

    there = cuda.to_device(np.arange(3))
    say[1, 1](there)
    there.copy_to_host()
    assert capsys.readouterr().out == "it is 0\n"


def test_what_cannot_be_copied_says_why():
    host = np.arange(3.0)
    there = cuda.to_device(host)
    with pytest.raises(TypeError, match="dtype"):
        there.copy_to_host(np.zeros(3, "f4"))
    with pytest.raises(ShapeMismatch):
        there.copy_to_device(np.zeros(4))
    fixed = host.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        there.copy_to_host(fixed)
    cuda.to_device(fixed)[0] = 5
    there.readonly = True
    with pytest.raises(ValueError, match="read-only"):
        there.copy_to_device(host)
    with pytest.raises(ValueError, match="read-only"):
        there[:] = host
    there.close()
    with pytest.raises(ValueError, match="close"):
        there.copy_to_host()


def test_in_a_capture_pageable_memory_is_not_copied():
    there = cuda.to_device(np.arange(3))
    try:
        capture = cuda.graph()
    except haulage.errors.Unsupported as error:
        pytest.skip(str(error))
    with capture:
        add_one[1, 3](there)
        with pytest.raises(CaptureError):
            there.copy_to_host()


def test_elements_cannot_be_deleted():
    with pytest.raises(TypeError, match="cannot be deleted"):
        del cuda.to_device(np.arange(3))[0]
