"""Graphs: what a capture takes and refuses, whose memory lives how long, and what launches do."""

import contextlib
import copy
import gc
import os
import pickle
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import SmartArray, cuda, roc
from haulage.errors import CaptureError, DeviceError, DeviceMismatch, KernelError
from haulage.runtime import memory
from haulage.runtime.process import runtime
from haulage.tracing.recorder import Recorder
from haulage.tracing.result import made_of

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

N = 300
GRID = (3, 128)


@cuda.jit
def add(a, value):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += value


@cuda.jit
def scale_into(a, b, factor):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = b[i] * factor


@cuda.jit
def fail_at(a, place):
    i = cuda.grid(1)
    if i == place:
        raise IndexError("too far")
    if i < a.size:
        a[i] += 1


@cuda.jit
def spend(a, n):
    i = cuda.grid(1)
    x = 0.0
    for j in range(n):
        x += (i * j) % 7
    a[i] = x


@cuda.jit(debug=True)
def fail_in_debug(a):
    if cuda.grid(1) == 2:
        raise ValueError("no")


def zeros(n=N):
    return cuda.to_device(np.zeros(n, np.int64))


def capture(graph, body):
    with graph:
        body()


def values(array):
    return np.unique(array.copy_to_host()).tolist()


@pytest.fixture(autouse=True)
def nothing_is_left_captured(device):
    yield
    left = list(device.capturing.values())
    for capture in left:
        capture.cancel()
    assert not left


def in_use(device):
    gc.collect()
    usage = memory.stats().get(str(device), {}).get("device")
    return usage.in_use if usage else 0


# ---- what is captured -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: None, cuda.stream], ids=["own", "given"])
def test_a_graph_runs_when_it_is_launched_and_not_before(make):
    a, b, down = zeros(), zeros(), cuda.pinned_zeros(N, np.int64)
    add[GRID](a, 1)
    with cuda.graph(make()) as graph:
        add[GRID](a, 2)
        b.copy_to_device(a)
        b.copy_to_host(down)
        b[10:20] = 7
        made = cuda.zeros(50, np.int64)
        add[GRID[0], GRID[1], graph.stream](made, 4)
    assert graph.count == 6
    cuda.synchronize()
    assert (values(a), values(b), down.max()) == ([1], [0], 0)
    for turn in range(1, 4):
        graph.launch()
        add[GRID](a, 100)
        cuda.synchronize()
        assert values(a) == [1 + 102 * turn]
        assert values(b) == sorted([7, 102 * turn - 99])
        assert (down == 102 * turn - 99).all()
        assert values(made) == [4]


def test_launches_in_other_streams_come_in_the_order_of_their_stream():
    a, b = zeros(), zeros()
    with cuda.graph() as graph:
        add[GRID](a, 1)
    for stream in (cuda.stream(), cuda.default_stream(), graph.stream, cuda.stream()):
        a[:] = 0
        cuda.synchronize()
        add[GRID[0], GRID[1], stream](a, 10)
        graph.replay(stream)
        scale_into[GRID[0], GRID[1], stream](b, a, 3)
        graph.launch(stream=stream)
        stream.synchronize()
        assert (values(a), values(b)) == ([12], [33])


def test_only_the_threads_own_work_for_the_default_stream_is_captured():
    a, b, c = zeros(), zeros(), zeros()
    with cuda.graph() as graph:
        add[GRID](a, 1)

        def other():
            add[GRID](b, 1)
            cuda.default_stream().synchronize()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        add[GRID[0], GRID[1], cuda.default_stream()](c, 1)
        assert graph.stream.is_capturing()
        assert not cuda.default_stream().is_capturing()
    assert not graph.stream.is_capturing()
    assert (values(a), values(b), values(c)) == ([0], [1], [1])
    graph.launch()
    assert (values(a), values(b), values(c)) == ([1], [1], [1])


def test_a_kernel_that_was_launched_before_is_captured_and_later_launches_are_not():
    a = zeros()
    for stream in (0, cuda.stream()):
        launcher = add[GRID[0], GRID[1], stream]
        for _ in range(3):
            launcher(a, 1)
        with cuda.graph(stream or None) as graph:
            launcher(a, 10)
        launcher(a, 1)
        cuda.synchronize()
        assert values(a) == [4]
        graph.launch()
        cuda.synchronize()
        assert values(a) == [14]
        a[:] = 0


def test_a_stream_can_be_captured_without_a_with():
    stream, a = cuda.stream(), zeros()
    assert not stream.is_capturing()
    stream.begin_capture()
    assert stream.is_capturing()
    add[GRID[0], GRID[1], stream](a, 1)
    graph = stream.end_capture()
    assert not stream.is_capturing()
    assert values(a) == [0]
    graph.launch(stream)
    stream.synchronize()
    assert values(a) == [1]
    with pytest.raises(CaptureError, match="no capture to end"):
        stream.end_capture()


def test_work_that_a_stream_held_before_is_not_captured(hold_up):
    stream, a, b = cuda.stream(), zeros(), zeros()
    with hold_up(stream):
        add[GRID[0], GRID[1], stream](a, 1)
        with cuda.graph(stream) as graph:
            add[GRID[0], GRID[1], stream](b, 1)
        graph.launch(stream)
        add[GRID[0], GRID[1], stream](a, 10)
    stream.synchronize()
    assert (values(a), values(b)) == ([11], [1])


def test_streams_join_by_events():
    one, two = cuda.stream(), cuda.stream()
    a, b, c = zeros(), zeros(), zeros()
    fork, join = cuda.event(), cuda.event()
    with cuda.graph(one) as graph:
        add[GRID[0], GRID[1], one](a, 5)
        fork.record(one)
        fork.wait(two)
        assert two.is_capturing()
        scale_into[GRID[0], GRID[1], two](b, a, 2)
        scale_into[GRID[0], GRID[1], one](c, a, 3)
        join.record(two)
        one.wait(join)
        c.copy_to_device(b, stream=one)
    assert not two.is_capturing()
    assert (values(a), values(b), values(c)) == ([0], [0], [0])
    for turn in (1, 2, 3):
        graph.launch(two)
        two.synchronize()
        assert (values(a), values(b), values(c)) == ([5 * turn], [10 * turn], [10 * turn])


def test_mapped_managed_and_registered_arrays_are_captured(device):
    mapped, managed = cuda.mapped_array(N, np.int64), cuda.managed_array(N, np.int64)
    registered = np.zeros(N, np.int64)
    mapped[:] = managed[:] = 1
    with cuda.pinned(registered):
        with cuda.graph() as graph:
            add[GRID](mapped, 1)
            add[GRID](managed, 2)
            scale_into[GRID](mapped, managed, 2)
            mapped.copy_to_host(registered)
        graph.launch()
        cuda.synchronize()
        assert (mapped == 6).all()
        assert (registered == 6).all()
    add[GRID](managed, 1)
    cuda.synchronize()
    with pytest.raises(ValueError, match="not pinned any more"):
        graph.launch()
    cuda.synchronize()
    assert (mapped == 6).all()


def test_a_ufunc_is_captured():
    @cuda.vectorize(["float64(float64, float64)"])
    def mean(x, y):
        return (x + y) / 2

    x, y = cuda.to_device(np.full(N, 2.0)), cuda.to_device(np.full(N, 4.0))
    assert values(mean(x, y)) == [3.0]
    with cuda.graph() as graph:
        inner = mean(x, y)
        result = mean(inner, y)
    x[:] = 8.0
    graph.launch()
    assert values(result) == [5.0]


def test_a_kernel_that_waits_for_its_whole_grid_is_captured():
    @cuda.jit
    def shift(a, b):
        i = cuda.grid(1)
        a[i] += 1
        cuda.cg.this_grid().sync()
        b[i] = a[(i + 1) % a.size]

    a, b = cuda.to_device(np.arange(64)), cuda.to_device(np.zeros(64, np.int64))
    with cuda.graph() as graph:
        shift[4, 16](a, b)
    graph.launch()
    graph.launch()
    assert np.array_equal(b.copy_to_host(), np.roll(np.arange(64) + 2, -1))


def test_the_words_of_roc_make_graphs_too():
    @roc.jit
    def double(a):
        a[roc.get_global_id(0)] *= 2

    a = roc.to_device(np.ones(64))
    with roc.graph() as graph:
        double[1, 64](a)
    assert isinstance(graph, roc.Graph)
    graph.launch()
    graph.launch()
    assert values(a) == [4.0]


def test_an_empty_graph_can_be_launched():
    with cuda.graph() as graph:
        pass
    assert graph.count == 0
    graph.launch()
    graph.launch(cuda.stream())
    cuda.synchronize()


# ---- random programs --------------------------------------------------------------------------

ARRAYS = 4
_array = st.integers(0, ARRAYS - 1)
_small = st.integers(-3, 3)
_operation = st.tuples(
    st.integers(0, 1),  # the stream
    st.one_of(
        st.tuples(st.just("add"), _array, _small),
        st.tuples(st.just("scale"), _array, _array, _small),
        st.tuples(st.just("copy"), _array, _array),
        st.tuples(st.just("reverse"), _array, _array),
        st.tuples(st.just("fill"), _array, _small),
        st.tuples(st.just("host"), _array),
    ),
)


class Program:
    """Operations on arrays in two streams, ordered by events where they use the same array."""

    def __init__(self, operations):
        self.operations = operations
        self.arrays = [cuda.to_device(np.arange(N) + i) for i in range(ARRAYS)]
        self.host = [cuda.pinned_zeros(N, np.int64) for _ in range(ARRAYS)]
        self.streams = [cuda.stream(), cuda.stream()]

    def hand_over(self):
        one, two = self.streams
        self.order(one, two)
        used = [{0, 1} for _ in range(ARRAYS)]  # streams whose work is not ordered before
        for which, (what, *args) in self.operations:
            stream = self.streams[which]
            arrays = args if what in ("copy", "reverse") else args[: 1 + (what == "scale")]
            if any(used[i] != {which} for i in arrays):
                self.order(self.streams[1 - which], stream)
                for of in used:
                    of.discard(1 - which)
            for i in arrays:
                used[i] = {which}
            self.one(what, args, stream)
        self.order(two, one)

    def one(self, what, args, stream):
        a = self.arrays[args[0]]
        if what == "add":
            add[GRID[0], GRID[1], stream](a, args[1])
        elif what == "scale":
            scale_into[GRID[0], GRID[1], stream](a, self.arrays[args[1]], args[2])
        elif what == "copy":
            a.copy_to_device(self.arrays[args[1]], stream=stream)
        elif what == "reverse":
            a.copy_to_device(self.arrays[args[1]][::-1], stream=stream)
        elif what == "fill":
            a[5:200].fill(args[1], stream=stream)
        else:
            a.copy_to_host(self.host[args[0]], stream=stream)

    def order(self, earlier, later):
        event = cuda.event(timing=False)
        event.record(earlier)
        event.wait(later)

    def results(self):
        cuda.synchronize()
        return [array.copy_to_host() for array in (*self.arrays,)], [h.copy() for h in self.host]


@pytest.mark.parametrize("seed", [None, 5])
@given(
    operations=st.lists(_operation, max_size=12),
    times=st.integers(1, 3),
    where=st.lists(st.integers(0, 2), min_size=3, max_size=3),
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_programs_do_the_same_as_graphs(device, seed, operations, times, where):
    if seed is not None and device.kind != "cpu":
        return  # has no such mode
    mode = contextlib.nullcontext() if seed is None else haulage.adversary(seed)
    with mode:
        direct, captured = Program(operations), Program(operations)
        for _ in range(times):
            direct.hand_over()
        with cuda.graph(captured.streams[0]) as graph:
            captured.hand_over()
        streams = [cuda.default_stream(), captured.streams[0], cuda.stream()]
        for turn in range(times):
            graph.launch(streams[where[turn]])
        expected, on_host = direct.results()
        found, found_on_host = captured.results()
    for one, other in zip(expected + on_host, found + found_on_host, strict=True):
        assert np.array_equal(one, other)


# ---- memory -----------------------------------------------------------------------------------


def test_a_graph_keeps_the_memory_that_it_uses(device):
    before = in_use(device)
    result = zeros()
    base = in_use(device)
    with cuda.graph() as graph:
        inner = cuda.zeros(N, np.int64)
        add[GRID](inner, 3)
        given = zeros_of_graph = cuda.device_array(N, np.int64)
        given.fill(4)
        scale_into[GRID](result, inner, 2)
        add[GRID](given, 1)
        never_used = cuda.device_array(N, np.int64)
    del inner, given, zeros_of_graph, never_used
    gc.collect()
    assert in_use(device) == base + 2 * N * 8
    others = [cuda.to_device(np.full(N, -1)) for _ in range(20)]
    graph.launch()
    cuda.synchronize()
    assert values(result) == [6]
    assert all(values(other) == [-1] for other in others)
    del others, result, graph
    gc.collect()
    cuda.synchronize()
    assert in_use(device) == before


def test_memory_goes_back_only_after_launches_that_are_under_way(device, hold_up):
    stream, down = cuda.stream(), cuda.pinned_zeros(N, np.int64)
    with cuda.graph() as graph:
        inner = cuda.device_array(N, np.int64)
        inner.fill(9)
        inner.copy_to_host(down)
    address = inner.device_pointer
    del inner
    with hold_up(stream):
        graph.launch(stream)
        del graph
        gc.collect()
        others = [cuda.device_array(N, np.int64) for _ in range(20)]
        assert address not in [other.device_pointer for other in others]
    cuda.synchronize()
    assert (down == 9).all()


def test_a_graph_of_memory_that_was_closed_is_refused_as_a_whole():
    a, b = zeros(), zeros()
    with cuda.graph(name="of two") as graph:
        add[GRID](a, 1)
        add[GRID](b, 1)
    b.close()
    for stream in (0, cuda.stream()):
        with pytest.raises(ValueError, match=r"given back by close\(\)") as caught:
            graph.launch(stream)
        assert "'of two'" in caught.value.__notes__[0]
    cuda.synchronize()
    assert values(a) == [0]


def test_a_graph_that_is_closed_gives_its_memory_back(device):
    before = in_use(device)
    with cuda.graph() as graph:
        cuda.zeros(N, np.int64)
    assert in_use(device) > before
    graph.launch()
    graph.close()
    graph.close()
    cuda.synchronize()
    assert in_use(device) == before
    with pytest.raises(CaptureError, match="was closed"):
        graph.launch()


def test_an_array_of_another_library_lives_as_long_as_the_graph(device):
    class Theirs:
        pass

    own, a = zeros(), zeros()
    theirs = Theirs()
    theirs.__cuda_array_interface__ = {
        "version": 2,
        "shape": (N,),
        "typestr": "<i8",
        "data": (int(own.device_pointer), False),
    }
    alive = weakref.ref(theirs)
    with cuda.graph() as graph:
        scale_into[GRID](a, theirs, 2)
    del theirs
    gc.collect()
    assert alive() is not None
    add[GRID](own, 3)
    graph.launch()
    assert values(a) == [6]
    graph.close()
    cuda.synchronize()
    gc.collect()
    memory.reap()
    assert alive() is None


def test_an_array_that_a_kernel_has_as_a_global_is_kept(device):
    if device.kind == "far":
        pytest.skip("the far device translates addresses in arguments only, not in code")
    table = cuda.to_device(np.arange(N))

    @cuda.jit
    def look_up(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = table[i]

    a = zeros()
    with cuda.graph() as graph:
        look_up[GRID](a)
    graph.launch()
    assert np.array_equal(a.copy_to_host(), np.arange(N))
    table.close()
    with pytest.raises(ValueError, match=r"given back by close\(\)"):
        graph.launch()


def test_memory_is_found_while_a_stream_is_captured(device, hold_up, request):
    stream, busy = cuda.stream(), cuda.stream()
    size = 1 << 20
    haulage.memory.limit(in_use(device) + 5 * size, device)
    request.addfinalizer(lambda: haulage.memory.limit(None, device))
    host = cuda.pinned_zeros(16, np.uint8)
    made = []
    with contextlib.ExitStack() as gates:
        for user in (stream, busy):
            gates.enter_context(hold_up(user))
            used = [cuda.device_array(size, np.uint8, stream=of) for of in (stream, 0)]
            for each in used:
                each[:16].copy_to_host(host, stream=user)
            made += used
        with cuda.graph(stream) as graph:
            del used, each
            made.clear()
            timer = threading.Timer(0.1, gates.close)
            timer.start()
            array = cuda.device_array(4 * size, np.uint8)
            array.fill(3, stream=stream)
            cuda.device_array(size, np.uint8).fill(4)
        timer.join()
    graph.launch()
    assert values(array) == [3]


def test_memory_of_a_captured_stream_waits_for_what_used_it_before(hold_up):
    stream, other = cuda.stream(), cuda.stream()
    old = cuda.device_array(N, np.int64, stream=stream)
    with hold_up(stream):
        old.fill(1, stream=stream)
        address = old.device_pointer
        del old
        with cuda.graph(stream):
            new = cuda.device_array(N, np.int64, stream=stream)
            new.fill(2, stream=other)
            assert not other.is_capturing()
        assert new.device_pointer == address or runtime.current.adversary_seed is not None
    cuda.synchronize()
    assert values(new) == [2]


def test_launches_and_the_work_of_libraries_that_lent_arrays_are_in_order(hold_up):
    theirs, where = cuda.stream(), cuda.stream()
    own, a = zeros(), zeros()
    cuda.synchronize()

    class Lent:
        @property
        def __cuda_array_interface__(self):
            return {
                "version": 3,
                "shape": (N,),
                "typestr": "<i8",
                "data": (int(own.device_pointer), False),
                "stream": int(theirs),
            }

    with cuda.graph() as graph:
        scale_into[GRID](a, Lent(), 2)
    with hold_up(theirs):
        add[GRID[0], GRID[1], theirs](own, 3)
        graph.launch(where)
    where.synchronize()
    assert values(a) == [6]
    with hold_up(where):
        graph.launch(where)
        add[GRID[0], GRID[1], theirs](own, 3)
    theirs.synchronize()
    cuda.synchronize()
    assert (values(a), values(own)) == ([6], [6])


# ---- what is refused --------------------------------------------------------------------------


def waits_at_its_end(stream):
    with stream.auto_synchronize():
        pass


REFUSED = {
    "a copy to pageable memory": lambda a, graph: a.copy_to_host(),
    "one from there": lambda a, graph: a.copy_to_device(np.ones(N, np.int64)),
    "an upload": lambda a, graph: cuda.to_device(np.ones(N)),
    "a large one": lambda a, graph: cuda.to_device(np.ones(2_000_000), stream=graph.stream),
    "an element": lambda a, graph: a[3],
    "an argument of the host": lambda a, graph: add[GRID](np.ones(N), 1),
    "one with a hint": lambda a, graph: add[GRID](cuda.Out(np.ones(N)), 1),
    "one that is only read": lambda a, graph: add[GRID](cuda.In(np.ones(N)), 1),
    "a pinned one": lambda a, graph: add[GRID](cuda.pinned_zeros(N), 1),
    "a SmartArray": lambda a, graph: add[GRID](SmartArray(np.ones(N)), 1),
    "to wait for the device": lambda a, graph: cuda.synchronize(),
    "to wait for the stream": lambda a, graph: graph.stream.synchronize(),
    "to ask the stream": lambda a, graph: graph.stream.query(),
    "a callback": lambda a, graph: graph.stream.add_callback(print),
    "to wait at the end of a with": lambda a, graph: waits_at_its_end(graph.stream),
    "another capture": lambda a, graph: cuda.graph(cuda.stream()).__enter__(),
    "the same capture": lambda a, graph: graph.stream.begin_capture(),
    "its own launch": lambda a, graph: graph.launch(),
    "a reset": lambda a, graph: cuda.current_context().reset(),
    "the adversarial mode": lambda a, graph: haulage.adversary(3),
    "a reduction": lambda a, graph: cuda.reduce(lambda x, y: x + y)(a),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_cannot_hold_is_refused_and_nothing_runs(what):
    a = zeros()
    kept = cuda.stream()
    graph = cuda.graph()

    def body():
        add[GRID](a, 1)
        REFUSED[what](a, graph)

    with pytest.raises(CaptureError):
        capture(graph, body)
    with pytest.raises(CaptureError, match="did not come to its end"):
        graph.launch()
    for stream in (graph.stream, kept, 0):
        add[GRID[0], GRID[1], stream](a, 10)
        cuda.synchronize()  # else these streams change the array at one time
    assert values(a) == [30]


@pytest.mark.parametrize("make", [lambda: None, cuda.stream], ids=["own", "given"])
def test_a_capture_goes_on_after_something_was_refused(make):
    a, host = zeros(), cuda.pinned_zeros(N, np.int64)
    launched = cuda.event()
    launched.record()
    with cuda.graph() as other:
        pass
    with cuda.graph(make()) as graph:
        add[GRID](a, 1)
        event = cuda.event()
        for refused in (
            *REFUSED.values(),
            lambda *_: launched.wait(),
            lambda *_: other.launch(),
            lambda *_: event.wait(cuda.default_stream()),
        ):
            event.record()
            with contextlib.suppress(CaptureError):
                refused(a, graph)
        a.copy_to_host(host)
        never = cuda.event()
        never.wait()
    assert values(a) == [0]
    graph.launch()
    cuda.synchronize()
    assert (host == 1).all()


def test_the_default_stream_is_not_captured():
    for stream in (0, cuda.default_stream(), cuda.legacy_default_stream()):
        with pytest.raises(CaptureError, match="make"), cuda.graph(stream):
            pass
    with pytest.raises(CaptureError):
        cuda.default_stream().begin_capture()
    a = zeros()
    with cuda.graph(cuda.per_thread_default_stream()) as graph:
        add[GRID](a, 1)
    graph.launch()
    assert values(a) == [1]


def test_what_waits_for_a_captured_stream_takes_no_work():
    stream, a, b = cuda.stream(), zeros(), zeros()
    event = cuda.event()
    launcher = add[GRID]
    for _ in range(3):
        launcher(a, 1)
    cuda.synchronize()
    stream.begin_capture()
    for work in (
        lambda: launcher(a, 1),
        lambda: add[GRID](a, 1),
        lambda: a.copy_to_device(b),
        lambda: a.fill(3),
        lambda: a.copy_to_host(),
        lambda: event.record(),
        lambda: cuda.default_stream().synchronize(),
        lambda: cuda.default_stream().query(),
    ):
        with pytest.raises(CaptureError, match="Default"):
            work()
    add[GRID[0], GRID[1], stream](a, 10)
    graph = stream.end_capture()
    assert values(a) == [3]
    graph.launch()
    launcher(a, 1)
    assert values(a) == [14]


def test_an_exception_in_the_body_ends_the_capture_and_comes_out():
    a, stream = zeros(), cuda.stream()
    two, event = cuda.stream(), cuda.event()
    graph = cuda.graph(stream)

    def body():
        add[GRID](a, 1)
        event.record(stream)
        event.wait(two)
        add[GRID[0], GRID[1], two](a, 1)
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        capture(graph, body)
    assert not stream.is_capturing()
    assert not two.is_capturing()
    with pytest.raises(CaptureError, match="did not come to its end"):
        graph.launch()
    add[GRID[0], GRID[1], two](a, 5)
    two.synchronize()
    assert values(a) == [5]


def test_a_stream_that_does_not_join_again_is_an_error():
    one, two, a, event = cuda.stream(), cuda.stream(), zeros(), cuda.event()
    graph = cuda.graph(one)

    def body():
        event.record(one)
        event.wait(two)
        add[GRID[0], GRID[1], two](a, 1)

    with pytest.raises(CaptureError):
        capture(graph, body)
    with pytest.raises(CaptureError, match="could not be captured"):
        graph.launch()
    for stream in (one, two, 0):
        add[GRID[0], GRID[1], stream](a, 1)
        cuda.synchronize()
    assert values(a) == [3]


def test_an_event_of_a_graph_is_no_point_in_time():
    event, other, a = cuda.event(), cuda.event(), zeros()
    with cuda.graph() as graph:
        event.record()
    graph.launch()
    other.record()
    cuda.synchronize()
    for use in (
        event.synchronize,
        event.query,
        lambda: event.elapsed_time(other),
        lambda: other.elapsed_time(event),
        lambda: event.wait(cuda.stream()),
        lambda: event.wait(),
    ):
        with pytest.raises(CaptureError):
            use()
    event.record()
    add[GRID](a, 1)
    event.synchronize()
    assert event.query()


def test_two_captures_go_on_at_one_time_and_stay_apart():
    one, two, a, b = cuda.stream(), cuda.stream(), zeros(), zeros()
    of_one, of_two = cuda.event(), cuda.event()
    one.begin_capture()
    two.begin_capture()
    add[GRID[0], GRID[1], one](a, 1)
    add[GRID[0], GRID[1], two](b, 2)
    of_one.record(one)
    of_two.record(two)
    with pytest.raises(CaptureError, match="another graph"):
        of_one.wait(two)
    first, second = one.end_capture(), two.end_capture()
    for graph in (second, first, second):
        graph.launch(one)
    one.synchronize()
    assert (values(a), values(b)) == ([1], [4])


def test_a_graph_is_captured_once():
    graph = cuda.graph()
    with pytest.raises(CaptureError, match="was not captured"):
        graph.launch()
    with graph:
        pass
    with pytest.raises(CaptureError, match="captured once"), graph:
        pass
    graph.launch()
    with pytest.raises(TypeError, match="stream"):
        cuda.graph("fast")
    for copied in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="process"):
            copied(graph)
    assert repr(graph).startswith("<Graph 'graph' on ")


def test_a_graph_is_launched_on_its_own_device(device):
    with cuda.graph() as graph:
        pass
    for other in haulage.devices():
        if other is not device:
            with haulage.use(other):
                stream = cuda.stream()
                graph.launch()
            with pytest.raises(DeviceMismatch):
                graph.launch(stream)


def test_a_graph_in_a_cycle_with_the_streams_that_it_was_launched_in_goes_before_them(device):
    cycle = [cuda.stream() for _ in range(3)]
    a = zeros()
    with cuda.graph() as graph:
        add[GRID](a, 1)
    for stream in cycle:
        graph.launch(stream)
    cycle += a, graph, cycle
    del a, graph, stream, cycle
    gc.collect()
    memory.flush(device)
    assert memory.pending_count(device) == 0


# ---- kernels that fail or print ---------------------------------------------------------------


def test_a_failure_is_raised_after_each_launch_and_the_rest_runs():
    a, b = zeros(), zeros()
    with cuda.graph() as graph:
        fail_at[GRID](a, 7)
        add[GRID](b, 1)
    for turn in (1, 2):
        for stream in (cuda.stream(), cuda.default_stream()):
            graph.launch(stream)
            with pytest.raises(IndexError, match="too far") as caught:
                stream.synchronize()
            assert isinstance(caught.value, KernelError)
            stream.synchronize()
        assert values(b) == [2 * turn]
    assert a.copy_to_host()[:9].tolist() == [4] * 7 + [0, 4]


def test_after_each_of_many_kernels_that_fail_the_rest_runs():
    a, b = zeros(), zeros()
    with cuda.graph() as graph:
        for _ in range(7):
            fail_at[GRID](a, 7)
            add[GRID](b, 1)
            fail_at[GRID](a, -1)
        b[:5] = 0
        fail_at[GRID](a, 8)
        add[GRID](b, 1)
    stream = cuda.stream()
    graph.launch(stream)
    with pytest.raises(IndexError, match="too far"):
        stream.synchronize()
    stream.synchronize()
    assert values(b) == [1, 8]
    assert a.copy_to_host()[6:10].tolist() == [15, 8, 14, 15]


def test_after_a_grid_that_fails_as_a_whole_the_rest_runs():
    @cuda.jit
    def together(a):
        if cuda.grid(1) == 3:
            raise ValueError("not I")
        cuda.cg.this_grid().sync()
        a[cuda.grid(1)] += 1

    a, b = zeros(64), zeros()
    with cuda.graph() as graph:
        together[4, 16](a)
        add[GRID](b, 1)
    graph.launch()
    with pytest.raises(KernelError):
        cuda.synchronize()
    assert values(b) == [1]


def test_kernels_that_take_long_run_all_and_in_order():
    @cuda.jit
    def grow(a, n):
        i = cuda.grid(1)
        x = a[i]
        for j in range(n):
            x = (x * 3 + j) % 1000003
        a[i] = x

    a = cuda.to_device(np.arange(512))
    b = cuda.to_device(np.arange(512))
    with cuda.graph() as graph:
        for n in (1, 40_000, 5, 40_000, 2):
            grow[8, 64](a, n)
    for stream in (cuda.default_stream(), cuda.stream()):
        graph.launch(stream)
        for n in (1, 40_000, 5, 40_000, 2):
            grow[8, 64](b, n)
        cuda.synchronize()
        assert np.array_equal(a.copy_to_host(), b.copy_to_host())


def test_ctrl_c_stops_a_launch_in_the_midst(device):
    if device.kind not in ("cpu", "far") or runtime.current.adversary_seed is not None:
        pytest.skip("the launch returns before the work is done")
    a = zeros(1)
    with cuda.graph() as graph:
        for _ in range(3000):
            add[1, 1](a, 1)
            spend[2, 8](cuda.device_array(16), 40_000)
    spend[2, 8](cuda.device_array(16), 10)
    cuda.synchronize()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  the wait is for where it is too fast
        graph.launch()
        timer.join()
        time.sleep(60)
    cuda.synchronize()
    assert 0 < values(a)[0] < 3000
    a[:] = 0
    add[1, 1](a, 1)
    assert values(a) == [1]


def test_a_debug_kernel_lets_the_launch_raise():
    a = zeros()
    with cuda.graph() as graph:
        fail_in_debug[GRID](a)
    with pytest.raises(ValueError, match=r"tid=\[2, 0, 0\]"):
        graph.launch()
    cuda.synchronize()


def test_print_speaks_after_each_launch(capsys):
    @cuda.jit
    def speak(a):
        if cuda.grid(1) == 0:
            print("here", a[0])

    a = zeros()
    with cuda.graph() as graph:
        speak[1, 1](a)
        add[GRID](a, 1)
    cuda.synchronize()
    assert capsys.readouterr().out == ""
    graph.launch()
    graph.launch()
    cuda.synchronize()
    assert capsys.readouterr().out == "here 0\nhere 1\n"


def test_a_launch_is_one_operation_of_a_trace(monkeypatch):
    recorder = Recorder(1000, compare=True)
    a, down = zeros(), cuda.pinned_zeros(N, np.int64)
    monkeypatch.setattr(runtime.current, "observer", recorder)
    monkeypatch.setattr(runtime.current, "watchers", (recorder.comparing,))

    @cuda.jit
    def observed(a):
        a[cuda.grid(1)] += 1

    with cuda.graph(name="one step") as graph:
        observed[1, N](a)
        a.copy_to_host(down)
        a.fill(0)
    for _ in range(2):
        graph.launch()
    cuda.synchronize()
    monkeypatch.setattr(runtime.current, "observer", None)
    recorder.sort_in()
    result = made_of(recorder, "test")
    drawn = [(each.kind, each.name) for each in result.drawn]
    work = [each for each in drawn if each[0] not in ("wait", "compile")]
    assert work == [("graph", "one step")] * 2
    assert recorder.comparing.not_compared == [0, 0]


# ---- the process ------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # newer Pythons warn of forks with threads
def test_a_forked_child_launches_its_copy_and_has_no_capture(device):
    if device.kind != "cpu":
        pytest.skip("a fork's child cannot use the device")
    a = zeros()
    with cuda.graph() as graph:
        add[GRID](a, 1)
    graph.launch()
    cuda.synchronize()
    stream = cuda.stream()
    with cuda.graph(stream) as other:
        add[GRID](a, 100)
        child = os.fork()
        if not child:
            code = 1
            with contextlib.suppress(BaseException):
                graph.launch(cuda.default_stream())
                assert not stream.is_capturing()
                add[GRID[0], GRID[1], stream](a, 10)
                cuda.synchronize()
                assert values(a) == [12]
                try:
                    other.end()
                except CaptureError as error:
                    code = 0 if "forked" in str(error) else 2
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert values(a) == [1]
    other.launch()
    assert values(a) == [101]


def test_a_driver_that_fails_leaves_no_capture_behind(device, monkeypatch):
    a, stream = zeros(), cuda.stream()

    def refuse(*_):
        raise DeviceError("[1] no")

    for name in ("capture_begin", "capture_end"):
        graph = cuda.graph(stream)
        with monkeypatch.context() as patched:
            patched.setattr(device.backend, name, refuse)
            with pytest.raises(DeviceError, match="no"), graph:
                add[GRID](a, 1)
        assert not stream.is_capturing()
        assert not device.capturing
        add[GRID[0], GRID[1], stream](a, 1)
    stream.synchronize()
    assert values(a) == [2]


def test_a_graph_that_is_forgotten_in_its_capture_ends_it(device):
    stream, a = cuda.stream(), zeros()
    graph = cuda.graph(stream)
    graph.begin()
    add[GRID[0], GRID[1], stream](a, 1)
    del graph
    gc.collect()
    assert not stream.is_capturing()
    add[GRID[0], GRID[1], stream](a, 1)
    assert values(a) == [1]


def test_graphs_are_given_back_to_the_driver(device, monkeypatch):
    given_back = []
    destroy = device.backend.graph_destroy
    monkeypatch.setattr(
        device.backend, "graph_destroy", lambda graph: (given_back.append(graph), destroy(graph))
    )
    a = zeros()
    with cuda.graph() as graph:
        add[GRID](a, 1)
    graph.launch(cuda.stream())
    cuda.synchronize()
    del graph
    gc.collect()
    memory.reap()
    assert len(given_back) == 1
