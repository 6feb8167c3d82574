"""How much memory is held: totals, peaks, and snapshots of all blocks."""

import gc
import json

import numpy as np
import pytest

from haulage import cuda, memory
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("device")


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
    if runtime.current.adversary_seed is None:
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


def test_the_peak_of_all_follows_that_of_a_device_that_was_reset(device):
    memory.reset_peak()
    before = memory.stats().in_use
    array = cuda.device_array(1 << 26, np.uint8)
    array.close()
    assert memory.stats().peak >= 1 << 26
    memory.reset_peak(device)
    stats = memory.stats()
    assert stats.in_use <= stats.peak < before + (1 << 26)


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
