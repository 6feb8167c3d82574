"""The CPU device's memory, shared and private, registrations, copies and fills."""

import ctypes
import dataclasses
import errno
import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haulage.backends.base import DEVICE, KINDS, PINNED
from haulage.backends.cpu_driver import copies, processor
from haulage.backends.cpu_driver.memory import PAGE, Memory
from haulage.errors import DeviceError, OutOfMemory, Unsupported

if sys.platform == "linux":
    from haulage.backends.cpu_driver import ipc, shared_pages


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


# ---- whole pages and pieces of slabs ------------------------------------------------------------

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes share memory on Linux only")


def test_freed_pieces_are_used_again():
    memory = Memory()
    first = [memory.alloc(700, DEVICE) for _ in range(100)]
    for pointer in first:
        memory.free(pointer, DEVICE)
    assert {memory.alloc(1024, DEVICE) for _ in range(100)} == set(first)


def test_kinds_share_no_page():
    memory = Memory()
    pages = {kind: {memory.alloc(100, kind) // PAGE for _ in range(50)} for kind in KINDS}
    assert sum(map(len, pages.values())) == len(set().union(*pages.values()))


def mappings_and_files():
    """How many mappings of memory files, and open files, this process has."""
    mappings = Path("/proc/self/maps").read_text().count(shared_pages.NAME)
    return mappings, len(os.listdir("/proc/self/fd"))


@pytest.fixture
def before():
    """`mappings_and_files` before the test; what earlier tests left to the collector is gone."""
    gc.collect()
    return mappings_and_files()


@linux
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("alloc"), st.sampled_from((1, 256, 257, 1000, 4096, 4097, 10_000))),
            st.tuples(st.sampled_from(("free", "share", "fork")), st.integers(0, 100)),
        ),
        max_size=60,
    )
)
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_contents_stay_whatever_is_shared_and_freed(before, steps):
    memory, held, number = Memory(), {}, 0
    for step, argument in steps:
        if step == "alloc":
            number += 1
            pointer = memory.alloc(argument, DEVICE)
            assert pointer % 256 == 0
            held[pointer] = bytes([number]) * argument
            ctypes.memmove(pointer, held[pointer], argument)
        elif step == "fork":
            memory.renew()  # as in a child: all is private again
            assert mappings_and_files() == before
        elif held:
            pointer = list(held)[argument % len(held)]
            if step == "free":
                memory.free(pointer, DEVICE)
                del held[pointer]
            else:
                handle = memory.share(pointer)
                assert memory.is_shared(pointer)
                assert memory.share(pointer) == handle
                again, nbytes = ipc.open_handle(handle)
                assert ctypes.string_at(again, nbytes) == held[pointer]
                ipc.close(again)
        for pointer, contents in held.items():
            assert ctypes.string_at(pointer, len(contents)) == contents
    for pointer in held:
        memory.free(pointer, DEVICE)
    assert not memory._lent
    assert mappings_and_files() == before
    assert len({*memory._pieces[DEVICE][0]}) == len(memory._pieces[DEVICE][0])


@linux
def test_a_shared_page_gives_no_new_memory_until_all_on_it_is_freed(before):
    memory = Memory()
    first, second = memory.alloc(10, DEVICE), memory.alloc(10, DEVICE)
    assert first // PAGE == second // PAGE
    memory.share(first)
    others = [memory.alloc(10, DEVICE) for _ in range(300)]
    assert first // PAGE not in {other // PAGE for other in others}
    memory.free(first, DEVICE)
    assert memory.is_shared(second)
    memory.free(second, DEVICE)
    assert memory.alloc(10, DEVICE) // PAGE == first // PAGE
    assert mappings_and_files() == before


@linux
def test_only_device_memory_is_shared():
    memory = Memory()
    for kind in set(KINDS) - {DEVICE}:
        with pytest.raises(DeviceError, match=f"{kind} memory cannot be shared"):
            memory.share(memory.alloc(10, kind))
    with pytest.raises(DeviceError, match="no memory of the cpu device is allocated at 0x3e8"):
        memory.share(1000)


@linux
@pytest.mark.parametrize("nbytes", [100, 100_000])
@pytest.mark.parametrize(
    ("what", "number", "expected"),
    [
        ("memfd_create", errno.EMFILE, "too many open files"),
        ("pwrite", errno.ENOSPC, "the system has no room"),
        ("lay_under", errno.EACCES, "the system refused"),
    ],
)
def test_a_refusal_leaves_memory_as_it_was(monkeypatch, before, nbytes, what, number, expected):
    memory = Memory()
    pointer, neighbour = memory.alloc(nbytes, DEVICE), memory.alloc(nbytes, DEVICE)
    ctypes.memset(pointer, 7, nbytes)
    ctypes.memset(neighbour, 8, nbytes)

    def refuse(*args):
        error = OSError(number, "refused")
        raise shared_pages._refused(error, nbytes) if what == "lay_under" else error

    with monkeypatch.context() as patch:
        patch.setattr(shared_pages if what == "lay_under" else os, what, refuse)
        with pytest.raises(DeviceError, match=f"sharing [0-9,]+ bytes .*{expected}"):
            memory.share(pointer)
    assert mappings_and_files() == before
    assert not memory.is_shared(pointer)
    assert ctypes.string_at(pointer, nbytes) == b"\7" * nbytes
    assert ctypes.string_at(neighbour, nbytes) == b"\10" * nbytes
    memory.share(pointer)
    for allocated in (pointer, neighbour):
        memory.free(allocated, DEVICE)


@linux
def test_sharing_needs_room_for_a_copy(monkeypatch):
    memory = Memory()
    pointer = memory.alloc(30 << 20, DEVICE)
    monkeypatch.setattr(processor, "memory", lambda: (20 << 20, 100 << 20))
    with pytest.raises(OutOfMemory, match=r"31,457,280 bytes of shared memory"):
        memory.share(pointer)
    memory.free(pointer, DEVICE)


def test_elsewhere_than_on_linux_sharing_is_unsupported(monkeypatch):
    memory = Memory()
    pointer = memory.alloc(10, DEVICE)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unsupported, match=r"on Linux only, this is win32; copy the array"):
        memory.share(pointer)


# ---- handles ------------------------------------------------------------------------------------


@pytest.fixture
def exported():
    """(memory, pointer, handle) of 1000 exported bytes."""
    memory = Memory()
    pointer = memory.alloc(1000, DEVICE)
    yield memory, pointer, memory.share(pointer)
    if pointer in memory._allocated:
        memory.free(pointer, DEVICE)


@linux
def test_a_handle_of_freed_memory_opens_nothing(exported):
    memory, pointer, handle = exported
    neighbour = memory.alloc(1000, DEVICE)
    memory.share(neighbour)
    memory.free(pointer, DEVICE)
    with pytest.raises(DeviceError, match=r"the 1,000 bytes that process \d+ exported are gone"):
        ipc.open_handle(handle)
    memory.free(neighbour, DEVICE)
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(handle)


@linux
def test_the_handle_of_freed_memory_is_not_that_of_memory_allocated_there_later():
    memory = Memory()
    pointer = memory.alloc(100_000, DEVICE)
    handle = memory.share(pointer)
    memory.free(pointer, DEVICE)
    again = memory.alloc(100_000, DEVICE)
    new = memory.share(again)
    assert ipc.Handle.read(new).file == ipc.Handle.read(handle).file, "the number is used again"
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(handle)
    ipc.close(ipc.open_handle(new)[0])
    memory.free(again, DEVICE)


@linux
@pytest.mark.parametrize("kind", ["file", "pipe", "device", "closed"])
def test_a_handle_never_opens_a_file_that_is_none_of_ours(exported, kind, tmp_path):
    *_, handle = exported
    (tmp_path / "file").write_bytes(bytes(2 * PAGE))
    ends = os.pipe()
    number = {"pipe": ends[0], "closed": 900}.get(kind)
    if number is None:
        path = tmp_path / "file" if kind == "file" else "/dev/null"
        number = os.open(path, os.O_RDWR)
    wrong = dataclasses.replace(ipc.Handle.read(handle), file=number)
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(bytes(wrong))
    for end in {*ends, number} - {900}:
        os.close(end)


@linux
def test_a_handle_of_another_machine_is_refused(exported):
    *_, handle = exported
    machine = ipc.Handle.read(handle).machine
    with pytest.raises(DeviceError, match="on another machine, in another container"):
        ipc.open_handle(bytes(dataclasses.replace(ipc.Handle.read(handle), machine=machine ^ 1)))


@linux
def test_a_handle_of_another_user_is_refused(exported, monkeypatch):
    def denied(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    *_, handle = exported
    monkeypatch.setattr(os, "readlink", denied)
    with pytest.raises(DeviceError, match="only processes of the same user"):
        ipc.open_handle(handle)


@linux
@pytest.mark.parametrize("wrong", [b"", b"x" * 64, b"HaulIPC1"])
def test_what_is_no_handle_is_a_value_error(wrong):
    with pytest.raises(ValueError, match=f"^{len(wrong)} bytes that are no IPC handle"):
        ipc.open_handle(wrong)


@linux
def test_what_is_not_open_cannot_be_closed(exported):
    address, nbytes = ipc.open_handle(exported[2])
    assert nbytes == 1000
    ipc.close(address)
    with pytest.raises(DeviceError, match="nothing that was opened is there"):
        ipc.close(address)


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
