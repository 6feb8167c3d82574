"""Random programs on SmartArrays against plain NumPy arrays, and against a model that knows which
bytes have to be moved between the host and two devices, and when."""

import contextlib
import copy
import pickle
import time
from collections import Counter

import hypothesis
import numba
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from numpy.lib.array_utils import byte_bounds

import haulage
from device.smart.smart_array_model import HOST, Model
from haulage import SmartArray, cuda
from haulage.errors import CoherenceError, KernelError, LaunchError, Unsupported
from haulage.runtime.coherence import eviction
from haulage.runtime.process import runtime

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
def add_number_2d(a, number):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        a[i, j] += number


@cuda.jit
def fill(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = number


@cuda.jit
def fill_some(a, number):
    i = cuda.grid(1)
    if i < a.size and i % 2:
        a[i] = number


@cuda.jit
def copy_to(a, out):
    i = cuda.grid(1)
    if i < a.size and i < out.size:
        out[i] = a[i]


@cuda.jit
def add_to(a, out):
    i = cuda.grid(1)
    if i < a.size and i < out.size:
        out[i] += a[i]


@cuda.jit
def count(a, out):
    out[0] = a.size


@cuda.jit
def fails(a):
    if a[cuda.grid(1)] == a[0]:
        raise ValueError("on purpose")


@cuda.jit
def fill_by_shared(a):
    room = cuda.shared.array(0, np.int32)
    i = cuda.grid(1)
    room[cuda.threadIdx.x] = i
    if i < a.size:
        a[i] = room[cuda.threadIdx.x]


@numba.njit
def add_on_host(a, number):
    for i in range(a.size):
        a[i] += number


@numba.njit
def total(a):
    found = 0
    for i in range(a.size):
        found += a[i]
    return found


HALVES = np.dtype([("low", "<i2"), ("high", "<i2")])

# What a view is taken of, and how long its first axis is.
SHAPES = {
    "as it is": (lambda a: a, 24),
    "backwards": (lambda a: a[::-1], 24),
    "table": (lambda a: a.reshape(4, 6), 4),
    "turned": (lambda a: a.reshape(4, 6).T, 6),
    "by columns": (lambda a: a.reshape(4, 6, order="F")[:, 1:4], 4),
    "column": (lambda a: a.reshape(4, 6)[:, 2], 4),
    "words": (lambda a: a.view(np.int16), 48),
    "field": (lambda a: a.view(HALVES)["high"], 24),
}


def some(*names):
    """A view of one of the arrays, by the number of that, a name of `SHAPES` and a slice."""
    return st.sampled_from(names or tuple(SHAPES)).flatmap(
        lambda name: st.tuples(
            st.sampled_from([0, 0, 0, 1]), st.just(name), st.slices(SHAPES[name][1])
        )
    )


class Tracked:
    """A SmartArray, what NumPy would have of it, and what is where."""

    def __init__(self, array, oracle, shared=()):
        self.array = array
        self.oracle = oracle
        self.model = Model(oracle.nbytes, shared)


class View:
    """The same view of a SmartArray and of its oracle: its bytes, from the first to the last, and
    whether it has all of these."""

    def __init__(self, of, name, key):
        shape, _ = SHAPES[name]
        self.array, self.oracle = shape(of.array)[key], shape(of.oracle)[key]
        self.model = of.model
        self.oracle_bytes = of.oracle.view(np.uint8)
        self.start = byte_bounds(of.oracle)[0]
        self.part = self.bytes_of(self.oracle)
        self.is_dense = len(self.part) == self.oracle.nbytes

    def bytes_of(self, oracle):
        low, high = byte_bounds(oracle)
        return set(range(low - self.start, high - self.start)) if oracle.size else set()

    def check(self, seen=None):
        np.testing.assert_array_equal(self.array if seen is None else seen, self.oracle)


class SmartArrays(RuleBasedStateMachine):
    """Two arrays: the first one in any memory of the host, the second one in the usual one."""

    borrows = Bundle("borrows")
    values = st.integers(0, 100)
    sides = st.sampled_from([(0, 0), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)])
    rows = some("as it is", "backwards")

    def __init__(self, devices):
        super().__init__()
        self.devices = devices
        self.streams = []
        for device in devices:
            with haulage.use(device):
                self.streams.append([0, cuda.stream(), cuda.stream()])
        self.arrays = []
        self.copied = []

    @initialize(kind=st.sampled_from(["host", "copy=False", "pinned", "mapped", "managed", "gpu"]))
    def make(self, kind):
        device = self.devices[0]
        oracle = np.arange(SIZE, dtype=np.int32)
        self.own = oracle.copy()
        of_driver = [each for each in self.devices if each.backend is device.backend]
        # GPUs' drivers map memory for all of their devices.
        shared = {
            "mapped": of_driver if device.kind in ("nvidia", "amd") else [device],
            "managed": of_driver,
        }
        if kind == "copy=False":
            made = SmartArray(self.own, copy=False)
        else:
            made = SmartArray(oracle, where=kind)
        self.kind = kind
        self.arrays = [
            Tracked(made, oracle, shared.get(kind, ())),
            Tracked(SmartArray(oracle), oracle.copy()),
        ]
        if kind == "gpu":
            self.arrays[0].model.launches(device, self.arrays[0].model.whole, "r")

    def view(self, chosen):
        number, name, key = chosen
        return View(self.arrays[number], name, key)

    @contextlib.contextmanager
    def at(self, side):
        """The device and the stream of a side, while the device is the current one."""
        number, stream = side
        with haulage.use(self.devices[number % len(self.devices)]) as device:
            yield device, self.streams[number % len(self.devices)][stream]

    # ---- the host ---------------------------------------------------------------------------

    @rule(chosen=some())
    def look(self, chosen):
        view = self.view(chosen)
        view.check()
        view.model.looks(view.part)

    @rule(chosen=rows)
    def look_at_an_element(self, chosen):
        view = self.view(chosen)
        if view.oracle.size:
            assert view.array[-1] == view.oracle[-1]
            part = view.bytes_of(view.oracle[-1:])
            # Its neighbours come with it.
            view.model.looks(part if part <= view.model.here else view.model.whole)

    @rule(chosen=some(), pickled=st.booleans())
    def copy_or_pickle(self, chosen, pickled):
        view = self.view(chosen)
        made = pickle.loads(pickle.dumps(view.array)) if pickled else copy.copy(view.array)
        view.check(made)
        made[...] = 0
        if pickled:
            view.model.looks(view.part)
        else:
            view.model.is_copied(view.part)

    @rule(chosen=some(), value=values)
    def assign(self, chosen, value):
        view = self.view(chosen)
        view.array[...] = view.oracle[...] = value
        view.model.writes(view.part, view.is_dense)

    @rule(chosen=some(), value=values, plain=st.booleans())
    def write_by_a_ufunc(self, chosen, value, plain):
        view = self.view(chosen)
        if plain:
            np.add(np.zeros_like(view.oracle), value, out=view.array)
            view.oracle[...] = value
            view.model.writes(view.part, view.is_dense)
        else:
            np.add(view.array, value, out=view.array)
            view.oracle += value
            view.model.looks(view.part)
            view.model.writes(view.part)

    @rule(chosen=some(), value=values, mode=st.sampled_from(["r", "rw", "w"]), raises=st.booleans())
    def use_on_the_host(self, chosen, value, mode, raises):
        view = self.view(chosen)
        model, part = view.model, view.part
        if not view.is_dense and mode == "w":
            mode = "rw"
        was_here = part <= model.here
        with contextlib.suppress(ZeroDivisionError), view.array.host(mode) as array:
            if mode == "w":
                model.overwrites(part)
                if not raises or was_here:
                    array[...] = view.oracle[...] = value
            else:
                model.looks(part)
                view.check(array)
                if mode == "rw":
                    array += value
                    view.oracle += value
            if raises:
                raise ZeroDivisionError
        del array
        if mode == "w" and raises:
            model.cancels(part)
        elif mode != "r":
            model.host_wrote(part)

    @rule(
        chosen=rows,
        value=values,
        mode=st.sampled_from(["rw", "w"]),
        side=sides,
        by_a_kernel=st.booleans(),
    )
    def use_what_the_host_writes(self, chosen, value, mode, side, by_a_kernel):
        """Before the end of the `with` in which it does, after a kernel has written there."""
        self.overwrite_by_a_kernel(chosen, value, side, every=True)
        view = self.view(chosen)
        model, part = view.model, view.part
        if not view.is_dense:
            mode = "rw"
        with view.array.host(mode) as array:
            if mode == "w":
                model.overwrites(part)
                model.host_wrote(part)
            else:
                model.looks(part)
            borrow = model.takes(part)
            array[...] = view.oracle[...] = value + 1
            if by_a_kernel:
                self.read_by_a_kernel(chosen, side)
            else:
                model.looks(part)
                view.check(np.asarray(view.array))
            if model.shared:
                self.wait()
            array[...] = view.oracle[...] = value + 2
        model.host_wrote(part)
        del array
        model.lets_go(borrow)

    @rule(chosen=rows, value=values)
    def use_in_njit(self, chosen, value):
        view = self.view(chosen)
        add_on_host(view.array, value)
        view.oracle += value
        view.model.looks(view.part)
        view.model.lets_go(view.model.takes(view.part))

    @rule(chosen=rows)
    def read_in_njit(self, chosen):
        view = self.view(chosen)
        with view.array.host("r"):
            assert total(view.array) == view.oracle.sum()
        view.model.looks(view.part)

    @rule(target=borrows, chosen=some())
    def take_a_view(self, chosen):
        view = self.view(chosen)
        held = view.array.get()
        view.model.looks(view.part)
        return [view, view.model.takes(view.part), held]

    @rule(borrow=borrows, value=values)
    def write_through_a_view(self, borrow, value):
        view, known, held = borrow
        if view.model.shared:
            self.wait()
        if not known.stale:
            view.check(held)
            held += value
            view.oracle += value

    @rule(borrow=consumes(borrows))
    def let_a_view_go(self, borrow):
        view, known, _ = borrow
        view.model.lets_go(known)
        borrow.clear()

    @rule(borrow=borrows)
    def write_through_a_view_too_early(self, borrow):
        view, known, held = borrow
        model = view.model
        others = [other for other in (*model.held, *model.gone) if other is not known]
        if (
            not (known.stale and view.is_dense)
            or model.shared
            or any(other.part & known.part for other in others)
        ):
            return
        np.invert(held, out=held)
        written = sorted(known.fresh & model.here)
        view.oracle_bytes[written] ^= 255
        with pytest.raises(CoherenceError, match="which is lost"):
            np.asarray(view.array)
        model.settles()

    @rule(value=values)
    def write_to_the_memory_that_it_stands_on(self, value):
        if self.kind == "copy=False":
            first = self.arrays[0]
            if first.model.here == first.model.whole:
                first.model.settles()
                np.asarray(first.array)
                self.own[3] = first.oracle[3] = value
                first.array[3:4].mark_changed()
                first.model.host_wrote(set(range(12, 16)))
            else:
                with pytest.raises(CoherenceError, match="not current"):
                    first.array.mark_changed()

    # ---- devices ----------------------------------------------------------------------------

    @rule(chosen=some(), value=values, side=sides)
    def change_by_a_kernel(self, chosen, value, side):
        view = self.view(chosen)
        if view.oracle.size:
            with self.at(side) as (device, stream):
                if view.oracle.ndim == 2:
                    add_number_2d[1, (8, 8), stream](view.array, value)
                else:
                    add_number[1, 64, stream](view.array, value)
            view.model.launches(device, view.part, "rw")
            view.oracle += value

    @rule(chosen=rows, value=values, side=sides, every=st.booleans())
    def overwrite_by_a_kernel(self, chosen, value, side, every):
        view = self.view(chosen)
        if view.oracle.size:
            with self.at(side) as (device, stream):
                (fill if every else fill_some)[1, 64, stream](view.array, value)
            view.model.launches(device, view.part, "w" if every and view.is_dense else "rw")
            view.oracle[slice(None) if every else slice(1, None, 2)] = value

    @rule(chosen=rows, side=sides)
    def read_by_a_kernel(self, chosen, side):
        view = self.view(chosen)
        if view.oracle.size:
            with self.at(side) as (device, stream):
                out = cuda.device_array(view.oracle.size, np.int32)
                copy_to[1, 32, stream](view.array, out)
            view.model.launches(device, view.part, "r")
            self.copied.append((out, view.oracle.copy(), stream))

    @rule(one=some("as it is"), other=some("as it is"), side=sides, adds=st.booleans())
    def use_two_in_a_kernel(self, one, other, side, adds):
        source, target = self.view(one), self.view(other)
        n = min(source.oracle.size, target.oracle.size)
        is_one = source.model is target.model
        if not n or (is_one and source.part & target.part):
            return
        with self.at(side) as (device, stream):
            (add_to if adds else copy_to)[1, 32, stream](source.array, target.array)
        is_whole = target.is_dense and target.oracle.size == n and not (adds or is_one)
        source.model.acquires(device, source.part, "r")
        target.model.acquires(device, target.part, "w" if is_whole else "rw")
        target.model.device_wrote(device, target.part)
        values = source.oracle[:n] + (target.oracle[:n] if adds else 0)
        target.oracle[:n] = values

    @rule(chosen=rows)
    def ask_for_the_size(self, chosen):
        view = self.view(chosen)
        out = cuda.device_array(1, np.int64)
        count[1, 1](view.array, out)
        view.model.launches(self.devices[0], set(), "none")
        self.copied.append((out, [view.oracle.size], 0))

    @rule(chosen=rows, side=sides)
    def launch_what_fails(self, chosen, side):
        view = self.view(chosen)
        if view.oracle.size:
            with self.at(side) as (_, stream), pytest.raises(LaunchError, match="dynamic"):
                fill_by_shared[1, 64, stream](view.array)
            # That is found before anything is moved.

    @rule(chosen=rows, side=sides)
    def launch_a_kernel_that_fails(self, chosen, side):
        view = self.view(chosen)
        if view.oracle.size:
            self.wait()
            with self.at(side) as (device, stream):
                fails[1, 1, stream](view.array)
                view.model.launches(device, view.part, "r")
                with pytest.raises(KernelError, match="on purpose"):
                    device.synchronize()

    @rule(chosen=some(), value=values, side=sides)
    def change_the_device_array(self, chosen, value, side):
        view = self.view(chosen)
        if view.oracle.size:
            with self.at(side) as (device, _):
                there = view.array.get(device)
                view.model.launches(device, view.part, "r")
                self.wait()
                there[...] = view.oracle[...] = view.oracle.dtype.type(value)
                view.array.mark_changed(device)
            view.model.device_wrote(device, view.part)

    @rule(chosen=some(), side=sides)
    def say_that_it_was_changed(self, chosen, side):
        view = self.view(chosen)
        with self.at(side) as (device, _):
            if view.model.has_out_of_date(device, view.part):
                with pytest.raises(CoherenceError, match="not current"):
                    view.array.mark_changed(device)

    @rule(side=sides)
    def hold_a_stream_up(self, side):
        with self.at(side) as (_, stream), contextlib.suppress(Unsupported):
            if stream:
                stream.add_callback(lambda *_: time.sleep(0.003))

    @rule()
    def wait(self):
        for device in self.devices:
            device.synchronize()
            for each in self.arrays:
                each.model.waits(device)

    @rule(side=sides)
    def make_room(self, side):
        self.take_back()
        with self.at(side) as (device, _):
            for each in self.arrays:
                state = each.array.coherence.state
                eviction.evict(state, device, copying=True, why="a test")
                each.model.gives_way(device)

    @rule(number=st.integers(0, 1), side=sides)
    def lose_the_copy_of_a_device(self, number, side):
        of = self.arrays[number]
        with self.at(side) as (device, _):
            if device in of.model.shared or device not in of.model.there:
                return
            self.wait()
            there = of.array.get(device, "r")
            of.model.launches(device, of.model.whole, "r")
            of.model.device_wrote(device, set())
            there.close()
        of.model.loses(device)
        if of.model.lost:
            with pytest.raises(CoherenceError, match="are lost"):
                np.asarray(of.array)
            of.model.settles()
            of.array[...] = of.oracle[...] = 5
            of.model.writes(of.model.whole)

    # ---- what must hold ---------------------------------------------------------------------

    @invariant()
    def as_many_bytes_were_moved_as_the_model_says(self):
        for each in self.arrays:
            found = Counter()
            for one in each.array.coherence.transfers:
                found[one.source, one.target] += one.nbytes
            assert +found == each.model.moved

    @invariant()
    def the_bytes_are_where_the_model_says(self):
        for each in self.arrays:
            coherence = each.array.coherence
            places = {place for place in (HOST, *self.devices) if coherence.is_current(place)}
            assert places == set(each.model.current(each.model.whole))

    def take_back(self):
        """What kernels copied, which must be what it was then."""
        for out, expected, stream in self.copied:
            np.testing.assert_array_equal(out.copy_to_host(stream=stream), expected)
        self.copied.clear()

    def teardown(self):
        self.take_back()
        for each in self.arrays:
            np.testing.assert_array_equal(np.asarray(each.array), each.oracle)


def run(devices):
    # Programs that fail are not made shorter: that takes minutes here.
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        phases=[hypothesis.Phase.generate],
    )
    run_state_machine_as_test(lambda: SmartArrays(devices), settings=settings)


def test_any_program_moves_what_it_has_to_and_no_more(devices):
    run(devices)


def test_any_program_is_right_where_work_is_done_late(device, devices):
    if runtime.current.adversary_seed is not None or device.kind != "cpu":
        pytest.skip("the adversarial mode is the CPU device's, and on already otherwise")
    for seed in (1, 2):
        with haulage.adversary(seed):
            run(devices)
