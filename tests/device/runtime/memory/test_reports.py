"""Who holds memory: the lines of the program that asked for it, and `haulage.memory.leaks`."""

import numpy as np
import pytest

import haulage
from haulage import cuda, memory
from haulage.errors import LeakError
from haulage.runtime import memory as runtime_memory
from haulage.runtime.process import call_sites

pytestmark = pytest.mark.usefixtures("device")


def line_of_next_call():
    """The line number after the one that calls this."""
    import sys

    return sys._getframe(1).f_lineno + 1


def test_report_names_the_line_that_asked(device):
    line = line_of_next_call()
    arrays = [cuda.device_array(100_000, np.uint8) for _ in range(3)]
    found = [h for h in memory.report(device).holdings if h.sites[0].line == line]
    assert len(found) == 1
    (holding,) = found
    assert (holding.nbytes, holding.blocks, holding.kind) == (300_000, 3, "device")
    assert holding.sites[0].filename == __file__
    assert 0 <= holding.newest <= holding.oldest < 60
    assert f"{__file__}:{line}" in memory.report()
    assert "300,000 bytes in 3 blocks, device memory" in memory.report()
    del arrays
    assert not [h for h in memory.report(device).holdings if h.sites[0].line == line]


def test_report_names_the_smart_arrays_that_memory_is_a_copy_for(device):
    arrays = [haulage.SmartArray(shape=n, dtype=np.uint8) for n in (100_001, 100_002)]
    made = line_of_next_call() - 2
    for each in arrays:
        each.get("gpu")
    (holding,) = [one for one in memory.report(device).holdings if one.copies_of]
    assert holding.copies_of == tuple(str(each.coherence.name) for each in arrays)
    assert f"made at test_reports.py:{made}" in holding.copies_of[0]
    assert str(holding).endswith(f" (for {holding.copies_of[0]}, {holding.copies_of[1]})")
    several = [haulage.SmartArray(shape=10) for _ in range(5)]
    for each in several:
        each.get("gpu")
    (holding,) = [one for one in memory.report(device).holdings if one.blocks == 5]
    assert (len(holding.copies_of), holding.copies_of[-1]) == (4, "2 others")


@pytest.mark.parametrize("layers", ["pool", "driver"])
@pytest.mark.parametrize("nbytes", [1000, 5_000_000])
@pytest.mark.parametrize("ask", [runtime_memory.allocate, runtime_memory.allocate_of_driver])
def test_memory_without_an_array_is_the_line_that_asked_too(
    device, ask, nbytes, layers, monkeypatch
):
    """As managers of memory ask for it, by the fewest of Haulage's frames."""
    monkeypatch.setenv("HAULAGE_MEMORY", layers)
    line = line_of_next_call()
    block = ask(device, nbytes)
    (site,) = call_sites.sites(block.call_site)
    assert (site.filename, site.line) == (__file__, line)
    assert site.function == "test_memory_without_an_array_is_the_line_that_asked_too"


def test_report_has_the_largest_first(device):
    small, large = cuda.device_array(10), cuda.device_array(1_000_000)
    sizes = [holding.nbytes for holding in memory.report(device).holdings]
    assert sizes == sorted(sizes, reverse=True)
    assert small.nbytes + large.nbytes <= sum(sizes)


def test_track_keeps_more_frames_inside(device):
    def inner():
        return cuda.device_array(10)

    def outer():
        return inner()

    with memory.track(frames=3):
        tracked = outer()
    alone = outer()
    functions = {
        tuple(site.function.rpartition(".")[2] for site in holding.sites)
        for holding in memory.report(device).holdings
    }
    assert ("inner", "outer", "test_track_keeps_more_frames_inside") in functions
    assert ("inner",) in functions
    del tracked, alone


@pytest.mark.parametrize("frames", [0, -1, True, 1.5])
def test_track_refuses_what_is_no_number_of_frames(frames):
    with pytest.raises((TypeError, ValueError), match="frames"):
        memory.track(frames=frames)


def test_out_of_memory_says_who_holds_it(device):
    line = line_of_next_call()
    holder = cuda.device_array(1 << 20, np.uint8)
    with pytest.raises(MemoryError) as error:
        cuda.device_array(1 << 50, np.uint8)
    message = str(error.value)
    assert f"{1 << 50:,} bytes of device memory" in message
    assert f"{__file__}:{line}" in message
    for word in ("free on the device", "held by others", "fragmented"):
        assert word in message
    del holder


def test_leaks_fails_with_the_report_of_what_is_left(device):
    check = memory.leaks()
    check.__enter__()
    line = line_of_next_call()
    kept = cuda.device_array(1234, np.uint8)
    with pytest.raises(LeakError) as error:
        check.__exit__(None, None, None)
    assert "1,234 bytes" in str(error.value)
    assert f"{__file__}:{line}" in str(error.value)
    assert isinstance(error.value, AssertionError)
    del kept


def test_leaks_is_silent_where_nothing_is_left(device):
    outside = cuda.device_array(10)
    with memory.leaks():
        cuda.device_array(10)
        cycle = [cuda.device_array(10)]
        cycle.append(cycle)
        del cycle
    assert outside.size == 10


def test_leaks_does_not_hide_what_failed_inside():
    def fail():
        with memory.leaks():
            kept.append(cuda.device_array(20))
            raise ZeroDivisionError

    kept = []
    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(kept) == 1
