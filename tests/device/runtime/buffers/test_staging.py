"""Large copies of pageable memory go by way of pinned buffers, where a device says so."""

import threading
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from doubles.watched import watched_device
from haulage import cuda
from haulage.errors import OutOfMemory
from haulage.runtime.buffers import staging

DTYPES = [
    np.dtype(name) for name in ("u1", "i2", "f4", "f8", "c16", "V3", "V24", "M8[ns]", "S7")
] + [
    np.dtype([("a", "u1"), ("b", "f8")], align=True),
    np.dtype({"names": ["x", "y"], "formats": ["i4", "f4"], "offsets": [4, 20], "itemsize": 32}),
]


@pytest.fixture
def small_buffers(monkeypatch):
    """Copies of 64 bytes go by buffers of 96 bytes at most."""
    monkeypatch.setattr(staging, "LEAST", 64)
    monkeypatch.setattr(staging, "LARGEST_BUFFER", 96)


@pytest.fixture
def driver():
    """The driver of the current device, which counts the calls."""
    with watched_device("far") as device:
        yield device.backend


def bytes_of(start, dtype):
    """Makes arrays of a shape whose bytes, padding too, count from `start`."""

    def made(shape):
        raw = (np.arange(dtype.itemsize * prod(shape)) + start) % 97
        return np.ndarray(shape, dtype, raw.astype(np.uint8))

    return made


@st.composite
def regions(draw):
    """(dtype, shape, what makes a view of that shape of a larger host array, the same on the
    device)."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))

    def side():
        steps = [draw(st.sampled_from([1, 1, -1, 2, -3])) for _ in shape]
        axes = draw(st.permutations(range(len(shape))))
        return steps, axes

    return dtype, shape, side(), side()


def view_of(base_of, shape, side):
    """(larger array, a view of `shape` of it)."""
    steps, axes = side
    inner = [0] * len(shape)
    for at, axis in enumerate(axes):
        inner[at] = shape[axis] * abs(steps[axis])
    base = base_of(tuple(inner))
    turned = base.transpose([axes.index(axis) for axis in range(len(shape))])
    return base, turned[tuple(slice(None, None, step) for step in steps)]


@pytest.mark.usefixtures("far", "small_buffers")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(regions(), st.booleans())
def test_any_region_arrives_and_its_neighbours_stay(region, in_stream):
    dtype, shape, host_side, device_side = region
    stream = cuda.stream() if in_stream else 0
    _, host = view_of(bytes_of(1, dtype), shape, host_side)
    before, model = view_of(bytes_of(40, dtype), shape, device_side)
    there_base, there = view_of(lambda inner: cuda.to_device(before), shape, device_side)
    there.copy_to_device(host, stream=stream)
    for part in dtype.names or [...]:
        model[part] = host[part]
    back = there_base.copy_to_host(stream=stream)
    assert all(
        np.array(back[part]).tobytes() == np.array(before[part]).tobytes()
        for part in dtype.names or [...]
    )
    base, target = view_of(bytes_of(60, dtype), shape, host_side)
    model_base, model = view_of(bytes_of(60, dtype), shape, host_side)
    for part in dtype.names or [...]:
        model[part] = host[part]
    there.copy_to_host(target, stream=stream)
    assert base.tobytes() == model_base.tobytes()


@pytest.mark.usefixtures("far", "small_buffers")
@pytest.mark.parametrize("size", [7, 8, 9, 11, 12, 13, 47, 48, 49, 1000])
def test_borders_of_buffers(size):
    host = np.arange(float(size))
    there = cuda.to_device(host)
    assert np.array_equal(there.copy_to_host(), host)
    there[1:] = host[:-1]
    assert np.array_equal(there.copy_to_host()[1:], host[:-1])


@pytest.mark.usefixtures("far", "small_buffers")
def test_what_the_source_repeats_is_repeated():
    row = np.arange(20.0)
    there = cuda.device_array((30, 20))
    there.copy_to_device(np.broadcast_to(row, (30, 20)))
    assert np.array_equal(there.copy_to_host(), np.broadcast_to(row, (30, 20)))
    repeated = cuda.device_array((30, 20), strides=(0, 8))
    repeated.copy_to_device(np.broadcast_to(row, (30, 20)))
    assert np.array_equal(repeated.copy_to_host(), np.broadcast_to(row, (30, 20)))


def test_large_pageable_copies_go_by_pinned_buffers_which_go_back(driver):
    host = np.arange(staging.LEAST // 2, dtype=np.int64)
    there = cuda.device_array_like(host)
    held = driver.held()
    for direction in (there.copy_to_device, there.copy_to_host):
        driver.count_from_here()
        direction(host)
        calls = driver.stop_counting()
        assert calls.count("copy") >= staging.BUFFERS
        assert calls.count("alloc") <= staging.BUFFERS
    cuda.synchronize()
    haulage.memory.trim()
    assert driver.held() == held
    assert driver.violations == []


@pytest.mark.parametrize("size", [10, staging.LEAST // 8 - 1])
def test_small_copies_are_one_call(driver, size):
    host = np.arange(float(size))
    there = cuda.device_array_like(host)
    driver.count_from_here()
    there.copy_to_device(host)
    calls = driver.stop_counting()
    assert calls.count("copy") == 1
    assert "alloc" not in calls


def test_pinned_memory_is_copied_as_it_is(driver):
    host = cuda.pinned_array(staging.LEAST)
    there = cuda.device_array_like(host)
    pageable = np.zeros(staging.LEAST)
    with cuda.pinned(pageable):
        driver.count_from_here()
        there.copy_to_device(host)
        there.copy_to_host(host, stream=cuda.stream())
        there.copy_to_device(pageable)
        calls = driver.stop_counting()
    assert calls.count("copy") == 3
    assert "alloc" not in calls


def test_the_host_runs_ahead_of_the_device_by_the_ring(driver):
    host = np.arange(4 * staging.LEAST, dtype=np.uint8)
    stream, opened = cuda.stream(), threading.Event()
    there = cuda.device_array_like(host)
    stream.add_callback(lambda *_: opened.wait(60))
    driver.count_from_here()
    copying = threading.Thread(target=there.copy_to_device, args=(host, stream))
    copying.start()
    for _ in range(1000):
        if driver.calls.count("event_record") == staging.BUFFERS:
            break
        copying.join(0.01)
    assert copying.is_alive()
    assert driver.stop_counting().count("copy") == staging.BUFFERS
    opened.set()
    copying.join()
    assert np.array_equal(there.copy_to_host(), host)


def test_an_array_that_is_closed_after_a_copy_is_not_written_to(driver):
    host = np.arange(staging.LEAST, dtype=np.uint8)
    for _ in range(5):
        with cuda.device_array_like(host) as there:
            there.copy_to_device(host, stream=cuda.stream())
    cuda.synchronize()
    assert driver.violations == []


def test_without_pinned_memory_copies_are_as_right(driver, monkeypatch):
    host = np.arange(staging.LEAST, dtype=np.uint8)
    there = cuda.device_array_like(host)
    alloc = driver.inner.alloc

    def none_pinned(nbytes, kind, flags=0):
        if kind == "pinned":
            raise OutOfMemory("no pinned memory")
        return alloc(nbytes, kind, flags)

    monkeypatch.setattr(driver.inner, "alloc", none_pinned)
    there.copy_to_device(host)
    assert np.array_equal(there.copy_to_host(), host)
