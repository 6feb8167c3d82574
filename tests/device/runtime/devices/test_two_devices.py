"""Several devices of one driver, each thread with its own active one: on two far devices.

Their driver refuses calls for which the device was not made active just before, and streams and
events of the other device.
"""

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import haulage
from doubles.far import registered
from doubles.far_pair import far_pair
from haulage import cuda, memory
from haulage.backends.base import NON_BLOCKING
from haulage.errors import DeviceMismatch, Unsupported
from haulage.runtime.devices import pending


@pytest.fixture
def pair(monkeypatch):
    """The two devices, the second one current; what finalisers raise is an error."""
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    first, second = far_pair()
    with registered(first, second), haulage.use(second):
        yield first, second
        gc.collect()
        for device in (first, second):
            device.synchronize()
            pending.flush(device)
    assert not [told.exc_value for told in raised]


class held:
    """A stream stops at its present end until the `with` ends."""

    def __init__(self, stream):
        self.opened = threading.Event()
        stream.device.activate()
        stream.device.backend.stream_callback(stream.handle, lambda: self.opened.wait(60))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.opened.set()


def in_a_new_thread(work):
    """`work()` in a thread that has no active device."""
    failed = []

    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    for error in failed:
        raise error


@cuda.jit
def add(x, n):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += n


def test_each_device_has_memory_streams_and_kernels_of_its_own(pair):
    arrays = []
    for device in pair:
        with haulage.use(device):
            stream = cuda.stream()
            array = cuda.to_device(np.arange(1000.0), stream=stream)
            add[4, 256, stream](array, device.id + 1)
            arrays.append((array, stream))
    for device, (array, stream) in zip(pair, arrays, strict=True):
        assert array.device is stream.device is device
        stream.synchronize()
        assert np.array_equal(array.copy_to_host(), np.arange(1000.0) + device.id + 1)
    with pytest.raises(DeviceMismatch):
        add[4, 256](arrays[0][0], arrays[1][0])


@pytest.mark.parametrize("nbytes", [1000, 300_000])
def test_a_thread_that_never_used_a_device_can_be_the_one_that_gives_back(pair, nbytes):
    before = [memory.stats(device).in_use for device in pair]
    kept = []
    for device in pair:
        with haulage.use(device):
            stream, mark, pinned = cuda.stream(), cuda.event(), cuda.pinned_array(nbytes, np.uint8)
            array = cuda.device_array(nbytes, np.uint8, stream=stream)
            other = cuda.device_array(nbytes, np.uint8)
            other.copy_to_device(pinned, stream=stream)
            mark.record(stream)
            kept.append([array, other, pinned, mark, stream])
    del array, other, pinned, mark, stream
    for device in pair:
        device.synchronize()
    in_a_new_thread(kept.clear)
    assert not kept
    for device, were in zip(pair, before, strict=True):
        pending.flush(device)
        assert memory.stats(device).in_use == were


def test_memory_that_waits_for_streams_of_both_is_given_back_by_any_thread(pair):
    streams, arrays = [], []
    before = [memory.stats(device).in_use for device in pair]
    for device in pair:
        with haulage.use(device):
            streams.append(cuda.stream())
            arrays.append(cuda.device_array(100, np.uint8))
            arrays[-1].block.use(streams[-1])
    with held(streams[0]), held(streams[1]):
        arrays.clear()
        assert [memory.stats(device).in_use for device in pair] == [n + 100 for n in before]
    for stream in streams:
        stream.synchronize()
    in_a_new_thread(pending.reap)
    assert [memory.stats(device).in_use for device in pair] == before


@pytest.mark.parametrize("where", ["stream", "default stream"])
def test_portable_memory_is_kept_until_the_other_device_is_done_with_it(pair, where):
    first, second = pair
    with haulage.use(first):
        portable = cuda.mapped_array(1000, np.uint8, portable=True)
        own = cuda.mapped_array(1000, np.uint8)
    portable[:] = own[:] = 7
    stream = cuda.stream()
    target = cuda.device_array(1000, np.uint8)
    before = memory.stats(first).in_use
    portable.block.use(second.default_stream)
    assert second.default_stream in portable.block.users()
    working = stream if where == "stream" else second.default_stream
    with held(working):
        target.copy_to_device(portable, stream=stream)  # does not wait
        assert not stream.query()
        del portable
        gc.collect()
        assert memory.stats(first).in_use == before
    stream.synchronize()
    memory.stats(first)
    pending.flush(first)
    assert memory.stats(first).in_use == before - 1000
    assert (target.copy_to_host() == 7).all()
    target.copy_to_device(own, stream=stream)  # pinned for the other device only: it waits
    assert stream.query()


def test_what_a_callback_lets_go_of_is_given_back_by_another_thread(pair):
    """Drivers take no calls in callbacks."""
    _, second = pair
    before = memory.stats(second).in_use
    stream, other = cuda.stream(), cuda.stream()
    arrays = [cuda.device_array(nbytes, np.uint8) for nbytes in (1000, 300_000)]
    for array in arrays:
        array.block.use(other)
    kept = [*arrays, cuda.pinned_array(100), cuda.mapped_array(100), cuda.event(), cuda.stream()]
    del array, arrays
    gone = [weakref.ref(kept[-1]), weakref.ref(kept[-2])]
    with held(other), held(stream):
        stream.add_callback(lambda stream, status, held: held.clear(), kept)
        stream.add_callback(lambda stream, status, own: None, other)
        del stream, other
    for _ in range(600):
        if not kept:
            break
        time.sleep(0.05)
    second.synchronize()
    assert [ref() for ref in gone] == [None, None]
    pending.flush(second)
    assert memory.stats(second).in_use == before


def test_a_stream_can_wait_for_an_event_of_another_device_of_its_driver(pair):
    first, _ = pair
    with haulage.use(first):
        earlier, mark = cuda.stream(), cuda.event()
    later = cuda.stream()
    with held(earlier):
        mark.record(earlier)
        mark.wait(later)
        later.wait(mark)
        assert not later.query()
    later.synchronize()
    assert mark.query()
    with pytest.raises(DeviceMismatch), haulage.use("cpu"):
        mark.wait(cuda.stream())


def test_contexts_of_other_drivers_are_no_peers(pair):
    mine = cuda.current_context()
    with haulage.use("cpu"):
        other = cuda.current_context()
    assert mine.can_access_peer(other) is False
    with pytest.raises(Unsupported, match="another driver"):
        mine.enable_peer_access(other)


def test_a_stream_that_no_event_can_be_recorded_in_is_waited_for_before_it_goes(pair, monkeypatch):
    """Later its handle may be that of nothing, or of another stream."""
    _, second = pair
    stream = cuda.stream()
    cuda.to_device(np.ones(100), stream=stream)
    backend, asked = second.backend, []
    real = {name: getattr(backend, name) for name in ("stream_query", "event_record")}

    def refuse(event, handle):
        raise haulage.errors.DeviceError("no more events")

    def query(handle):
        asked.append(handle)
        return real["stream_query"](handle)

    opened = held(stream).opened
    monkeypatch.setattr(backend, "event_record", refuse)
    monkeypatch.setattr(backend, "stream_query", query)
    timer = threading.Timer(0.05, opened.set)
    timer.start()
    handle = int(stream.handle)
    del stream
    timer.join()
    asked.clear()
    pending.reap()
    pending.wait(second)
    assert handle not in asked


PADDED = np.dtype([("a", "u1"), ("b", "f8")], align=True)


@pytest.mark.parametrize("dtype", [np.float32, PADDED], ids=["plain", "padded"])
@pytest.mark.parametrize("of", [np.s_[:, :, :], np.s_[::2, ::-1, 1:], np.s_[0, :, None, 2]])
@pytest.mark.parametrize("to", ["dense", "apart", "turned"])
def test_arrays_are_copied_from_one_device_to_the_other(pair, dtype, of, to):
    here, there = pair
    host = np.arange(4 * 6 * 5).reshape(4, 6, 5).astype(dtype)
    with haulage.use(there):
        source = cuda.to_device(host)[of]
    shape = source.shape
    room = {"dense": shape, "apart": (*shape[:-1], 2 * shape[-1]), "turned": shape[::-1]}[to]
    for stream in (0, here.default_stream, None):
        with haulage.use(here):
            whole = cuda.to_device(np.zeros(room, dtype))
            target = {"dense": whole, "apart": whole[..., ::2], "turned": whole.T}[to]
            stream = cuda.stream() if stream is None else stream
            target.copy_to_device(source, stream=stream)
            here.synchronize()
            assert np.array_equal(target.copy_to_host(), host[of])
            if to == "apart":
                assert (whole[..., 1::2].copy_to_host() == np.zeros(1, dtype)).all()
            target[...] = np.zeros(1, dtype)[0]
            target[...] = source
            assert np.array_equal(target.copy_to_host(), host[of])
    assert cuda.current_context().device is there


def test_a_copy_between_devices_waits_for_what_gathers_its_elements(pair):
    here, there = pair
    with haulage.use(there):
        there.activate()
        handle = there.backend.stream_create(NON_BLOCKING)
        stream = cuda.external_stream(handle)
        source = cuda.to_device(np.zeros(100, np.uint8)).bind(stream)
    with haulage.use(here):
        target, own = cuda.device_array(50, np.uint8), cuda.stream()
        with held(stream):
            source[:] = np.uint8(3)
            target.copy_to_device(source[::2], stream=own)
            assert not own.query()
        own.synchronize()
        assert (target.copy_to_host() == 3).all()
    stream.synchronize()


def test_a_copy_between_devices_waits_for_the_source_and_holds_its_memory(pair):
    here, there = pair
    with haulage.use(there):
        stream = cuda.stream()
        source = cuda.to_device(np.zeros(100, np.uint8), stream=stream)
    with haulage.use(here):
        target, own = cuda.device_array(100, np.uint8), cuda.stream()
        with held(stream):
            source[:] = np.uint8(3)
            target.copy_to_device(source, stream=own)
            assert not own.query()
            del source
            in_use = memory.stats(there).in_use
            assert in_use >= 100
        own.synchronize()
        assert (target.copy_to_host() == 3).all()
    pending.flush(there)
    assert memory.stats(there).in_use == in_use - 100


def test_arrays_of_two_drivers_are_not_copied_directly(pair):
    with haulage.use("cpu"):
        other = cuda.to_device(np.zeros(3))
    with pytest.raises(DeviceMismatch, match="by way of the host"):
        cuda.to_device(np.zeros(3)).copy_to_device(other)


@cuda.jit
def double_into(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]


@cuda.jit
def sum_of_pair(both, out):
    i = cuda.grid(1)
    out[i] = both[0][i] + both[1][i]


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    x[i] += 1


def a_portable_array(device, kind="mapped"):
    with haulage.use(device):
        made = cuda.managed_array(4) if kind == "managed" else cuda.mapped_array(4, portable=True)
    made[:] = range(4)
    return made


@pytest.mark.parametrize("kind", ["mapped", "managed"])
@pytest.mark.parametrize("where", ["no stream", "stream", "a stream of the array's device"])
def test_kernels_of_the_other_device_reach_portable_and_managed_arrays(pair, kind, where):
    first, second = pair
    shared = a_portable_array(first, kind)
    out = cuda.device_array(4)
    assert out.device is second
    stream = cuda.stream() if where == "stream" else 0
    for round in range(3):  # later launches go a shorter way
        shared[0] = round
        double_into[1, 4, stream](shared, out)
        double_into[1, 4, stream](shared[::-1], out[::-1])
        sum_of_pair[1, 4, stream]((shared, out), out)
        assert out.copy_to_host(stream=stream).tolist() == [3 * round, 3, 6, 9]
    if where == "a stream of the array's device":
        with haulage.use(first):
            own = cuda.stream()
        with pytest.raises(DeviceMismatch, match=r"far:1.*far:0.*enable_peer_access"):
            double_into[1, 4, own](shared, out)


def test_a_portable_array_alone_is_worked_on_by_the_current_device_or_that_of_the_stream(pair):
    first, second = pair
    shared = a_portable_array(first)
    streams = []
    for device in pair:
        with haulage.use(device):
            streams.append(cuda.stream())
            add_one[1, 4](shared)
            device.synchronize()
            assert (second.default_stream in shared.block.users()) == (device is second)
    for stream in streams:
        add_one[1, 4, stream](shared)
        stream.synchronize()
        assert stream in shared.block.users()
    with haulage.use("cpu"):
        add_one[1, 4](cuda.In(shared))  # whose device is meant, as the current one's is another
    first.synchronize()
    assert shared.tolist() == [5, 6, 7, 8]


def test_a_mapped_array_that_is_not_portable_is_of_its_own_device(pair):
    first, _ = pair
    with haulage.use(first):
        mapped = cuda.mapped_array(4)
    mapped[:] = 0
    add_one[1, 4](mapped)  # on that one
    first.synchronize()
    assert mapped.tolist() == [1] * 4
    for stream in (0, cuda.stream()):
        with pytest.raises(DeviceMismatch, match=r"far:[01].*far:[01].*portable=True"):
            double_into[1, 4, stream](mapped, cuda.device_array(4))
    with pytest.raises(DeviceMismatch, match=r"arrays on far:0, stream on far:1.*portable=True"):
        add_one[1, 4, cuda.stream()](mapped)


def test_portable_memory_is_kept_until_a_kernel_of_the_other_device_is_done_with_it(pair):
    first, _ = pair
    shared = a_portable_array(first)
    stream, out = cuda.stream(), cuda.device_array(4)
    before = memory.stats(first).in_use
    with held(stream):
        double_into[1, 4, stream](shared, out)
        del shared
        gc.collect()
        assert memory.stats(first).in_use == before
    assert out.copy_to_host(stream=stream).tolist() == [0, 2, 4, 6]
    pending.flush(first)
    assert memory.stats(first).in_use == before - 32


def test_a_kernel_of_the_other_device_cannot_have_a_mapped_array_that_is_not_portable(pair):
    first, _ = pair
    with haulage.use(first):
        own = cuda.mapped_array(4).device_view()

    @cuda.jit
    def with_own(out):
        out[0] = own[0] + 1

    with pytest.raises(DeviceMismatch, match=r"an array of far:0 .*run on far:1.*portable=True"):
        with_own[1, 1](cuda.device_array(4))


def test_ufuncs_of_the_other_device_take_portable_arrays(pair):
    first, second = pair
    shared = a_portable_array(first)

    @cuda.vectorize(["float64(float64, float64)"])
    def add_both(a, b):
        return a + b

    found = add_both(shared, cuda.to_device(np.ones(4)))
    assert found.device is second
    assert found.copy_to_host().tolist() == [1, 2, 3, 4]
    assert add_both(shared, 1.0, stream=cuda.stream()).device is second


def test_waiting_for_a_device_brings_what_it_wrote_to_views_of_a_smart_array(pair):
    first, second = pair
    a = haulage.SmartArray(np.arange(8.0))
    view, streams = a.get(), []
    for device, part in ((first, a[:4]), (second, a[4:])):
        with haulage.use(device):
            streams.append(cuda.stream())
            add_one[1, 4, streams[-1]](part)
    streams[0].synchronize()
    assert view.tolist() == [1, 2, 3, 4, 4, 5, 6, 7]
    second.synchronize()
    assert view.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [t.nbytes for t in a.coherence.transfers] == [32] * 4


def test_a_smart_array_comes_to_the_device_that_its_use_names(pair):
    @cuda.vectorize(["float64(float64, float64)"])
    def add_both(x, y):
        return x + y

    first, second = pair
    expected = np.arange(1.0, 5)
    with haulage.use(first):
        a = haulage.SmartArray(np.arange(4.0))
        add_one[1, 4](a)
        stream, there = cuda.stream(), cuda.to_device(np.ones(4))
    with haulage.transfers() as t:
        in_stream = add_both(a, 1.0, stream=stream)
        mixed = add_both(a, there)
        there.copy_to_device(a)
        there[1:] = a[1:]
        add_both.reduce(a, stream=stream)
        copied = cuda.to_device(a, stream)
        out = haulage.SmartArray(np.zeros(4))
        add_both(a, there, out=out)
        cuda.to_device(expected, stream, to=out)
    assert not [*t.of(a), *t.of(out), *t.of(in_stream)]
    assert in_stream.coherence.current() == out.coherence.current() == [first]
    assert mixed.device is copied.device is first
    with haulage.transfers() as t:
        here = add_both(a, out)
        moved = cuda.to_device(a)
    assert here.coherence.current() == [second]
    assert moved.device is second
    assert [(one.source, one.target) for one in t] == [
        (str(first), "host"),
        ("host", str(second)),
    ] * 2
    for found in (in_stream, mixed.copy_to_host()):
        assert np.asarray(found).tolist() == (expected + 1).tolist()
    assert here.tolist() == (2 * expected).tolist()
    for found in (there, copied, moved):
        assert found.copy_to_host().tolist() == expected.tolist()


def test_to_device_copies_to_the_other_device(pair):
    first, second = pair
    host = np.arange(12.0).reshape(3, 4)[:, ::2]
    with haulage.use(first):
        here = cuda.to_device(host).T
    there = here.to_device(second)
    assert (here.device, there.device) == (first, second)
    assert np.array_equal(there.copy_to_host(), host.T)
    assert there.strides == here.strides
    assert there.to_device("far:1") is there
    stream = cuda.stream()
    assert here.to_device(second, stream=stream).stream is stream
    with haulage.use(first):
        record = cuda.to_device(np.array([(3, 0.5)], [("n", "i4"), ("x", "f8")]))[0]
    assert record.to_device(first) is record
    moved = record.to_device(second)
    assert (moved.device, moved.n, moved.x) == (second, 3, 0.5)
