"""The state of a storage: replicas, its lock, and bytes that are lost."""

import threading

import numpy as np
import pytest

from haulage.backends.cpu import CPUBackend
from haulage.errors import CoherenceError
from haulage.runtime.coherence.coherence import Coherence
from haulage.runtime.coherence.state import Lock, all_states
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry.ranges import Ranges

NBYTES = 64
DEVICE = Device("one", CPUBackend(), 0)


@pytest.fixture
def coherence():
    return Coherence(NBYTES, "a", np.arange(NBYTES, dtype=np.uint8))


def test_who_is_inside_can_enter_again_but_not_where_it_asks_for_a_state_at_rest():
    lock = Lock()
    assert lock.enter_within(0)
    assert not lock.enter_within(0)
    with lock:
        assert lock.depth == 2
    found = []
    thread = threading.Thread(target=lambda: found.append(lock.enter_within(0)))
    thread.start()
    thread.join()
    assert found == [False]
    lock.__exit__()
    assert (lock.depth, lock.enter_within(0)) == (0, True)


def test_a_state_is_known_as_long_as_its_storage_lives(coherence):
    assert coherence.state in all_states()
    name = coherence.state.name
    del coherence.state
    assert name not in [state.name for state in all_states()]


def test_what_is_being_written_on_the_host_is_known_until_it_is_released(coherence):
    state, part = coherence.state, Ranges.of(8, 16)
    coherence.acquire_host("rw", "a test", part)
    assert state.not_being_written(Ranges.of(0, 32)) == Ranges(((0, 8), (16, 32)))
    coherence.release("host", "rw", part=part)
    assert state.not_being_written(Ranges.of(0, 32)) == Ranges.of(0, 32)


def test_bytes_are_lost_with_the_only_memory_that_had_them_until_they_are_written(coherence):
    state, part = coherence.state, Ranges.of(0, 16)
    block = coherence.acquire_device(DEVICE, "rw", 0, "a test", part)
    coherence.release(DEVICE, "rw", part=part)
    block.close()
    state.check_lost("r", Ranges.of(16, 64))
    with pytest.raises(CoherenceError, match=r"16 bytes of it were current only on one:0, whose"):
        state.check_lost("r", state.whole)
    assert not state.replicas
    state.check_lost("w", state.whole)
    coherence.acquire_host("w", "a test", part)
    coherence.release("host", "w", part=part)
    state.check_lost("r", state.whole)
