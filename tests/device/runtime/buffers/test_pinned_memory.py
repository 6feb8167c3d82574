"""Pinned memory goes away with the last array that stands on it, and is used again."""

import gc
import threading

import numpy as np
import pytest

import haulage
from doubles.watched import watched_device
from haulage import cuda
from haulage.backends.base import MAPPED, PINNED, PORTABLE, WRITE_COMBINED
from haulage.runtime.buffers.pinned_memory import block_of
from haulage.runtime.process import runtime

N = 5000


@pytest.fixture(params=["cpu", "far"])
def driver(request, monkeypatch):
    """The driver of the current device, which is pooled and counts the calls."""
    monkeypatch.delenv("HAULAGE_MEMORY", raising=False)
    monkeypatch.setattr(runtime.current, "adversary_seed", None)
    with watched_device(request.param) as device:
        yield device.backend


@pytest.fixture
def asked(driver, monkeypatch):
    """(kind, flags) of each allocation of the driver from now on."""
    found = []
    alloc = driver.inner.alloc

    def noting(nbytes, kind, flags=0):
        found.append((kind, flags))
        return alloc(nbytes, kind, flags)

    monkeypatch.setattr(driver.inner, "alloc", noting)
    return found


def in_use():
    gc.collect()
    return haulage.memory.stats(cuda.get_current_device()).in_use


@pytest.mark.usefixtures("driver")
def test_the_last_view_keeps_the_memory():
    array = cuda.pinned_array((N, 3))
    array[...] = 7
    before = in_use()
    part = array[10:20, 1]
    copy = array.copy()
    del array
    assert in_use() == before
    assert part.tolist() == [7] * 10
    del part
    assert in_use() == before - 24 * N
    assert copy[0, 0] == 7


def test_memory_that_went_is_had_again_without_the_driver(driver):
    first = cuda.pinned_array(N)
    address = first.ctypes.data
    del first
    driver.count_from_here()
    second = cuda.pinned_array(N)
    assert second.ctypes.data == address
    assert "alloc" not in driver.stop_counting()


def test_memory_that_a_stream_reads_is_not_had_again_before(driver):
    stream, there = cuda.stream(), cuda.device_array(N)
    opened = threading.Event()
    source = cuda.pinned_array(N)
    source[...] = np.arange(N)
    address = source.ctypes.data
    stream.add_callback(lambda *_: opened.wait(60))
    there.copy_to_device(source, stream=stream)
    del source
    other = cuda.pinned_array(N)
    other[...] = -1
    assert other.ctypes.data != address
    opened.set()
    stream.synchronize()
    assert np.array_equal(there.copy_to_host(), np.arange(N))
    assert driver.violations == []


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"portable": True}, PORTABLE),
        ({"wc": True}, WRITE_COMBINED),
        ({"portable": True, "wc": True}, PORTABLE | WRITE_COMBINED),
    ],
    ids=["portable", "wc", "both"],
)
def test_memory_of_some_flags_is_not_had_by_others(asked, options, flags):
    special = cuda.mapped_array(N, **options)
    assert asked == [(MAPPED, flags)]
    assert special.hints == tuple(options)
    assert special[3:].hints == tuple(options)
    address = special.ctypes.data
    del special
    plain = cuda.mapped_array(N)
    assert asked[1:] == [(MAPPED, 0)]
    assert plain.hints == ()
    assert plain.ctypes.data != address
    again = cuda.mapped_array(N, **options)
    assert again.ctypes.data == address


def test_pinned_and_mapped_memory_are_apart(asked):
    address = cuda.pinned_array(N).ctypes.data
    assert cuda.mapped_array(N).ctypes.data != address
    assert asked == [(PINNED, 0), (MAPPED, 0)]


def test_pinning_twice_is_an_error_that_leaves_the_first_as_it_is(driver):
    host, other = np.arange(float(N)), np.arange(float(N))
    with cuda.pinned(host):
        for again in (host, host[5:10], host.view(np.uint8)):
            with pytest.raises(ValueError, match="pinned already"), cuda.pinned(other, again):
                pass
        assert driver.held()["registration"] == 1
        stream = cuda.stream()
        there = cuda.to_device(host, stream=stream)
        stream.synchronize()
    assert driver.held()["registration"] == 0
    assert np.array_equal(there.copy_to_host(), host)
    with cuda.pinned(host, other):
        pass


@pytest.mark.usefixtures("driver")
def test_a_closed_block_is_no_memory_of_the_device_any_more():
    array = cuda.pinned_array(N)
    array[...] = 5
    block_of(array).close()
    with pytest.raises(ValueError, match=r"given back by close\(\)"):
        cuda.to_device(array, stream=cuda.stream())
    assert array[N - 1] == 5
