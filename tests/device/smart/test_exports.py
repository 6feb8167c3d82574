"""SmartArrays whose memory on a device another library has: by DLPack, or by the CUDA array
interface. The other library is one that knows DLPack only; on the CPU device also NumPy."""

import contextlib
import gc
import os
import re
import sys
import threading
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    rule,
    run_state_machine_as_test,
)

import haulage
from doubles.far import registered
from doubles.far_pair import far_pair
from haulage import SmartArray, cuda, memory
from haulage.errors import CoherenceError
from haulage.runtime.protocols import dlpack

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True


@cuda.jit
def add(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += number


@cuda.jit
def fill(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = number


def numbers(n=100):
    return np.arange(n, dtype=np.float32)


def line():
    return sys._getframe(1).f_lineno


# An array of a library that has DLPack and nothing else, over the memory of another one.
LIBRARY = """
class OnlyDLPack:
    def __init__(self, exporter, **options):
        self.exporter = exporter
        self.options = options

    def __dlpack__(self, **asked):
        return self.exporter.__dlpack__(**(asked | self.options))

    def __dlpack_device__(self):
        return self.options.get("dl_device") or self.exporter.__dlpack_device__()
"""
installed = {}
exec(compile(LIBRARY, "/usr/lib/python3/dist-packages/theirs.py", "exec"), installed)


def theirs(exporter, **options):
    """What another library makes of it: an array over the same memory, of which Haulage knows no
    more than of any foreign one."""
    return cuda.from_dlpack(installed["OnlyDLPack"](exporter, **options))


def moves(a):
    return len(a.coherence.transfers)


def address(a):
    return a.get("gpu").device_pointer


# ---- who writes, and who sees it -----------------------------------------------------------------


def test_what_another_library_writes_is_seen_without_being_told():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    assert (a[3], a.sum()) == (3, numbers().sum())
    held[3] = 50
    assert a[3] == 50
    held[3] = 60
    held[4] = 70
    np.testing.assert_array_equal(a[3:5], [60, 70])
    add[4, 32](a, 1)
    assert held[3] == 61
    held[3] = 80
    assert (a[3], a[4]) == (80, 71)


def test_what_the_host_writes_is_in_its_memory_at_once():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    a[3] = 50
    assert held[3] == 50
    a += 1
    assert (held[3], held[4]) == (51, 5)
    a[10:20] = 7
    with a.host() as x:
        x[5] = 9
    with a.host("w") as x:
        x[...] = numbers() * 2
        x[6] = 60
    np.testing.assert_array_equal(held.copy_to_host()[:8], [0, 2, 4, 6, 8, 10, 60, 14])


def test_looks_bring_what_can_have_been_written_and_nothing_once_it_is_let_go():
    a = SmartArray(numbers())
    held = theirs(a[10:20].get("gpu"))
    before = moves(a)
    np.asarray(a[30:40])
    assert moves(a) == before
    for _ in range(2):
        np.asarray(a[12:40])
    assert [one.nbytes for one in list(a.coherence.transfers)[before:]] == [8 * 4] * 2
    assert a.coherence.transfers[-1]._wrote
    held[5] = 50
    del held
    gc.collect()
    before = moves(a)
    assert (a[15], a[16], a[15]) == (50, 16, 50)
    assert moves(a) == before + 1


def test_who_only_reads_costs_no_look_anything_and_sees_what_is_written():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu", "r"))
    assert held.readonly
    before = moves(a)
    assert (a[3], a.sum()) == (3, numbers().sum())
    assert moves(a) == before
    a[3] = 50
    assert held[3] == 50
    assert [one.direction for one in a.coherence.transfers][before:] == ["host to device"]


def test_a_view_of_the_holder_holds_as_well():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    view = held[10:20][::2]
    del held
    gc.collect()
    view[1] = 50
    assert a[12] == 50
    a[14] = 60
    assert view[2] == 60


@pytest.mark.parametrize("versioned", [True, False])
def test_a_capsule_that_nobody_takes_holds_until_it_goes(versioned):
    a = SmartArray(numbers())
    add[4, 32](a, 1)
    capsule = a.get("gpu").__dlpack__(max_version=(1, 1) if versioned else None)
    assert a.sum() == a.sum()
    before = moves(a)
    assert a[0] == 1
    assert moves(a) == before + 1
    del capsule
    a.sum()
    before = moves(a)
    assert a[0] == 1
    assert moves(a) == before


def test_each_holder_counts_for_itself():
    a = SmartArray(numbers())
    first, second = theirs(a[:60].get("gpu")), theirs(a[40:].get("gpu"))
    first[50], second[20] = 1, 2
    assert (a[50], a[60]) == (1, 2)
    assert second[10] == 1
    del first
    gc.collect()
    second[11] = 3
    assert (a[50], a[51]) == (1, 3)


def test_numpy_holds_the_memory_of_the_cpu_device(device):
    if device.kind != "cpu":
        pytest.skip(f"NumPy cannot address the memory of {device}")
    a = SmartArray(numbers())
    held = np.from_dlpack(a.get("cpu"))[2:]
    assert held.ctypes.data == address(a) + 8
    held += 1
    assert a[2] == 3
    a[3] = 50
    assert held[1] == 50


def test_functions_of_numba_and_a_holder_see_what_each_other_writes():
    numba = pytest.importorskip("numba")

    @numba.njit
    def double(x):
        for i in range(x.size):
            x[i] *= 2

    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    held[3] = 50
    double(a)
    assert a[3] == 100
    assert (held[3], held[4]) == (100, 8)


# ---- views of the host beside it -----------------------------------------------------------------


def test_a_view_of_the_host_and_a_holder_see_each_others_writes_after_a_wait():
    a = SmartArray(numbers())
    x, held = a.get(), theirs(a.get("gpu"))
    x[3] = 50
    held[4] = 60
    cuda.synchronize()
    assert (x[4], held[3]) == (60, 50)
    x[3] = 51
    a.get()
    assert held[3] == 51
    x[3] = 52
    add[4, 32](a, 1)
    cuda.synchronize()
    assert (x[3], held[3], held[4]) == (53, 53, 61)
    del x
    held[3] = 9
    assert a[3] == 9


def test_a_view_that_is_gone_has_told_the_holder_by_the_next_look():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    a.get()[3] = 50
    assert a[4] == 4
    assert held[3] == 50


def test_both_sides_writing_an_element_is_an_error_that_names_both_lines():
    a = SmartArray(numbers())
    held, given = cuda.from_dlpack(installed["OnlyDLPack"](a.get("gpu"))), line()
    x, taken = a.get(), line()
    x[3], x[4] = 50, 60
    held[3:6] = np.float32([70, 4, 80])
    said = rf"{re.escape(__file__)}:{given} in .* {re.escape(__file__)}:{taken} in .* is lost"
    with pytest.raises(CoherenceError, match=said):
        a.sum()
    np.testing.assert_array_equal(a[2:7], [2, 70, 60, 80, 6])
    np.testing.assert_array_equal(held.copy_to_host()[2:7], [2, 70, 60, 80, 6])


def test_so_it_is_within_a_with():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))

    def write_both():
        with a.host() as x:
            x[3] = 50
            held[3] = 70

    with pytest.raises(CoherenceError, match="have written the same elements"):
        write_both()
    assert a[3] == 70


def test_elements_are_written_as_a_whole():
    a = SmartArray(np.zeros(4, np.uint32))
    x, held = a.get(), theirs(a.get("gpu"))
    x[0], x[1] = 0x01, 0x01
    held[:3] = np.uint32([0x0100, 0, 0x0100])
    with pytest.raises(CoherenceError, match="same elements"):
        a.sum()
    np.testing.assert_array_equal(a, [0x0100, 0x01, 0x0100, 0])


def test_a_holder_that_only_reads_sees_what_a_view_wrote_after_a_wait():
    a = SmartArray(numbers())
    x, held = a.get(), theirs(a.get("gpu", "r"))
    before = moves(a)
    x[3] = 50
    cuda.synchronize()
    assert held[3] == 50
    assert [one.nbytes for one in list(a.coherence.transfers)[before:]] == [4]


# ---- how it is asked for -------------------------------------------------------------------------


def test_dlpack_gives_the_host_unless_a_device_is_asked_for(device):
    a = SmartArray(numbers())
    assert a.__dlpack_device__() == (1, 0)
    seen = np.from_dlpack(a)
    seen[3] = 50
    assert a[3] == 50
    place = dlpack.place_of(device)
    if place == (1, 0):
        return
    held = theirs(a, dl_device=place)
    assert held.device_pointer == address(a)
    del seen
    held[3] = 60
    assert a[3] == 60


def test_a_device_that_is_not_there_cannot_be_asked_for():
    a = SmartArray(numbers())
    for place in [(10, 99), (4, 0)]:
        with pytest.raises(BufferError, match="nothing can be given on"):
            a.__dlpack__(dl_device=place, max_version=(1, 1))


@pytest.mark.parametrize("opened", [cuda.as_cuda_array, cuda.from_dlpack])
def test_arrays_of_haulage_over_it_count_as_long_as_they_live(device, opened):
    a = SmartArray(numbers())
    there = opened(a)
    assert there.device is device
    assert there.device_pointer == address(a)
    add[4, 32](there, 1)
    assert a[3] == 4
    a[3] = 50
    view = there[:10]
    del there
    assert view[3] == 50
    add[1, 32](view, 1)
    assert (a[3], a[50]) == (51, 51)
    del view
    a.sum()
    before = moves(a)
    a.sum()
    assert moves(a) == before


def test_a_copy_holds_nothing():
    a = SmartArray(numbers())
    there = cuda.from_dlpack(a, copy=True)
    there[3] = 50
    assert a[3] == 3
    assert there.device_pointer != address(a)


def test_the_array_of_get_alone_does_not_count():
    a = SmartArray(numbers())
    there = a.get("gpu")
    before = moves(a)
    a.sum()
    assert moves(a) == before
    there[3] = 50
    a.mark_changed("gpu")
    assert a[3] == 50


def test_the_cuda_array_interface_is_that_of_the_array_of_get(device):
    a = SmartArray(numbers())
    with pytest.raises(AttributeError, match=r"a\.get\('gpu'\) has one"):
        _ = a.__cuda_array_interface__
    assert not hasattr(a, "__cuda_array_interface__")
    assert not cuda.is_cuda_array(a)
    if device.kind != "nvidia":
        return
    there = a.get("gpu")
    described = there.__cuda_array_interface__
    held = cuda.from_cuda_array_interface(described, owner=there)
    del there
    held[3] = 50
    assert a[3] == 50
    a[4] = 60
    assert held[4] == 60
    del held
    gc.collect()
    a.sum()
    before = moves(a)
    a.sum()
    assert moves(a) == before


def test_an_export_has_what_was_written_since_the_array_was_got():
    a = SmartArray(numbers())
    there = a.get("gpu")
    a[3] = 50
    assert theirs(there)[3] == 50


def test_arrays_without_elements_hold_nothing():
    a = SmartArray(shape=(0, 3))
    assert theirs(a.get("gpu")).shape == (0, 3)
    assert a.sum() == 0


# ---- memory --------------------------------------------------------------------------------------


def test_the_copy_stays_where_it_is_while_somebody_has_it(device):
    a, other = SmartArray(numbers(25_000)), SmartArray(numbers(25_000))
    held = theirs(a.get("gpu"))
    add[900, 32](other, 1)
    at = held.device_pointer
    gc.collect()
    memory.limit(memory.stats(device).in_use + 1000, device)
    try:
        more = cuda.device_array(25_000, np.float32)
        assert [str(place) for place in other.coherence.current()] == ["host"]
        assert held[7] == 7
        assert address(a) == at
        held[7] = 50
        del held, more
        gc.collect()
        memory.limit(memory.stats(device).in_use + 1000, device)
        cuda.device_array(25_000, np.float32)
    finally:
        memory.limit(None, device)
    # It gave way, and what had been written there was brought along.
    assert (a[7], a[8]) == (50, 8)


def test_the_memory_lives_as_long_as_it_is_held():
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    del a
    gc.collect()
    held[3] = 50
    np.testing.assert_array_equal(held.copy_to_host()[2:5], [2, 50, 4])


def test_memory_that_was_given_back_under_a_holder_is_told_to_be_lost():
    a = SmartArray(numbers())
    held = theirs(a[:50].get("gpu"))
    a.get("gpu").close()
    closed = line() - 1
    assert a[60:].max() == 99
    with pytest.raises(CoherenceError, match=rf"{re.escape(__file__)}:{closed}.* are lost"):
        a[:50].sum()
    a[:50] = 1
    add[4, 32](a, 1)
    assert (a[3], a[60]) == (2, 61)
    del held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_the_elements_that_the_host_has(device):
    if device.kind in ("nvidia", "amd", "opencl"):
        pytest.skip("a GPU's driver does not live on in a forked child")
    a = SmartArray(numbers())
    held = theirs(a.get("gpu"))
    held[3] = 50
    assert a[3] == 50
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            a[4] = 60
            status = not (a[3] == 50 and a[4] == 60 and a[5] == 5)
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    held[4] = 70
    assert (a[3], a[4]) == (50, 70)


def test_memory_that_host_and_device_share_needs_no_copies():
    a = SmartArray(numbers(), where="mapped")
    held = theirs(a.get("gpu"))
    held[3] = 50
    assert a[3] == 50
    a[4] = 60
    assert held[4] == 60
    assert moves(a) == 0


def test_threads_look_and_write_while_somebody_has_it():
    a = SmartArray(np.zeros(400, np.float32))
    held, failed = theirs(a[300:].get("gpu")), []

    def work(n):
        part = a[100 * n : 100 * n + 100]
        try:
            for turn in range(10):
                part[turn] = turn + 1
                part += 1
                assert a[300] == 0
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(10):
        held[1 + turn] = turn
    for thread in threads:
        thread.join()
    assert failed == []
    one = np.zeros(100, np.float32)
    for turn in range(10):
        one[turn] = turn + 1
        one += 1
    np.testing.assert_array_equal(a[:300], np.tile(one, 3))
    np.testing.assert_array_equal(a[300:312], [0, *range(10), 0])


# ---- two devices ---------------------------------------------------------------------------------


@pytest.fixture
def two_devices():
    """Two devices of one driver with memory of their own, the first one current."""
    first, second = far_pair()
    with registered(first, second), haulage.use(first):
        yield first, second
        gc.collect()


def test_what_a_kernel_on_another_device_writes_is_there_when_its_launch_is_done(two_devices):
    first, second = two_devices
    a = SmartArray(numbers())
    held = theirs(a.get(first))
    held[3] = 50
    with haulage.use(second):
        add[4, 32, cuda.stream()](a, 1)
    assert (held[3], held[4]) == (51, 5)
    held[4] = 60
    with haulage.use(second):
        add[4, 32](a, 1)
    assert (a[3], a[4], held[4]) == (52, 61, 61)


def test_only_one_device_is_given_away_to_be_written(two_devices):
    first, second = two_devices
    a = SmartArray(numbers())
    held, given = cuda.from_dlpack(installed["OnlyDLPack"](a[:60].get(first))), line()
    with haulage.use(second):
        with pytest.raises(CoherenceError, match=rf"{re.escape(__file__)}:{given} in test_only"):
            theirs(a[50:].get(second))
        reader, other = theirs(a.get(second, "r")), theirs(a[60:].get(second))
    held[3] = 50
    assert a[3] == 50
    assert reader[3] == 50
    del held
    with haulage.use(second):
        other[0], theirs(a.get(second))[4] = 80, 70
    assert (a[60], a[4]) == (80, 70)


# ---- any program ---------------------------------------------------------------------------------

SIZE = 24
# More take longer, and find more.
EXAMPLES = 4


class Shared(RuleBasedStateMachine):
    """One array that the host, its views, kernels and other libraries write in turn, on one device
    or two."""

    holders, views = Bundle("holders"), Bundle("views")
    keys = st.slices(SIZE)
    values = st.integers(0, 100)

    numbers = st.integers(0, 1)

    def __init__(self, *devices):
        super().__init__()
        self.devices = devices
        self.oracle = np.arange(SIZE, dtype=np.int32)
        self.array = SmartArray(self.oracle)
        self.held = []

    def wait(self):
        for device in self.devices:
            device.synchronize()

    @rule(key=keys)
    def look(self, key):
        np.testing.assert_array_equal(self.array[key], self.oracle[key])

    @rule(key=keys, value=values)
    def assign(self, key, value):
        self.array[key] = self.oracle[key] = value

    @rule(key=keys, value=values, mode=st.sampled_from(["rw", "w"]))
    def use_on_the_host(self, key, value, mode):
        if len(range(SIZE)[key]) < 2 or range(SIZE)[key].step in (1, -1):
            with self.array[key].host(mode) as array:
                array[...] = self.oracle[key] = value

    @rule(key=keys, value=values, reads=st.booleans(), number=numbers)
    def change_by_a_kernel(self, key, value, reads, number):
        view = self.array[key]
        if view.size:
            with haulage.use(self.devices[number % len(self.devices)]):
                (add if reads else fill)[1, 32](view, value)
            self.oracle[key] = value + (self.oracle[key] if reads else 0)

    def part(self, key):
        numbers = range(SIZE)[key]
        return set(range(min(numbers), max(numbers) + 1)) if numbers else set()

    @rule(target=holders, key=keys, only_read=st.booleans(), number=numbers)
    def give_away(self, key, only_read, number):
        device = self.devices[number % len(self.devices)]
        array = self.array[key].get(device, "r" if only_read else "rw")
        refused = not only_read and any(
            not other[2] and other[3] is not device and self.part(other[0]) & self.part(key)
            for other in self.held
        )
        with haulage.use(device):
            if refused:
                with pytest.raises(CoherenceError, match="nobody could tell what both write"):
                    theirs(array)
                array, only_read = self.array[key].get(device, "r"), True
            holder = [key, theirs(array), only_read, device]
        self.held.append(holder)
        return holder

    @rule(holder=holders)
    def read_by_a_holder(self, holder):
        self.wait()
        if len(self.devices) > 1:
            # What a holder on the other device wrote comes with a look.
            self.array.sum()
        np.testing.assert_array_equal(holder[1].copy_to_host(), self.oracle[holder[0]])

    @rule(holder=holders, value=values)
    def write_by_a_holder(self, holder, value):
        if not holder[2]:
            self.wait()
            holder[1][...] = self.oracle[holder[0]] = np.int32(value)

    @rule(holder=consumes(holders))
    def let_a_holder_go(self, holder):
        self.held.remove(holder)
        holder.clear()

    @rule(target=views, key=keys)
    def take_a_view(self, key):
        return [key, self.array[key].get()]

    @rule(view=views, value=values)
    def write_through_a_view(self, view, value):
        self.wait()
        np.testing.assert_array_equal(view[1], self.oracle[view[0]])
        view[1][...] = self.oracle[view[0]] = value
        self.wait()

    @rule(view=consumes(views))
    def let_a_view_go(self, view):
        view.clear()

    def teardown(self):
        np.testing.assert_array_equal(np.asarray(self.array), self.oracle)


def run(*devices):
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=30,
        deadline=None,
        phases=[hypothesis.Phase.generate],
    )
    run_state_machine_as_test(lambda: Shared(*devices), settings=settings)


def test_any_program_in_which_all_write_in_turn_is_right(device):
    run(device)


def test_it_is_right_where_work_is_done_late(device):
    if device.kind != "cpu":
        pytest.skip("the adversarial mode is the CPU device's")
    with haulage.adversary(3):
        run(device)


def test_it_is_right_with_two_devices(two_devices):
    run(*two_devices)
