"""The adversarial mode: each kind of forgotten wait shows every time, right programs stay right."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda
from haulage.errors import KernelError, Unsupported
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("adversarial")

N = 1000
SEEDS = range(20)


@pytest.fixture
def adversarial(device):
    """Skips devices that have no such mode."""
    try:
        with haulage.adversary(0):
            pass
    except Unsupported as missing:
        pytest.skip(str(missing))


@cuda.jit
def add(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value


@cuda.jit
def add_other(x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += y[i]


@cuda.jit
def fails(x):
    if cuda.grid(1) == 0:
        raise ValueError("on purpose")


add_n, add_other_n = add.forall(N), add_other.forall(N)


def in_stream(kernel, stream):
    return kernel[-(-N // 128), 128, stream]


def zeros():
    return cuda.to_device(np.zeros(N))


def pinned(value=0.0):
    array = cuda.pinned_array(N)
    array[:] = value
    return array


# ---- one program for each kind of mistake -------------------------------------------------------
# Each gives what it read and what it should have read; `right` says whether the line is there.


def target_read_before_the_wait(right):
    stream, x, target = cuda.stream(), cuda.to_device(np.ones(N)), pinned()
    in_stream(add, stream)(x, 1)
    x.copy_to_host(target, stream=stream)
    if right:
        stream.synchronize()
    return target.copy(), 2


def source_changed_while_its_upload_waits(right):
    stream, x, source = cuda.stream(), zeros(), pinned(1)
    x.copy_to_device(source, stream=stream)
    if right:
        stream.synchronize()
    source[:] = 5
    return x.copy_to_host(), 1


def consumer_without_an_event(right):
    producer, consumer = cuda.stream(), cuda.stream()
    x, y = zeros(), zeros()
    in_stream(add, producer)(x, 1)
    if right:
        event = cuda.event()
        event.record(producer)
        event.wait(consumer)
    in_stream(add_other, consumer)(y, x)
    return y.copy_to_host(), 1


def the_same_between_earlier_and_later_work(right):
    producer, consumer = cuda.stream(), cuda.stream()
    x, y, before, after = zeros(), zeros(), zeros(), zeros()
    in_stream(add, consumer)(before, 1)
    in_stream(add, producer)(x, 1)
    if right:
        event = cuda.event()
        event.record(producer)
        event.wait(consumer)
    in_stream(add_other, consumer)(y, x)
    in_stream(add, producer)(after, 1)
    return y.copy_to_host(), 1


def overwritten_before_it_was_read(right):
    reader, writer = cuda.stream(), cuda.stream()
    x, y = cuda.to_device(np.ones(N)), zeros()
    in_stream(add_other, reader)(y, x)
    if right:
        event = cuda.event()
        event.record(reader)
        writer.wait(event)
    in_stream(add, writer)(x, 7)
    cuda.synchronize()
    return y.copy_to_host(), 1


def event_recorded_too_early(right):
    producer, consumer = cuda.stream(), cuda.stream()
    x, y, event = zeros(), zeros(), cuda.event()
    if not right:
        event.record(producer)
    in_stream(add, producer)(x, 1)
    if right:
        event.record(producer)
    event.wait(consumer)
    in_stream(add_other, consumer)(y, x)
    consumer.synchronize()
    target = pinned()
    y.copy_to_host(target, stream=consumer)
    consumer.synchronize()
    return target.copy(), 1


def event_that_nobody_waits_for(right):
    producer, consumer = cuda.stream(), cuda.stream()
    x, y, event = zeros(), zeros(), cuda.event()
    in_stream(add, producer)(x, 1)
    event.record(producer)
    if right:
        event.wait(consumer)
    in_stream(add_other, consumer)(y, x)
    return y.copy_to_host(), 1


def the_other_stream_waited_for(right):
    stream, other = cuda.stream(), cuda.stream()
    x, y, target = zeros(), zeros(), pinned()
    in_stream(add, stream)(x, 1)
    in_stream(add, other)(y, 1)
    x.copy_to_host(target, stream=stream)
    (stream if right else other).synchronize()
    return target.copy(), 1


def mapped_memory_read_after_a_launch(right):
    stream, x = cuda.stream(), cuda.mapped_array(N)
    x[:] = 0
    in_stream(add, stream)(x, 1)
    if right:
        stream.synchronize()
    return np.array(x), 1


def mapped_memory_read_after_a_launch_in_the_default_stream(right):
    x = cuda.mapped_array(N)
    x[:] = 0
    add_n(x, 1)
    if right:
        cuda.synchronize()
    return np.array(x), 1


def managed_memory_read_after_a_launch(right):
    x = cuda.managed_array(N)
    x[:] = 0
    add_n(x, 1)
    if right:
        cuda.synchronize()
    return np.array(x), 1


def memory_that_was_never_written(right):
    x = cuda.device_array(N)
    if right:
        x.fill(0)
    add_n(x, 1)
    return x.copy_to_host(), 1


def integers_that_were_never_written(right):
    x = cuda.device_array(N, np.int64)
    if right:
        x.fill(0)
    add_n(x, 1)
    return x.copy_to_host(), 1


MISTAKES = [
    target_read_before_the_wait,
    source_changed_while_its_upload_waits,
    consumer_without_an_event,
    the_same_between_earlier_and_later_work,
    overwritten_before_it_was_read,
    event_recorded_too_early,
    event_that_nobody_waits_for,
    the_other_stream_waited_for,
    mapped_memory_read_after_a_launch,
    mapped_memory_read_after_a_launch_in_the_default_stream,
    managed_memory_read_after_a_launch,
    memory_that_was_never_written,
    integers_that_were_never_written,
]


@pytest.mark.parametrize("program", MISTAKES, ids=lambda program: program.__name__)
def test_a_mistake_shows_for_every_seed_and_its_repair_is_right(program):
    for seed in SEEDS:
        with haulage.adversary(seed):
            got, expected = program(right=False)
        assert (got != expected).all(), f"seed {seed} gave the right result"
        with haulage.adversary(seed):
            got, expected = program(right=True)
        assert (got == expected).all(), f"seed {seed} gave a wrong result"


# ---- right programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_stream_waits_for_others(seed):
    with haulage.adversary(seed):
        one, two, x, y = cuda.stream(), cuda.stream(), zeros(), zeros()
        in_stream(add, one)(x, 1)
        in_stream(add, two)(y, 2)
        add_other_n(x, y)
        in_stream(add_other, two)(y, x)
        assert (x.copy_to_host() == 3).all()
        assert (y.copy_to_host() == 5).all()


def test_polling_ends():
    with haulage.adversary(1):
        stream, event, x = cuda.stream(), cuda.event(), zeros()
        for _ in range(5):
            in_stream(add, stream)(x, 1)
        event.record(stream)
        while not event.query():
            pass
        in_stream(add, stream)(x, 1)
        while not stream.query():
            pass
        assert (x.copy_to_host() == 6).all()


def test_freeing_memory_lets_no_work_run():
    with haulage.adversary(1):
        stream, x, target = cuda.stream(), zeros(), pinned()
        in_stream(add, stream)(x, 1)
        x.copy_to_host(target, stream=stream)
        for _ in range(20):
            cuda.device_array(10).close()
            gone = cuda.device_array(N)
            in_stream(add, stream)(gone, 1)
            del gone
        assert (target == 0).all()
        stream.synchronize()
        assert (target == 1).all()


def test_failed_kernels_are_reported_by_the_wait_that_runs_them():
    with haulage.adversary(1):
        stream, other, x = cuda.stream(), cuda.stream(), zeros()
        in_stream(fails, stream)(x)
        in_stream(add, stream)(x, 1)
        other.synchronize()
        with pytest.raises(KernelError, match="on purpose"):
            stream.synchronize()
        stream.synchronize()
        assert (x.copy_to_host() == 1).all()


# (what, stream, array, other array or value)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add_other", "fill", "copy", "upload", "download", "wait"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=20,
)


class Ordered:
    """Gives each use of an array the events that order it after all that it conflicts with."""

    def __init__(self, arrays):
        self.written = dict.fromkeys(range(arrays))
        self.read = {i: [] for i in range(arrays)}

    def before(self, stream, reads, writes):
        for i in {*reads, *writes}:
            for event in [self.written[i], *(self.read[i] if i in writes else [])]:
                if event is not None:
                    event.wait(stream)

    def after(self, stream, reads, writes):
        event = cuda.event(timing=False)
        event.record(stream)
        for i in reads:
            self.read[i].append(event)
        for i in writes:
            self.written[i], self.read[i] = event, []


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_programs_with_all_their_waits_give_what_numpy_gives(steps, seed):
    rng = np.random.default_rng(seed)
    expected = [rng.integers(0, 100, N).astype(np.float64) for _ in range(4)]
    with haulage.adversary(seed):
        streams = [cuda.default_stream(), *(cuda.stream() for _ in range(3))]
        there = [cuda.to_device(values) for values in expected]
        ordered, downloads = Ordered(4), []
        for what, where, i, j in steps:
            stream = streams[where]
            if what == "wait":
                stream.synchronize()
                continue
            reads = [j] if what in ("add_other", "copy") else [i] if what == "download" else []
            writes = [] if what == "download" else [i]
            ordered.before(stream, reads, writes)
            if what == "add":
                in_stream(add, stream)(there[i], j)
                expected[i] = expected[i] + j
            elif what == "add_other":
                in_stream(add_other, stream)(there[i], there[j])
                expected[i] = expected[i] + expected[j]
            elif what == "fill":
                there[i].fill(j, stream=stream)
                expected[i] = np.full(N, float(j))
            elif what == "copy":
                there[i].copy_to_device(there[j], stream=stream)
                expected[i] = expected[j].copy()
            elif what == "upload":
                source = pinned(10.0 * j)
                there[i].copy_to_device(source, stream=stream)
                expected[i] = source.copy()
            else:
                downloads.append((there[i].copy_to_host(pinned(), stream=stream), expected[i]))
            ordered.after(stream, reads, writes)
        cuda.synchronize()
        downloads += [(x.copy_to_host(), e) for x, e in zip(there, expected, strict=True)]
        for got, wanted in downloads:
            np.testing.assert_array_equal(got, wanted)


# ---- switching ----------------------------------------------------------------------------------


@pytest.fixture
def off():
    """The mode is off, and off again, also where the environment has turned it on."""
    before = runtime.current.adversary_seed
    haulage.adversary(None)
    yield
    haulage.adversary(before)


def held_back():
    """Whether work waits for somebody to wait for it."""
    stream, x, target = cuda.stream(), cuda.to_device(np.ones(N)), pinned()
    x.copy_to_host(target, stream=stream)
    before = stream.idle()
    stream.synchronize()
    return not before


@pytest.mark.usefixtures("off")
def test_it_is_switched_for_the_process_or_for_a_block():
    assert runtime.current.adversary_seed is None
    haulage.adversary(7)
    assert runtime.current.adversary_seed == 7
    assert held_back()
    with haulage.adversary(np.int64(8)):
        assert runtime.current.adversary_seed == 8
        assert held_back()
    assert runtime.current.adversary_seed == 7
    with haulage.adversary(None):
        assert runtime.current.adversary_seed is None
    assert held_back()
    haulage.adversary(None)
    assert runtime.current.adversary_seed is None


@pytest.mark.usefixtures("off")
def test_one_mode_can_be_entered_again():
    again = haulage.adversary(3)
    for _ in range(2):
        with again:
            assert runtime.current.adversary_seed == 3
            assert held_back()
        assert runtime.current.adversary_seed is None
    assert repr(again) == "<haulage.adversary 3>"


@pytest.mark.usefixtures("off")
def test_a_switch_waits_for_the_work_there_is():
    target = pinned()
    with haulage.adversary(1):
        stream, x = cuda.stream(), cuda.to_device(np.ones(N))
        x.copy_to_host(target, stream=stream)
        assert (target == 0).all()
    assert (target == 1).all()


@pytest.mark.usefixtures("off")
def test_a_kernel_that_failed_in_a_block_is_reported_at_its_end_and_the_mode_is_off():
    with pytest.raises(KernelError, match="on purpose"), haulage.adversary(1):
        fails[1, 1](zeros())
    assert runtime.current.adversary_seed is None
    cuda.synchronize()


@pytest.mark.parametrize("seed", ["7", 1.5, True])
def test_a_seed_that_is_no_int_is_refused(seed):
    before = runtime.current.adversary_seed
    with pytest.raises(TypeError, match="expected an int"):
        haulage.adversary(seed)
    assert runtime.current.adversary_seed == before
