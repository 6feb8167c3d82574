"""Random programs on a SmartArray against one NumPy array, and against a model that knows which
elements have to be moved, and when."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

import haulage
from haulage import SmartArray, cuda
from haulage.runtime import adversary

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True

SIZE = 24
# 1200 steps for each device and mode; more take minutes, and find more.
EXAMPLES, STEPS = 30, 40


@cuda.jit
def add_number(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += number


@cuda.jit
def fill(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = number


@cuda.jit
def copy_out(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i]


@cuda.jit
def count(a, out):
    out[0] = a.size


class Lease:
    """A NumPy view that the program holds: what of the array it shows, and what of that is out of
    date, by the kernel that wrote it."""

    def __init__(self, array, key, part):
        self.array = array
        self.key = key
        self.part = part
        self.stale = []

    @property
    def fresh(self):
        return self.part - set().union(*self.stale)


class SmartArrays(RuleBasedStateMachine):
    """One array with its views. `here` and `there` are the elements that are current on the host
    and on the device; `moved` is how many were moved down and up."""

    leases = Bundle("leases")
    keys = st.slices(SIZE)
    values = st.integers(0, 100)
    sides = st.sampled_from([0, 1, 2])

    def __init__(self, device):
        super().__init__()
        self.device = device
        self.oracle = np.arange(SIZE, dtype=np.int32)
        self.array = SmartArray(self.oracle)
        self.streams = [0, cuda.stream(), cuda.stream()]
        self.here, self.there = set(range(SIZE)), set()
        self.held, self.gone = [], []
        self.moved = {"host to device": 0, "device to host": 0}
        self.copied = []

    # ---- the model --------------------------------------------------------------------------

    def part(self, key):
        """The elements from the first to the last of a view."""
        numbers = range(SIZE)[key]
        return set(range(min(numbers), max(numbers) + 1)) if numbers else set()

    def settle(self, needed=frozenset()):
        for lease in self.gone:
            self.host_wrote(lease.fresh & self.here)
        self.gone.clear()
        for lease in self.held:
            self.host_wrote(lease.fresh & needed & self.here)

    def host_wrote(self, part):
        self.there -= part
        self.here |= part

    def needed_here(self, part):
        missing, before = part - self.here, None
        while missing != before:
            before = set(missing)
            for lease in self.held:
                for stale in lease.stale:
                    if stale & missing:
                        missing |= stale
        self.moved["device to host"] += len(missing - self.here)
        self.here |= missing
        for lease in self.held:
            lease.stale = [stale for stale in lease.stale if not stale & missing]

    def overwrites(self, part):
        self.settle()
        for lease in self.held:
            for stale in lease.stale:
                if stale & part and not stale <= part:
                    self.needed_here(stale)
            lease.stale = [stale for stale in lease.stale if not stale & part]

    def looks(self, part):
        self.settle()
        self.needed_here(part)

    def launches(self, part, reads=True, writes=True):
        self.settle(part)
        if reads:
            self.moved["host to device"] += len(part - self.there)
            self.there |= part
        if writes:
            for lease in self.held:
                if lease.fresh & part:
                    lease.stale.append(lease.fresh & part)
            self.there |= part
            self.here -= part

    # ---- the host ---------------------------------------------------------------------------

    @rule(key=keys)
    def look(self, key):
        np.testing.assert_array_equal(self.array[key], self.oracle[key])
        self.looks(self.part(key))

    @rule(key=keys, value=values)
    def assign(self, key, value):
        part = self.part(key)
        self.array[key] = self.oracle[key] = value
        if len(range(SIZE)[key]) == len(part) and not part <= self.here:
            self.overwrites(part)
        else:
            self.looks(part)
        self.host_wrote(part)

    @rule(key=keys, value=values, mode=st.sampled_from(["r", "rw", "w"]))
    def use_on_the_host(self, key, value, mode):
        part = self.part(key)
        if mode == "w" and len(range(SIZE)[key]) != len(part):
            mode = "rw"
        with self.array[key].host(mode) as array:
            if mode == "w":
                self.overwrites(part)
                array[...] = self.oracle[key] = value
            else:
                self.looks(part)
                np.testing.assert_array_equal(array, self.oracle[key])
                if mode == "rw":
                    array += value
                    self.oracle[key] += value
        del array
        if mode != "r":
            self.host_wrote(part)

    @rule(target=leases, key=keys)
    def take_a_view(self, key):
        part = self.part(key)
        self.looks(part)
        lease = Lease(self.array[key].get(), key, part)
        self.held.append(lease)
        return lease

    @rule(lease=leases, value=values)
    def write_through_a_view(self, lease, value):
        if not lease.stale:
            np.testing.assert_array_equal(lease.array, self.oracle[lease.key])
            lease.array += value
            self.oracle[lease.key] += value
            self.host_wrote(lease.part & self.here)
            # Who has not told the device yet will do so when it needs the elements.

    @rule(lease=consumes(leases))
    def let_a_view_go(self, lease):
        self.held.remove(lease)
        lease.array = None
        self.gone.append(lease)

    # ---- the device -------------------------------------------------------------------------

    @rule(key=keys, value=values, side=sides, reads=st.booleans())
    def change_by_a_kernel(self, key, value, side, reads):
        view, part = self.array[key], self.part(key)
        if view.size:
            kernel = add_number if reads else fill
            kernel[1, 32, self.streams[side]](view, value)
            whole = not reads and view.size == len(part)
            self.launches(part, reads=not whole)
            self.oracle[key] = value + (self.oracle[key] if reads else 0)

    @rule(key=keys, side=sides)
    def read_by_a_kernel(self, key, side):
        view = self.array[key]
        if view.size:
            out = cuda.device_array(view.size, np.int32)
            copy_out[1, 32, self.streams[side]](view, out)
            self.launches(self.part(key), writes=False)
            self.copied.append((out, self.oracle[key].copy(), self.streams[side]))

    @rule(key=keys)
    def ask_for_the_size(self, key):
        out = cuda.device_array(1, np.int64)
        count[1, 1](self.array[key], out)
        self.settle()
        self.copied.append((out, [len(range(SIZE)[key])], 0))

    @rule(key=keys, value=values)
    def change_the_device_array(self, key, value):
        view, part = self.array[key], self.part(key)
        if view.size:
            self.launches(part, writes=False)
            there = view.get("gpu")
            self.wait()
            there[...] = self.oracle[key] = np.int32(value)
            view.mark_changed("gpu")
            self.launches(part, reads=False)

    @rule()
    def wait(self):
        cuda.synchronize()
        for lease in tuple(self.held):
            if lease.stale:
                self.settle()
                self.needed_here(lease.part)

    # ---- what must hold ---------------------------------------------------------------------

    @invariant()
    def as_many_bytes_were_moved_as_the_model_says(self):
        found = dict.fromkeys(self.moved, 0)
        for one in self.array.coherence.transfers:
            found[one.direction] += one.nbytes
        assert found == {way: 4 * n for way, n in self.moved.items()}

    def teardown(self):
        for out, expected, stream in self.copied:
            np.testing.assert_array_equal(out.copy_to_host(stream=stream), expected)
        np.testing.assert_array_equal(np.asarray(self.array), self.oracle)


def run(device):
    # Programs that fail are not made shorter: that takes minutes here.
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        phases=[hypothesis.Phase.generate],
    )
    run_state_machine_as_test(lambda: SmartArrays(device), settings=settings)


def test_any_program_moves_what_it_has_to_and_no_more(device):
    run(device)


def test_any_program_is_right_where_work_is_done_late(device):
    if adversary.seed is not None or device.kind != "cpu":
        pytest.skip("the adversarial mode is the CPU device's, and on already otherwise")
    for seed in (1, 2):
        with haulage.adversary(seed):
            run(device)
