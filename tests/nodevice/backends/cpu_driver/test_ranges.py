"""The CPU device's reserved addresses, and the memory behind their parts."""

import ctypes
import errno
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

import haulage
from haulage.backends.cpu import CPUBackend
from haulage.backends.cpu_driver import mappings, processor, ranges
from haulage.errors import DeviceError, OutOfMemory, Unsupported

linux = pytest.mark.skipif(sys.platform != "linux", reason="ranges are reserved on Linux only")

PART = ranges.GRANULARITY
MIB = 1 << 20
SOURCE = Path(haulage.__path__[0]).parent


@pytest.fixture
def reserved():
    """The address of 64 MiB of a range."""
    start = ranges.reserve(64 * MIB)
    yield start
    ranges.release(start, 64 * MIB)


def resident():
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(script):
    """What a script in a process of its own prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@linux
def test_memory_is_taken_when_it_is_used_and_goes_back_when_it_is_unmapped(reserved):
    before = resident()
    ranges.put(reserved, 64 * MIB)
    assert resident() < before + 8 * MIB
    ctypes.memset(reserved, 1, 64 * MIB)
    assert resident() > before + 56 * MIB
    ranges.take(reserved + 16 * MIB, 48 * MIB)
    assert resident() < before + 24 * MIB
    assert ctypes.string_at(reserved + 16 * MIB - 8, 8) == b"\1" * 8
    ranges.take(reserved, 16 * MIB)
    assert resident() < before + 8 * MIB


@linux
def test_what_is_not_mapped_cannot_be_reached(reserved):
    backend = CPUBackend()
    ranges.put(reserved + PART, PART)
    backend.check_address(reserved + PART, PART)
    for address in (reserved, reserved + 2 * PART):
        with pytest.raises(DeviceError, match="they are no memory of this process"):
            backend.check_address(address, 8)
    ranges.take(reserved + PART, PART)
    with pytest.raises(DeviceError, match="they are no memory of this process"):
        backend.check_address(reserved + PART, 8)


@linux
def test_a_forked_process_has_its_own_memory_there():
    script = """
import ctypes, os
from haulage.backends.cpu_driver import ranges

part = ranges.GRANULARITY
start = ranges.reserve(4 * part)
ranges.put(start, 2 * part)
ctypes.memset(start, 1, 2 * part)
read, write = os.pipe()
child = os.fork()
if not child:
    ctypes.memset(start, 2, part)
    ranges.take(start + part, part)
    ranges.put(start + 2 * part, part)
    ctypes.memset(start + 2 * part, 3, part)
    os.write(write, ctypes.string_at(start, 1) + ctypes.string_at(start + 2 * part, 1))
    ranges.release(start, 4 * part)
    os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
assert os.read(read, 2) == b"\\2\\3"
assert ctypes.string_at(start, 2 * part) == b"\\1" * (2 * part)
print("done")
"""
    assert run(script) == "done"


@linux
def test_addresses_that_were_released_are_found_again():
    size = 2 * processor.memory()[1]
    for _ in range(2 * (1 << 47) // size):
        ranges.release(ranges.reserve(size), size)


@linux
def test_large_ranges_fit_between_those_that_are_left(monkeypatch):
    size = 1 << 40
    monkeypatch.setattr(ranges, "_next", (1 << 47) - size)
    held = [ranges.reserve(size) for _ in range(8)]
    try:
        # Far from where the system puts libraries, each of its own.
        assert all(ranges._FIRST <= start < (1 << 46) for start in held)
        assert min(b - a for a, b in pairwise(sorted(held))) >= size
        ranges.release(held.pop(3), size)
        monkeypatch.setattr(ranges, "_next", (1 << 47) - size)
        held.append(ranges.reserve(size))
        assert held[-1] < max(held)
    finally:
        for start in held:
            ranges.release(start, size)


@linux
def test_threads_map_and_unmap_parts_of_one_range_at_once(reserved):
    wrong = []

    def work(number):
        for turn in range(60):
            parts = [reserved + (8 * k + number) * PART for k in range(8)]
            for part in parts:
                ranges.put(part, PART)
                ctypes.memset(part, number + turn + 1, PART)
            for part in parts:
                if ctypes.string_at(part, PART) != bytes([number + turn + 1]) * PART:
                    wrong.append((number, turn))
                ranges.take(part, PART)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@linux
def test_a_limit_of_addresses_is_out_of_memory_and_takes_nothing():
    script = """
import resource
from haulage.backends.cpu_driver import ranges
from haulage.errors import OutOfMemory

def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

ranges.release(ranges.reserve(1 << 20), 1 << 20)
limit = used() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = used()
for size in (512 << 20, 1 << 40, 1 << 62, 1 << 70):
    try:
        ranges.reserve(size)
    except OutOfMemory as error:
        assert f"{size:,} bytes" in str(error) and "ulimit -v" in str(error), error
    else:
        raise AssertionError(size)
    assert used() == before
start = ranges.reserve(128 << 20)
ranges.put(start, 1 << 20)
print("done")
"""
    assert run(script) == "done"


@linux
def test_more_than_is_free_is_refused_before_the_system_hands_it_out(reserved, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(processor, "memory", lambda: (20 * MIB, 100 * MIB))
        with pytest.raises(OutOfMemory, match=r"31,457,280 bytes of device.*20,971,520 of"):
            ranges.put(reserved, 30 * MIB)
    with pytest.raises(DeviceError, match="no memory of this process"):
        CPUBackend().check_address(reserved, 8)


@linux
def test_a_refused_map_changes_nothing(reserved, monkeypatch):
    real = mappings.protect

    def half(address, nbytes, protection):
        real(address, nbytes // 2, protection)
        if protection:
            raise OSError(errno.ENOMEM, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(mappings, "protect", half)
        with pytest.raises(OutOfMemory, match="cannot map 131,072 bytes"):
            ranges.put(reserved, 2 * PART)
    for part in (0, 1):
        with pytest.raises(DeviceError, match="no memory of this process"):
            CPUBackend().check_address(reserved + part * PART, 8)


@linux
def test_memory_goes_back_even_if_the_addresses_cannot_be_closed(reserved, monkeypatch):
    ranges.put(reserved, PART)
    ctypes.memset(reserved, 1, PART)

    def refuse(*args):
        raise OSError(errno.ENOMEM, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(mappings, "protect", refuse)
        ranges.take(reserved, PART)
    ranges.put(reserved, PART)
    assert ctypes.string_at(reserved, PART) == bytes(PART)


@linux
def test_unmapping_what_is_not_reserved_is_refused():
    start = ranges.reserve(PART)
    ranges.release(start, PART)
    with pytest.raises(DeviceError, match="cannot unmap 65,536 bytes"):
        ranges.take(start, PART)


def test_elsewhere_than_on_linux_no_addresses_are_reserved(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    backend = CPUBackend()
    assert backend.granularity() == 0
    for call in (backend.reserve, lambda n: backend.map(1, n), lambda n: backend.unmap(1, n)):
        with pytest.raises(Unsupported, match="the cpu back end has no"):
            call(1)


def test_no_more_memory_is_given_than_the_machine_has():
    """A device's memory ends, also where none of it is touched."""
    driver = CPUBackend()
    total = driver.memory_info()[1]
    size = 2 * total // ranges.GRANULARITY * ranges.GRANULARITY
    start = driver.reserve(size)
    half = total // 2 // ranges.GRANULARITY * ranges.GRANULARITY
    driver.map(start, half)
    try:
        with pytest.raises(OutOfMemory, match="are given out"):
            driver.map(start + half, half + 2 * ranges.GRANULARITY)
        driver.map(start + half, ranges.GRANULARITY)
        driver.unmap(start + half, ranges.GRANULARITY)
    finally:
        driver.unmap(start, half)
        driver.release(start, size)
