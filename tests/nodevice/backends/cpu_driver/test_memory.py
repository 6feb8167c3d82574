"""The CPU device's memory, registrations, copies and fills."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulage.backends.base import DEVICE, KINDS, PINNED
from haulage.backends.cpu_driver import copies, processor
from haulage.backends.cpu_driver.memory import PAGE, Memory
from haulage.errors import DeviceError, OutOfMemory


def address(array):
    return array.__array_interface__["data"][0]


def test_freed_memory_cannot_be_freed_again():
    memory = Memory()
    pointer = memory.alloc(10, DEVICE)
    memory.free(pointer, DEVICE)
    with pytest.raises(DeviceError, match="no device memory is allocated there"):
        memory.free(pointer, DEVICE)


def test_memory_is_freed_as_the_kind_it_was_allocated():
    memory = Memory()
    pointer = memory.alloc(10, DEVICE)
    with pytest.raises(DeviceError, match="as pinned memory, but it was allocated as device"):
        memory.free(pointer, PINNED)
    memory.free(pointer, DEVICE)


def test_more_than_is_free_is_refused_before_the_system_hands_it_out(monkeypatch):
    monkeypatch.setattr(processor, "memory", lambda: (20 << 20, 100 << 20))
    memory = Memory()
    with pytest.raises(OutOfMemory, match=r"31,457,280 bytes of pinned.*20,971,520 of 104,857,600"):
        memory.alloc(30 << 20, PINNED)
    memory.free(memory.alloc(19 << 20, PINNED), PINNED)


def test_each_allocation_has_its_pages_to_itself():
    memory = Memory()
    pages = [memory.alloc(nbytes, kind) for kind in KINDS for nbytes in (1, 100, PAGE, PAGE + 1)]
    assert all(page % PAGE == 0 for page in pages)
    owned = [range(p // PAGE, (p + memory.size(p) - 1) // PAGE + 1) for p in pages]
    assert len({number for some in owned for number in some}) == sum(map(len, owned))


def test_registered_ranges_do_not_overlap():
    memory = Memory()
    memory.register(1000, 100)
    for start, nbytes in ((1000, 100), (1099, 1), (900, 101), (1050, 10)):
        with pytest.raises(DeviceError, match="are registered already"):
            memory.register(start, nbytes)
    memory.register(1100, 10)
    memory.register(990, 10)


def test_unregistering_what_is_not_registered_is_an_error():
    memory = Memory()
    memory.register(1000, 100)
    with pytest.raises(DeviceError, match="nothing is registered there"):
        memory.unregister(1001)
    memory.unregister(1000)
    with pytest.raises(DeviceError, match="nothing is registered there"):
        memory.unregister(1000)


def test_a_container_limits_the_memory(tmp_path, monkeypatch):
    free, total = processor.memory()
    assert 0 < free <= total
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    monkeypatch.setattr(processor, "CGROUP", tmp_path)
    assert processor.memory() == (700_000, 1_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert processor.memory()[1] > 1_000_000


# ---- copies and fills -------------------------------------------------------------------------


@st.composite
def regions(draw):
    """(shape, source strides, target strides, itemsize): the target's elements are apart."""
    itemsize = draw(st.sampled_from((1, 2, 3, 4, 8, 12, 16, 24)))
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    sources = [draw(st.integers(-40, 40)) for _ in shape]
    targets = [0] * len(shape)
    step = itemsize
    for axis in draw(st.permutations(range(len(shape)))):
        step += draw(st.integers(0, 9))
        targets[axis] = step * draw(st.sampled_from((1, -1)))
        step *= max(1, shape[axis])
    return shape, sources, targets, itemsize


def span(shape, strides, itemsize):
    """(bytes before element 0, bytes from it on) that a region touches."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return -sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + itemsize


@given(regions(), st.integers(0, 7))
@settings(max_examples=300, deadline=None)
def test_strided_copies_move_each_element_and_nothing_else(region, shift):
    shape, sources, targets, itemsize = region
    before_src, after_src = span(shape, sources, itemsize)
    before_dst, after_dst = span(shape, targets, itemsize)
    src = np.random.default_rng(0).integers(0, 256, before_src + after_src + 16, np.uint8)
    dst = np.full(before_dst + after_dst + 16, 77, np.uint8)
    expected = dst.copy()
    for index in np.ndindex(*shape):
        a = before_src + shift + sum(i * s for i, s in zip(index, sources, strict=True))
        b = before_dst + shift + sum(i * s for i, s in zip(index, targets, strict=True))
        expected[b : b + itemsize] = src[a : a + itemsize]
    copies.copy_nd(
        address(dst) + before_dst + shift,
        targets,
        address(src) + before_src + shift,
        sources,
        shape,
        itemsize,
    )
    assert np.array_equal(dst, expected)


@given(st.binary(min_size=1, max_size=16), st.integers(0, 50), st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_fills_write_each_element_and_nothing_else(value, count, shift):
    target = np.full(16 + 50 * 16, 77, np.uint8)
    expected = target.copy()
    expected[shift : shift + count * len(value)] = np.frombuffer(value * count, np.uint8)
    copies.fill(address(target) + shift, value, count)
    assert np.array_equal(target, expected)
