"""Units of the CPU device's memory that processes share, their pieces, and the handles of these."""

import ctypes
import dataclasses
import errno
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage.backends.base import DEVICE
from haulage.backends.cpu import CPUBackend
from haulage.backends.cpu_driver import processor, ranges
from haulage.backends.cpu_driver.memory import PAGE, Memory
from haulage.backends.cpu_driver.units import Units
from haulage.errors import DeviceError, OutOfMemory, Unsupported

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes share memory on Linux only"
)

if sys.platform == "linux":
    from haulage.backends.cpu_driver import ipc, mappings, shared_pages

UNIT = 64 << 10
CELL = 512


def mappings_and_files():
    """How many mappings of memory files, and open files, this process has."""
    mappings = Path("/proc/self/maps").read_text().count(shared_pages.NAME)
    return mappings, len(os.listdir("/proc/self/fd"))


@pytest.fixture
def before():
    """`mappings_and_files` before the test; what earlier tests left to the collector is gone."""
    gc.collect()
    return mappings_and_files()


@pytest.fixture
def unit():
    """(units, address of a unit of 64 KiB), which is full of 7."""
    start = ranges.reserve(UNIT)
    ranges.put(start, UNIT)
    ctypes.memset(start, 7, UNIT)
    units = Units()
    yield units, start
    units.vacate(start, UNIT)
    ranges.release(start, UNIT)


def contents(handle):
    """What another process finds by a handle."""
    address, nbytes = ipc.open_handle(handle)
    try:
        return ctypes.string_at(address, nbytes)
    finally:
        ipc.close(address)


# ---- units and their pieces ---------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("write", "export", "withdraw", "fork", "trim")), st.integers(0, 100)
        ),
        max_size=60,
    )
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_contents_stay_whatever_is_exported_and_withdrawn(before, steps):
    units, number = Units(), 0
    start = ranges.reserve(4 * UNIT)
    ranges.put(start, 4 * UNIT)
    ctypes.memset(start, 0, 4 * UNIT)
    cells = {start + k * UNIT + j * 5 * CELL: bytes(CELL) for k in range(3) for j in range(5)}
    alone = start + 3 * UNIT
    cells[alone] = bytes(UNIT)
    exported, away = {}, set()

    def place(pointer):
        return (
            (alone, UNIT) if pointer == alone else (start + (pointer - start) // UNIT * UNIT, UNIT)
        )

    for step, argument in steps:
        pointer = sorted(cells)[argument % len(cells)]
        nbytes = len(cells[pointer])
        if step == "write":
            number += 1
            cells[pointer] = bytes([number]) * nbytes
            ctypes.memset(pointer, number, nbytes)
        elif step == "export" and pointer not in away:
            handle = units.handle(pointer, nbytes, place(pointer)[0])
            handle = handle or units.share(pointer, nbytes, *place(pointer))
            assert exported.setdefault(pointer, handle) == handle
            assert contents(handle) == cells[pointer]
        elif step == "withdraw" and pointer in exported:
            mapped, nbytes = ipc.open_handle(exported.pop(pointer))
            free = units.withdraw(pointer)
            neighbours = {p for p in exported if place(p) == place(pointer)}
            away.add(pointer)
            if neighbours:
                assert free == ()
            else:
                assert set(free) == {p for p in away if place(p) == place(pointer)}
                away.difference_update(free)
                ctypes.memset(mapped, 255, nbytes)  # of no consequence any more
                if pointer == alone:
                    cells[alone] = bytes(UNIT)
            ipc.close(mapped)
        elif step == "fork":
            units.renew()  # as in a child: all is private again
            exported.clear()
            away.clear()
            assert len(os.listdir("/proc/self/fd")) == before[1]
        elif step == "trim" and not exported:
            ctypes.memset(start, 0, UNIT)
            units.vacate(start, UNIT)
            ranges.take(start, UNIT)
            ranges.put(start, UNIT)
            cells |= {p: bytes(CELL) for p in cells if p < start + UNIT}
        for where, expected in cells.items():
            assert ctypes.string_at(where, len(expected)) == expected
    units.vacate(start, 4 * UNIT)
    assert mappings_and_files() == before
    ranges.release(start, 4 * UNIT)


def test_a_withdrawn_piece_is_not_free_while_neighbours_can_be_opened(unit):
    units, start = unit
    first, second, third = start, start + CELL, start + 9 * CELL
    handles = [units.share(p, CELL, start, UNIT) for p in (first, second, third)]
    assert units.withdraw(first) == ()
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(handles[0])
    assert contents(handles[1]) == contents(handles[2]) == b"\7" * CELL
    assert units.withdraw(third) == ()
    assert units.withdraw(second) == (first, third, second)
    assert ctypes.string_at(start, UNIT) == b"\7" * UNIT


def test_a_piece_that_was_never_exported_is_free(unit):
    units, start = unit
    assert units.withdraw(start) == (start,)


def test_what_others_still_have_open_reaches_a_withdrawn_unit_no_more(unit):
    units, start = unit
    mapped, _ = ipc.open_handle(units.share(start + CELL, CELL, start, UNIT))
    assert units.withdraw(start + CELL) == (start + CELL,)
    ctypes.memset(mapped - CELL, 1, UNIT)  # the whole unit, none of whose pages was touched since
    assert ctypes.string_at(start, UNIT) == b"\7" * UNIT
    ctypes.memset(start, 2, UNIT)
    assert ctypes.string_at(mapped, CELL) == b"\1" * CELL
    ipc.close(mapped)


def test_a_unit_is_as_large_as_it_is(before):
    size = 3 << 20
    start = ranges.reserve(4 << 20)
    ranges.put(start, size)
    ctypes.memset(start, 5, size)
    units = Units()
    last = start + size - 256
    handles = [
        units.share(piece, 256, start, size) for piece in range(start, start + size, 1 << 20)
    ]
    handles.append(units.share(last, 256, start, size))
    assert all(contents(handle) == b"\5" * 256 for handle in handles)
    units.withdraw(last)
    assert contents(handles[0]) == b"\5" * 256
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(handles[-1])
    units.vacate(start, size)
    assert mappings_and_files() == before
    ranges.release(start, 4 << 20)


def test_no_write_to_neighbours_is_lost_when_a_unit_becomes_private(unit):
    """Threads count in cells of their own, without the interpreter's lock, all the time."""
    units, start = unit
    words = np.frombuffer((ctypes.c_int64 * (UNIT // 8)).from_address(start), np.int64)
    words[:] = 0
    running, counts = [True], [0] * 4

    def count(number):
        mine = words[number::4]
        while running[0]:
            for _ in range(50):
                np.add(mine, 1, out=mine)
            counts[number] += 50

    threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
    # It must be shared before they begin: that needs rest.
    units.share(start, CELL, start, UNIT)
    for thread in threads:
        thread.start()
    units.withdraw(start)
    running[0] = False
    for thread in threads:
        thread.join()
    for number in range(4):
        assert (words[number::4] == counts[number]).all()


def test_unmapped_pages_of_a_unit_hold_nothing_of_it(before):
    backend = CPUBackend()
    part = backend.granularity()
    start = backend.reserve(2 * part)
    backend.map(start, 2 * part)
    ctypes.memset(start, 7, 2 * part)
    for piece in (start, start + CELL):
        backend.ipc_export(piece, CELL, start, 2 * part)
    assert backend.ipc_withdraw(start) == ()
    assert len(backend.ipc_withdraw(start + CELL)) == 2
    backend.unmap(start + part, part)
    backend.map(start + part, part)
    assert ctypes.string_at(start, 2 * part) == b"\7" * part + bytes(part)
    backend.unmap(start, 2 * part)
    assert mappings_and_files() == before
    backend.release(start, 2 * part)


def test_a_forked_process_has_a_unit_of_its_own():
    script = """
import ctypes, os
from haulage.backends.cpu import CPUBackend

backend = CPUBackend()
part = backend.granularity()
start = backend.reserve(2 * part)
backend.map(start, 2 * part)
ctypes.memset(start, 7, 2 * part)
handle = backend.ipc_export(start, 512, start, part)  # shared
backend.ipc_export(start + part, 512, start + part, part)
backend.ipc_withdraw(start + part)  # was shared
child = os.fork()
if not child:
    ctypes.memset(start, 1, 2 * part)
    mapped, nbytes = backend.ipc_import(handle)
    assert ctypes.string_at(mapped, nbytes) == bytes([7]) * 512
    os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
assert ctypes.string_at(start, 2 * part) == bytes([7]) * (2 * part)
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(Path(haulage.__path__[0]).parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", "done")


# ---- what the system refuses --------------------------------------------------------------------


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
            memory.units.share(pointer, nbytes, pointer, nbytes)
    assert mappings_and_files() == before
    assert memory.units.handle(pointer, nbytes, pointer) is None
    assert ctypes.string_at(pointer, nbytes) == b"\7" * nbytes
    assert ctypes.string_at(neighbour, nbytes) == b"\10" * nbytes
    memory.units.share(pointer, nbytes, pointer, nbytes)
    for allocated in (pointer, neighbour):
        memory.free(allocated, DEVICE)
    assert mappings_and_files() == before


def test_a_unit_that_cannot_become_private_stays_shared(monkeypatch, unit, before):
    units, start = unit
    first, second = start, start + CELL
    handle = units.share(first, CELL, start, UNIT)

    def refuse(*args):
        raise OSError(errno.ENOMEM, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(mappings, "lay", refuse)
        with pytest.raises(OutOfMemory, match="sharing 65,536 bytes"):
            units.withdraw(first)
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(handle)
    assert ctypes.string_at(start, UNIT) == b"\7" * UNIT
    assert contents(units.handle(second, CELL, start)) == b"\7" * CELL
    assert units.withdraw(second) == (first, second)
    assert mappings_and_files()[1] == before[1]


def test_sharing_needs_room_for_a_copy(monkeypatch):
    memory = Memory()
    pointer = memory.alloc(30 << 20, DEVICE)
    monkeypatch.setattr(processor, "memory", lambda: (20 << 20, 100 << 20))
    with pytest.raises(OutOfMemory, match=r"31,457,280 bytes of shared memory"):
        memory.units.share(pointer, 30 << 20, pointer, 30 << 20)
    memory.free(pointer, DEVICE)


def test_elsewhere_than_on_linux_sharing_is_unsupported(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unsupported, match=r"on Linux only, this is win32; copy the array"):
        Units().share(1, 1, 1, 1)


# ---- handles ------------------------------------------------------------------------------------


@pytest.fixture
def exported():
    """(memory, pointer, handle) of 1000 exported bytes."""
    memory = Memory()
    pointer = memory.alloc(1000, DEVICE)
    yield memory, pointer, memory.units.share(pointer, 1000, pointer, 1000)
    if memory.size(pointer):
        memory.free(pointer, DEVICE)


def test_a_handle_of_freed_memory_opens_nothing(exported, before):
    memory, pointer, handle = exported
    memory.free(pointer, DEVICE)
    with pytest.raises(DeviceError, match=r"the 1,000 bytes that process \d+ exported are gone"):
        ipc.open_handle(handle)


def test_the_handle_of_freed_memory_is_not_that_of_memory_allocated_there_later():
    memory = Memory()
    pointer = memory.alloc(100_000, DEVICE)
    handle = memory.units.share(pointer, 100_000, pointer, 100_000)
    memory.free(pointer, DEVICE)
    again = memory.alloc(100_000, DEVICE)
    new = memory.units.share(again, 100_000, again, 100_000)
    assert ipc.Handle.read(new).file == ipc.Handle.read(handle).file, "the number is used again"
    with pytest.raises(DeviceError, match="are gone"):
        ipc.open_handle(handle)
    ipc.close(ipc.open_handle(new)[0])
    memory.free(again, DEVICE)


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


def test_a_handle_of_another_machine_is_refused(exported):
    *_, handle = exported
    machine = ipc.Handle.read(handle).machine
    with pytest.raises(DeviceError, match="on another machine, in another container"):
        ipc.open_handle(bytes(dataclasses.replace(ipc.Handle.read(handle), machine=machine ^ 1)))


def test_a_handle_of_another_user_is_refused(exported, monkeypatch):
    def denied(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    *_, handle = exported
    monkeypatch.setattr(os, "readlink", denied)
    with pytest.raises(DeviceError, match="only processes of the same user"):
        ipc.open_handle(handle)


@pytest.mark.parametrize("wrong", [b"", b"x" * 64, b"HaulIPC1"])
def test_what_is_no_handle_is_a_value_error(wrong):
    with pytest.raises(ValueError, match=f"^{len(wrong)} bytes that are no IPC handle"):
        ipc.open_handle(wrong)


def test_what_is_not_open_cannot_be_closed(exported):
    address, nbytes = ipc.open_handle(exported[2])
    assert nbytes == 1000
    ipc.close(address)
    with pytest.raises(DeviceError, match="nothing that was opened is there"):
        ipc.close(address)
