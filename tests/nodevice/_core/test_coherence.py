"""Arrays used where nothing has to be moved: what compiled code does is what Python does, and where
anything is out of the ordinary it does nothing.

Of each array there are two: one is used by compiled code wherever that says yes, its twin never. So
what is known of both must be the same after each step.
"""

import ctypes
import gc
import sys
import threading
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from haulage._core.coherence import Key, Lock, Write, acquire, release
from haulage.backends.cpu import CPUBackend
from haulage.runtime.arrays.host_arrays import MappedNDArray
from haulage.runtime.coherence import HOST, Coherence
from haulage.runtime.coherence.eviction import evict
from haulage.runtime.coherence.state import DeviceReplica, State
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.transfers.account import Account, StorageName
from haulage.runtime.transfers.entries import View
from haulage.smart.array import SmartArray

NBYTES = 64
ONE, TWO = DEVICES = [Device(name, CPUBackend(), 0) for name in ("one", "two")]
STREAMS = {device: [device.default_stream, Stream.create(device)] for device in DEVICES}
# Of all, one after the other: whole, halves that touch, and one that overlaps both.
PARTS = [(0, 8), (0, 4), (4, 4), (2, 4)]
# In Python alone.
UNCOMPILED = mock.patch.object(State, "array_if_at_rest", return_value=None)


def views_of(coherence):
    """SmartArrays over parts of one storage."""
    made = []
    for start, size in PARTS:
        array = SmartArray.__new__(SmartArray)
        array._set(coherence, 8 * start, (size,), (8,), np.dtype(np.float64), 0)
        made.append(array)
    return made


def storage(kind="plain"):
    if kind == "mapped":
        host = MappedNDArray(NBYTES, 1, np.uint8, device=ONE)
        host[:] = np.arange(NBYTES)
        return Coherence(NBYTES, "a", host.view(np.ndarray), host.block, grain=8)
    return Coherence(NBYTES, "a", np.arange(NBYTES, dtype=np.uint8), grain=8)


def known_of(coherence):
    """All that decides what is moved and what is told of it."""
    state, sums = coherence.state, coherence.account.sums
    return {
        "replicas": {
            place: (
                replica.valid,
                replica.acquired,
                isinstance(replica, DeviceReplica)
                and (
                    replica.writing,
                    replica.read_since_write,
                    replica.writers,
                    replica.block.streams and set(replica.block.streams),
                ),
            )
            for place, replica in [(HOST, state.on_host), *state.replicas.items()]
        },
        "least recently used": sorted(state.replicas, key=lambda each: state.replicas[each].used),
        "state": (state.defined, state.evicted, state.host_writers, state.host_writing, state.lost),
        "last written": state.last_written,
        "borrows": [(one.part, one.why, one.is_alive) for one in state.borrows.records],
        "writes": [(one.part, one.view, bool(one.call_site)) for one in coherence.account.writes],
        "moves": [(one.source, one.target, one.nbytes) for one in coherence.transfers],
        "sums": (sums.uses, sums.used_bytes, sums.found, sums.found_bytes),
        "launches": (sums.launches, sums.launched_bytes, sums.as_host_arrays),
    }


def launch(array, stream, mode, work=lambda there: None):
    """Use an array as a launch does that has it for one argument; whether compiled code could say
    the beginning and the end of it."""
    written, dones = [], []
    device, handle = stream.device, stream.handle
    there = acquire(array, device, stream, handle, mode, 2, written)
    is_at_once = there is not None
    if there is None:
        there, done = array.__haulage_acquire__(stream, "a test", mode)
        dones.append(done)
    work(there)
    if written:
        release(written, device, stream, handle, dones)
        is_at_once = not dones
    for done in dones:
        done(True)
    return is_at_once


def launch_in_python(array, stream, mode, work=lambda there: None):
    with UNCOMPILED:
        there, done = array.__haulage_acquire__(stream, "a test", mode)
    work(there)
    done(True)


def borrow_in_python(array):
    return array._array(array.coherence.borrow_host("rw", "get('host')", array._part))


def fill(value):
    """What writes to an array of a device as a kernel does, without waiting for the device."""

    def work(there):
        at = (ctypes.c_double * there.size).from_address(there.device_pointer)
        np.ctypeslib.as_array(at)[:] = value

    return work


class Twins(RuleBasedStateMachine):
    """The same work with two arrays."""

    numbers = st.integers(0, len(PARTS) - 1)
    streams = st.sampled_from([stream for device in DEVICES for stream in STREAMS[device]])

    @initialize(kind=st.sampled_from(["plain", "mapped"]))
    def begin(self, kind):
        self.pair = storage(kind), storage(kind)
        self.views = [views_of(coherence) for coherence in self.pair]
        self.held = []

    modes = st.sampled_from(["none", "r", "rw"])

    @rule(number=numbers, stream=streams, mode=modes)
    def launches(self, number, stream, mode):
        work = fill(number + 0.5) if mode == "rw" else lambda there: None
        launch(self.views[0][number], stream, mode, work)
        launch_in_python(self.views[1][number], stream, mode, work)

    @rule(number=numbers, stream=streams, modes=st.lists(modes, min_size=2, max_size=4))
    def launches_again_and_again(self, number, stream, modes):
        for mode in modes:
            self.launches(number, stream, mode)

    @rule(number=numbers, stream=streams, mode=modes)
    def is_interrupted_in_a_launch(self, number, stream, mode):
        if (
            acquire(self.views[0][number], stream.device, stream, stream.handle, mode, 2, [])
            is None
        ):
            self.views[0][number].__haulage_acquire__(stream, "a test", mode)
        with UNCOMPILED:
            self.views[1][number].__haulage_acquire__(stream, "a test", mode)

    @rule(number=numbers)
    def borrows_and_lets_go(self, number):
        self.views[0][number].get()
        borrow_in_python(self.views[1][number])

    @rule(number=numbers, value=st.integers(0, 9))
    def writes_through_a_view(self, number, value):
        for array in (self.views[0][number].get(), borrow_in_python(self.views[1][number])):
            array[...] = value

    @rule(number=numbers)
    def holds_a_view(self, number):
        self.held.append((self.views[0][number].get(), borrow_in_python(self.views[1][number])))

    @rule()
    def lets_go_of_views(self):
        self.held.clear()

    @rule(number=numbers)
    def looks(self, number):
        for views in self.views:
            views[number]._look("a test")

    @rule(number=numbers, value=st.integers(0, 9))
    def assigns(self, number, value):
        for views in self.views:
            views[number][...] = value

    @rule(device=st.sampled_from(DEVICES))
    def evicts(self, device):
        for coherence in self.pair:
            evict(coherence.state, device, True, "a test")

    @invariant()
    def both_are_known_to_be_alike(self):
        if not hasattr(self, "pair"):
            return
        compiled, plain = map(known_of, self.pair)
        assert compiled == plain
        first, second = (
            coherence.state.on_host.valid & coherence.state.defined for coherence in self.pair
        )
        assert first == second
        for start, stop in first:
            np.testing.assert_array_equal(
                self.pair[0].state.host[start:stop], self.pair[1].state.host[start:stop]
            )


Twins.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestTwins = Twins.TestCase


# ---- at once, or not -----------------------------------------------------------------------------


@pytest.fixture
def array():
    """A SmartArray that was written on device one, in its default stream."""
    made = views_of(storage())[0]
    for _ in range(2):
        launch_in_python(made, ONE.default_stream, "rw", fill(3))
    return made


def is_at_rest(array, stream=ONE.default_stream, mode="r"):
    """Whether compiled code gives the array for a launch; if not, nothing is changed by that."""
    before, written = known_of(array.coherence), []
    there = acquire(array, stream.device, stream, stream.handle, mode, 2, written)
    if there is None:
        assert known_of(array.coherence) == before
        assert not written
    return there is not None


@pytest.mark.parametrize("mode", ["none", "r", "rw"])
def test_what_is_current_on_the_device_is_had_at_once(array, mode):
    assert launch(array, ONE.default_stream, mode)


def test_what_is_current_nowhere_else_is_had_by_a_launch_that_writes(array):
    launch(array, TWO.default_stream, "r")
    assert array.coherence.current() == [HOST, ONE, TWO]
    assert launch(array, ONE.default_stream, "rw", fill(4))
    assert array.coherence.current() == [ONE]
    assert array[2] == 4


def test_what_a_launch_is_to_write_is_current_there_only_also_where_it_is_interrupted(array):
    launch(array, TWO.default_stream, "r")
    assert array.coherence.current() == [HOST, ONE, TWO]
    assert acquire(array, ONE, ONE.default_stream, 0, "rw", 2, []) is not None
    assert array.coherence.current() == [ONE]


def test_memory_that_the_device_shares_is_had_at_once():
    array = views_of(storage("mapped"))[0]
    launch(array, ONE.default_stream, "rw", fill(2))
    assert launch(array, ONE.default_stream, "rw", fill(5))
    assert launch(array, ONE.default_stream, "r")
    assert array[3] == 5
    view = array.get()
    launch(array, ONE.default_stream, "rw")
    # Whoever has a view of that memory keeps nothing from being as it is.
    assert launch(array, ONE.default_stream, "rw", fill(6))
    assert view[3] == 6


def test_several_arrays_of_one_launch_are_released_together(array):
    other = views_of(storage())[0]
    for _ in range(2):
        launch(other, ONE.default_stream, "rw")
    written, dones, stream = [], [], ONE.default_stream
    for each in (array, other, array):
        assert acquire(each, ONE, stream, 0, "rw", 2, written) is not None
    assert written == [array, other, array]
    release(written, ONE, stream, 0, dones)
    # The second release of the same bytes is as good as the first one.
    assert not dones
    for each in (array, other):
        assert not each.coherence.state.replicas[ONE].writing
        site = each.coherence.account.writes[-1].call_site
        assert site[0][0] is sys._getframe().f_code


def test_the_end_of_a_use_that_has_become_a_conflict_is_said_by_python(array):
    written, dones = [], []
    acquire(array, ONE, ONE.default_stream, 0, "rw", 2, written)
    array.coherence.acquire_device(TWO, "rw", 0, "a test")
    array.coherence.release(TWO, "rw")
    release(written, ONE, ONE.default_stream, 0, dones)
    (done,) = dones
    with pytest.raises(Exception, match="one:0 and two:0 were written at the same time"):
        done(True)


def _hold_view(array):
    return array.get()


def _let_go_of_view(array):
    launch(array, ONE.default_stream, "r")
    array.get()


def _export(array):
    block = array.coherence.acquire_device(ONE, "r", 0, "a test")
    return block, array.coherence.export(block, 0, NBYTES, readonly=False)


def _close(array):
    array.coherence.state.replicas[ONE].block.close()


def _write_elsewhere(array):
    launch(array, TWO.default_stream, "rw")


def _enter_lock(array):
    array.coherence.state.lock.__enter__()
    return array


def _capture(array):
    ONE.capturing[12345] = None


@pytest.fixture
def ends():
    yield
    ONE.capturing.pop(12345, None)


@pytest.mark.parametrize(
    "happens",
    [
        _hold_view,
        _let_go_of_view,
        _export,
        _close,
        _write_elsewhere,
        _enter_lock,
        _capture,
    ],
)
@pytest.mark.parametrize("mode", ["r", "rw"])
def test_what_is_out_of_the_ordinary_is_left_to_python(array, happens, mode, ends):
    assert is_at_rest(array)
    held = happens(array)
    gc.collect()
    assert not is_at_rest(array, mode=mode)
    del held


@pytest.mark.parametrize("happens", [_hold_view, _export, _enter_lock])
def test_a_use_that_became_out_of_the_ordinary_meanwhile_is_ended_by_python(array, happens):
    written, dones = [], []
    acquire(array, ONE, ONE.default_stream, 0, "rw", 2, written)
    held = happens(array)
    release(written, ONE, ONE.default_stream, 0, dones)
    assert len(dones) == 1
    dones[0](True)
    assert array.coherence.current()[-1] is ONE
    del held


def test_another_stream_is_asked_whether_it_is_done(array):
    stream = STREAMS[ONE][1]
    # Its use of the memory has to be noted first.
    assert not is_at_rest(array, stream)
    launch(array, stream, "r")
    assert is_at_rest(array, stream)
    ran = threading.Event()
    launch(array, stream, "rw")
    assert launch(array, stream, "rw")
    ONE.backend.stream_callback(stream.handle, ran.wait)
    try:
        assert not is_at_rest(array, ONE.default_stream, "r")
        assert not is_at_rest(array, ONE.default_stream, "rw")
        assert is_at_rest(array, stream, "rw")
    finally:
        ran.set()
    stream.finish()
    assert is_at_rest(array, ONE.default_stream, "r")


def test_a_launch_that_writes_asks_streams_that_may_still_read(array):
    stream = STREAMS[ONE][1]
    launch(array, stream, "r")
    ran = threading.Event()
    ONE.backend.stream_callback(stream.handle, ran.wait)
    try:
        assert is_at_rest(array, ONE.default_stream, "r")
        assert not is_at_rest(array, ONE.default_stream, "rw")
    finally:
        ran.set()
    stream.finish()


def test_threads_that_launch_and_look_have_one_order(array):
    """Each byte is what the last one wrote, whoever came in between."""
    errors = []

    def work(number):
        try:
            for _ in range(200):
                launch(array, ONE.default_stream, "rw")
                array._look("a test")
                array.get()
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    # Two that write at once are a conflict, which is told; nothing else is.
    assert all("written" in str(error) for error in errors)
    assert array.coherence.state.lock.depth == 0
    assert np.all(np.asarray(array) == 3)


def test_an_array_of_the_host_is_borrowed_at_once_again_and_again():
    array = views_of(storage())[0]
    array.get()
    seen = array._borrowed_at_once("get('host')")
    assert seen is not None
    assert seen.shape == (8,)
    assert seen.flags.writeable
    seen[2] = 7
    view = seen[1:4]
    del seen
    (known,) = array.coherence.state.borrows.records
    assert known.is_alive
    del view
    assert not known.is_alive
    array._borrowed_at_once("get('host')")[3] = 8
    assert array.coherence.account.writes[-1].view == View("get('host')", False)
    assert list(array[2:4]) == [7, 8]


def test_a_borrowed_array_keeps_the_memory_when_the_storage_has_gone():
    array = views_of(storage())[0]
    seen = array.get()
    expected = seen.copy()
    del array
    gc.collect()
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize(
    "happens",
    [
        lambda array: launch(array, ONE.default_stream, "rw"),
        _export,
        _close,
        _enter_lock,
        lambda array: array.get(ONE),
    ],
)
def test_an_array_of_the_host_is_not_borrowed_at_once_where_more_is_to_be_done(happens):
    array = views_of(storage())[0]
    array.get()
    launch(array, ONE.default_stream, "r")
    held = happens(array)
    before = known_of(array.coherence)
    assert array._borrowed_at_once("get('host')") is None
    assert known_of(array.coherence) == before
    del held


# ---- parts ---------------------------------------------------------------------------------------


def test_keys_are_equal_for_equal_parts():
    one, same, other = (Key(0, (8,), (8,), np.dtype("f8")) for _ in range(3))
    assert one == same
    assert hash(one) == hash(same)
    assert {one: 1}[other] == 1
    assert one != Key(8, (8,), (8,), np.dtype("f8"))
    assert one != (0, (8,), (8,), np.dtype("f8"))


def test_an_account_knows_the_last_write_to_each_byte():
    account = Account(StorageName("a", ()), NBYTES)
    first, second, whole = Ranges.of(0, 8), Ranges.of(8, 16), Ranges.of(0, NBYTES)
    account.wrote((), first)
    account.wrote((), second)
    assert account.wrote_again(first, (), View("get", True))
    assert [each.part for each in account.writes] == [second, first]
    assert account.writes[-1].view == View("get", True)
    assert not account.wrote_again(whole, (), None)
    account.wrote((), whole)
    assert [each.part for each in account.writes] == [whole]
    assert isinstance(account.writes[0], Write)


def test_a_lock_is_entered_by_its_thread_only():
    lock = Lock()
    with lock:
        found = []
        thread = threading.Thread(target=lambda: found.append(lock.enter_within(0)))
        thread.start()
        thread.join()
        assert found == [False]
        assert lock.depth == 1
    assert lock.depth == 0
