"""`haulage.memory`: who holds memory, how much of it, and how much there may be."""

import gc
import json

import numpy as np
import pytest

import haulage
from haulage import cuda, memory
from haulage.errors import LeakError
from haulage.runtime import memory as runtime_memory
from haulage.runtime.memory import owners

pytestmark = pytest.mark.usefixtures("device")


def line_of_next_call():
    """The line number after the one that calls this."""
    import sys

    return sys._getframe(1).f_lineno + 1


def test_stats_have_totals_and_parts(device):
    before = memory.stats(device)
    stream = cuda.stream()
    array = cuda.device_array(1000, np.uint8)
    bound = cuda.device_array(500, np.uint8, stream=stream)
    pinned = cuda.pinned_array(300, np.uint8)
    after = memory.stats(device)
    assert after.in_use - before.in_use == 1800
    assert after.allocations - before.allocations == 3
    assert after.peak >= after.in_use
    assert after.reserved >= after.in_use
    assert after.by_device[str(device)].in_use == after.in_use
    assert after[str(device)]["pinned"] == after.by_kind["pinned"]
    assert sum(usage.in_use for usage in after.by_kind.values()) == after.in_use
    assert sum(usage.in_use for usage in after.by_stream.values()) == after.in_use
    if haulage.runtime.adversary.seed is None:
        assert after.by_stream[str(device), stream.handle].in_use == 500
    del array, bound, pinned
    stream.synchronize()
    assert memory.stats(device).in_use == before.in_use


def test_reset_peak_begins_anew(device):
    big = cuda.device_array(1 << 20, np.uint8)
    held = memory.stats(device).in_use
    del big
    assert memory.stats(device).peak >= held
    memory.reset_peak(device)
    assert memory.stats(device).peak == memory.stats(device).in_use < held


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
    assert f"made at test_memory.py:{made}" in holding.copies_of[0]
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
    (site,) = owners.sites(block.mark)
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


def test_beyond_a_limit_there_is_no_room(device):
    held = memory.stats(device).in_use
    memory.limit(held + 10_000, device)
    try:
        fits = cuda.device_array(8000, np.uint8)
        with pytest.raises(MemoryError, match=r"limit\(\)"):
            cuda.device_array(4000, np.uint8)
        fits.close()
        cuda.device_array(8000, np.uint8)
    finally:
        memory.limit(None, device)
    cuda.device_array(20_000, np.uint8)


@pytest.mark.parametrize("nbytes", [-1, 1.5, "1 GB", True])
def test_limit_refuses_what_is_no_number_of_bytes(nbytes):
    with pytest.raises((TypeError, ValueError), match="limit"):
        memory.limit(nbytes)
    cuda.device_array(10)


def test_the_peak_of_all_follows_that_of_a_device_that_was_reset(device):
    memory.reset_peak()
    before = memory.stats().in_use
    array = cuda.device_array(1 << 26, np.uint8)
    array.close()
    assert memory.stats().peak >= 1 << 26
    memory.reset_peak(device)
    stats = memory.stats()
    assert stats.in_use <= stats.peak < before + (1 << 26)


def test_limit_takes_its_bytes_by_name(device):
    memory.limit(bytes=memory.stats(device).in_use + 10, device=device)
    try:
        with pytest.raises(MemoryError, match=r"limit\(\)"):
            cuda.device_array(4000, np.uint8)
    finally:
        memory.limit(bytes=None, device=device)
    cuda.device_array(4000, np.uint8)


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


def test_a_callback_can_make_room(device):
    keep = [cuda.device_array(10_000, np.uint8)]
    asked = []

    def drop(where, nbytes):
        asked.append((where, nbytes))
        return bool(keep and keep.pop())

    memory.limit(memory.stats(device).in_use + 5000, device)
    try:
        with memory.on_out_of_memory(drop):
            made = cuda.device_array(9000, np.uint8)
        assert asked == [(device, 9000)]
        with pytest.raises(MemoryError):
            cuda.device_array(90_000, np.uint8)
        assert len(asked) == 1
    finally:
        memory.limit(None, device)
    del made


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


def test_trim_gives_free_memory_back(device):
    gc.collect()
    cuda.synchronize()  # what earlier tests have left
    memory.trim(device)
    before = memory.stats(device).reserved
    array = cuda.device_array(50_000_000, np.uint8)
    assert memory.stats(device).reserved >= 50_000_000
    del array
    memory.trim(device)
    assert memory.stats(device).reserved <= before


def test_a_snapshot_is_json_with_each_block(device):
    array = cuda.device_array(4321, np.uint8)
    shown = json.loads(json.dumps(memory.snapshot()))
    (block,) = [b for b in shown["blocks"] if b["address"] == array.device_pointer]
    assert (block["nbytes"], block["state"], block["kind"]) == (4321, "live", "device")
    assert block["owner"][0]["filename"] == __file__
    assert shown["stats"][str(device)]["device"]["in_use"] >= 4321


def test_freed_memory_is_used_again_at_once(device):
    if haulage.runtime.adversary.seed is not None:
        pytest.skip("the adversarial mode takes all memory from the driver")
    for stream in (0, cuda.stream()):
        first = cuda.device_array(1000, stream=stream)
        address = first.device_pointer
        del first
        assert cuda.device_array(1000, stream=stream).device_pointer == address


def test_a_closed_array_says_where_it_was_closed():
    array = cuda.to_device(np.arange(4.0))
    view = array[1:]
    line = line_of_next_call()
    array.close()
    array.close()
    for use in (array.copy_to_host, view.copy_to_host, lambda: cuda.to_device(view)):
        with pytest.raises(ValueError, match=f"close.. at .*test_memory.py:{line} in "):
            use()


def test_with_frees_at_its_end(device):
    before = memory.stats(device).in_use
    with cuda.to_device(np.arange(1000.0)) as array:
        assert memory.stats(device).in_use == before + 8000
    assert memory.stats(device).in_use == before
    with pytest.raises(ValueError, match="given back"):
        array.copy_to_host()
