"""Freed memory goes to others only in an order that keeps their work apart: streams that are held
up show it, and random programs on several streams have NumPy's results."""

import contextlib
import gc
import random
import threading
import time

import numpy as np
import pytest

from haulage import cuda, memory
from haulage.backends.base import NON_BLOCKING
from haulage.runtime.devices.stream import Stream
from haulage.runtime.memory import heap
from haulage.runtime.process import runtime

pytestmark = [
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(
        runtime.current.adversary_seed is not None,
        reason="the adversarial mode takes all memory from the driver",
    ),
]
ALSO_FAR = True

SMALL, LARGE = 1000, 300_000


@pytest.fixture(autouse=True)
def nothing_free(device):
    """So what a test frees is what its next array of the size is given."""
    device.synchronize()
    memory.trim(device)


def non_blocking(device):
    return Stream.create(device, NON_BLOCKING)


def wait_until(done):
    end = time.monotonic() + 30
    while not done() and time.monotonic() < end:
        time.sleep(0.001)
    assert done()


def copy(to, of, stream):
    """Copy as many bytes as `to` has, in a stream, also in the default one without a wait."""
    for array in (to, of):
        array.block.use(stream)
    pointers = int(to.device_pointer), int(of.device_pointer)
    to.device.backend.copy(*pointers, to.nbytes, stream.handle)


def in_use(device):
    return memory.stats(device).in_use


# ---- what is still used -------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
@pytest.mark.parametrize("home_is_default", [True, False])
def test_another_streams_use_of_recycled_memory_waits(device, hold_up, nbytes, home_is_default):
    """The old array is written late in its stream; the new one is written in a stream that does
    not wait for others by itself."""
    sources = [cuda.to_device(np.full(nbytes, value, np.uint8)) for value in (1, 2)]
    home = device.default_stream if home_is_default else cuda.stream()
    other = non_blocking(device)
    with hold_up(home):
        old = cuda.device_array(nbytes, np.uint8, stream=home)
        address = old.device_pointer
        copy(old, sources[0], home)
        del old
        new = cuda.device_array(nbytes, np.uint8, stream=home)
        assert new.device_pointer == address
        copy(new, sources[1], other)
        assert not other.query()
    device.synchronize()
    assert (new.copy_to_host() == 2).all()


@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
def test_work_of_the_default_stream_counts_where_the_home_is_another(device, hold_up, nbytes):
    sources = [cuda.to_device(np.full(nbytes, value, np.uint8)) for value in (1, 2)]
    home, other = cuda.stream(), non_blocking(device)
    old = cuda.device_array(nbytes, np.uint8, stream=home)
    address = old.device_pointer
    with hold_up(device.default_stream):
        copy(old, sources[0], device.default_stream)
        del old
        assert home.query()
        new = [cuda.device_array(nbytes, np.uint8, stream=s) for s in (home, 0, other)]
        for each in new:
            copy(each, sources[1], other)
        assert new[0].device_pointer == address
    device.synchronize()
    assert all((each.copy_to_host() == 2).all() for each in new)


@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
def test_memory_that_another_stream_uses_is_nobodys_until_it_is_done(device, hold_up, nbytes):
    before = in_use(device)
    home, user = cuda.stream(), cuda.stream()
    source = cuda.to_device(np.full(nbytes, 1, np.uint8))
    old = cuda.device_array(nbytes, np.uint8, stream=home)
    address = old.device_pointer
    with hold_up(user):
        copy(old, source, user)
        old.close()
        assert in_use(device) == before + 2 * nbytes
        new = [cuda.device_array(nbytes, np.uint8, stream=s) for s in (home, user, 0) * 3]
        assert address not in [each.device_pointer for each in new]
    user.synchronize()
    assert in_use(device) == before + 10 * nbytes
    again = [cuda.device_array(nbytes, np.uint8, stream=home) for _ in range(3)]
    assert address in [each.device_pointer for each in again]


def test_memory_that_waits_for_a_stream_outlives_its_own_stream(device, hold_up):
    gc.collect()
    before = memory.stats(device)
    home, user = cuda.stream(), cuda.stream()
    handle = int(home.handle)
    source = cuda.to_device(np.zeros(LARGE, np.uint8))
    arrays = [cuda.device_array(n, np.uint8, stream=home) for n in (SMALL, LARGE)]
    with hold_up(user):
        for array in arrays:
            copy(array, source, user)
        del array, arrays, home
        gc.collect()
    user.synchronize()
    del source
    assert in_use(device) == before.in_use
    device.synchronize()
    memory.trim(device)
    assert memory.stats(device).reserved <= before.reserved
    assert (str(device), handle) not in memory.stats(device).by_stream
    own = [each for each in heap.heaps.values() if each.device is device]
    assert not any(each.retiring for each in own)


def test_a_stream_that_ends_in_a_collection_leaves_its_memory_to_others(device):
    gc.collect()
    before = memory.stats(device)
    for _ in range(20):
        ring = [cuda.stream()]
        ring += [cuda.device_array(n, np.uint8, stream=ring[0]) for n in (SMALL, LARGE)]
        ring.append(ring)
        del ring
    gc.collect()
    assert in_use(device) == before.in_use
    device.synchronize()
    memory.trim(device)
    after = memory.stats(device)
    assert after.reserved <= before.reserved
    assert len(after.by_stream) <= len(before.by_stream) + 1


def test_ever_new_streams_have_the_memory_of_those_that_are_gone(device):
    held = []
    for _ in range(3):
        for _ in range(100):
            stream = cuda.stream()
            cuda.device_array(1000, stream=stream).copy_to_host(stream=stream)
            cuda.device_array(20_000, stream=stream).copy_to_host(stream=stream)
            stream.synchronize()
            del stream
        held.append(memory.stats(device).reserved)
    assert held[2] <= held[0]


def test_a_threads_own_stream_leaves_its_memory_when_the_thread_ends(device):
    before = memory.stats(device)

    def allocate():
        stream = cuda.per_thread_default_stream()
        for nbytes in (SMALL, LARGE):
            cuda.device_array(nbytes, np.uint8, stream=stream)

    for _ in range(5):
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
    device.synchronize()
    memory.trim(device)
    assert in_use(device) == before.in_use
    assert memory.stats(device).reserved <= before.reserved


def test_many_frees_behind_a_stream_that_is_held_up_do_not_slow_allocations(device, hold_up):
    """An allocation asks for a few events, however many arrays wait."""
    asked = []
    backend = device.backend
    user = cuda.stream()
    query = backend.event_query
    with hold_up(user), pytest.MonkeyPatch.context() as patch:
        for _ in range(300):
            cuda.device_array(10, np.uint8).block.use(user)
        patch.setattr(backend, "event_query", lambda event: asked.append(event) or query(event))
        for _ in range(10):
            cuda.device_array(LARGE, np.uint8)
    assert 0 < len(asked) < 100
    user.synchronize()
    memory.stats(device)


# ---- random programs ----------------------------------------------------------------------------


def order(after, before, device):
    """Let a stream wait for another, as a program does that uses an array in both."""
    if after is not before:
        event = cuda.event()
        event.record(before)
        event.wait(after)


@pytest.mark.parametrize("seed", range(4))
def test_temporaries_on_many_streams_never_meet(device, seed):
    """Each step makes a temporary, writes it in one stream, reads it in another and drops it."""
    choose = random.Random(seed)
    foreign = device.backend.stream_create(0)
    streams = [
        device.default_stream,
        cuda.stream(),
        cuda.stream(),
        non_blocking(device),
        non_blocking(device),
        cuda.per_thread_default_stream(),
        cuda.external_stream(foreign),
    ]
    sizes = (100, 256, 3000, 60_000, 70_000, 250_000)
    room = max(sizes)
    sources = [cuda.to_device(np.full(room, value, np.uint8)) for value in range(64)]
    results = [cuda.to_device(np.zeros(room, np.uint8)) for _ in range(12)]
    last = [device.default_stream] * len(results)
    expected = np.zeros((len(results), room), np.uint8)
    kept = []
    for step in range(400):
        home, writer, reader = (choose.choice(streams) for _ in range(3))
        nbytes, value = choose.choice(sizes), choose.randrange(64)
        place = choose.randrange(len(results))
        if choose.random() < 0.05:
            pause = choose.random() / 100
            slow = choose.choice(streams)
            device.backend.stream_callback(slow.handle, lambda pause=pause: time.sleep(pause))
        temporary = cuda.device_array(nbytes, np.uint8, stream=home)
        copy(temporary, sources[value], writer)
        order(reader, writer, device)
        order(reader, last[place], device)
        copy(results[place][:nbytes], temporary, reader)
        expected[place, :nbytes], last[place] = value, reader
        if choose.random() < 0.1:
            kept.append((temporary, value))
        if choose.random() < 0.1 and kept:
            kept.pop(choose.randrange(len(kept)))[0].close()
        if step % 100 == 99:
            memory.trim(device)
            streams[1] = cuda.stream()
        del temporary
    device.synchronize()
    for result, correct in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.copy_to_host(), correct)
    for array, value in kept:
        assert (array.copy_to_host() == value).all()
    del streams, home, writer, reader, last, array, kept, result
    device.synchronize()
    device.backend.stream_destroy(foreign)


@pytest.mark.parametrize("seed", range(2))
def test_kernels_on_temporaries_have_numpys_results(device, seed):
    @cuda.jit
    def combine(out, x, y, factor):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * factor + y[i]

    choose = random.Random(seed)
    streams = [device.default_stream, cuda.stream(), cuda.stream(), non_blocking(device)]
    size = 3000
    host = [np.arange(size, dtype=np.int64) * k for k in range(6)]
    held = [cuda.to_device(each) for each in host]
    last = [device.default_stream] * len(held)
    for _ in range(150):
        stream = choose.choice(streams)
        x, y, z = (choose.randrange(len(held)) for _ in range(3))
        for each in {x, y, z}:
            order(stream, last[each], device)
            last[each] = stream
        if choose.random() < 0.05:
            device.backend.stream_callback(stream.handle, lambda: time.sleep(0.003))
        product = cuda.device_array(size, np.int64, stream=choose.choice(streams))
        total = cuda.device_array(size, np.int64, stream=stream)
        combine[12, 256, stream](product, held[x], held[y], 3)
        combine[12, 256, stream](total, product, held[z], -1)
        del product
        held[z] = total
        host[z] = -(host[x] * 3 + host[y]) + host[z]
        host[z] %= 1000003
        reduced = cuda.device_array(size, np.int64, stream=choose.choice(streams))
        remainder[12, 256, stream](reduced, total)
        held[z] = reduced
    device.synchronize()
    for array, correct in zip(held, host, strict=True):
        np.testing.assert_array_equal(array.copy_to_host(), correct)


@cuda.jit
def remainder(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] % 1000003


@contextlib.contextmanager
def counted(backend, names):
    """How often methods of a back end were called."""
    calls = dict.fromkeys(names, 0)

    def counting(name):
        method = getattr(backend, name)

        def call(*args):
            calls[name] += 1
            return method(*args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(backend, name, counting(name))
        yield calls


def test_every_event_and_stream_goes_back_to_the_driver(device):
    names = ("event_create", "event_destroy", "stream_create", "stream_destroy")
    # What earlier tests have left goes first; some of it when what it waits for has gone.
    gc.collect()
    for _ in range(2):
        device.synchronize()
        memory.stats(device)
    with counted(device.backend, names) as calls:
        for _ in range(30):
            streams = [cuda.stream(), non_blocking(device)]
            arrays = [cuda.device_array(n, np.uint8, stream=streams[0]) for n in (SMALL, LARGE)]
            for array in arrays:
                array.block.use(streams[1])
                device.backend.stream_callback(streams[1].handle, lambda: time.sleep(0.001))
            del array, arrays, streams
        device.synchronize()
        memory.stats(device)
        device.synchronize()
        memory.stats(device)
    assert calls["event_create"] == calls["event_destroy"]
    assert calls["stream_create"] == calls["stream_destroy"] == 60
