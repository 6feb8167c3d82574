"""Launches like an earlier one, which are short: they do what the first one does, or refuse it."""

import gc
import os
import threading
import weakref

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import CompileError, KernelError, LaunchError, LaunchTypeError

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def store():
    @cuda.jit
    def store(out, value):
        out[cuda.threadIdx.x] = value

    return store


def results(launcher, dtype, *values):
    """What the kernel stores for each of `values`."""
    got = []
    for value in values:
        out = cuda.to_device(np.zeros(1, dtype))
        launcher(out, value)
        got.append(out.copy_to_host()[0])
    return got


def test_each_launch_has_its_own_arrays_and_numbers(store):
    launcher = store[1, 1]
    values = [1.5, 2.5, np.float32(3), 4, np.int8(-5), True, 6.5]
    assert results(launcher, np.float64, *values) == values


def test_views_of_other_layouts_and_dtypes_are_other_kinds():
    @cuda.jit
    def number(x):
        i, j = cuda.grid(2)
        x[i, j] = 10 * i + j

    launcher = number[1, (2, 3)]
    whole = cuda.to_device(np.zeros((4, 6)))
    expected = [[0, 1, 2], [10, 11, 12]]
    for view in (whole[:2, :3], whole[::2, ::2], whole[2:, 5:2:-1], whole.T[::3, ::-1][:2, :3]):
        for _ in range(2):
            launcher(view)
            assert view.copy_to_host().tolist() == expected
    for dtype in (np.int8, np.float32):
        other = cuda.to_device(np.zeros((2, 3), dtype))
        launcher(other)
        assert other.copy_to_host().tolist() == expected


def test_an_array_that_is_given_another_shape_is_looked_at_anew():
    @cuda.jit
    def size(x, out):
        out[0] = x.shape[0]

    launcher, out = size[1, 1], cuda.to_device(np.zeros(1))
    x = cuda.to_device(np.zeros(8))
    launcher(x, out)
    x.shape = (5,)
    launcher(x, out)
    assert out.copy_to_host()[0] == 5


def test_read_only_arrays_are_another_kind(store):
    out = cuda.to_device(np.zeros(1))
    launcher = store[1, 1]
    launcher(out, 1.0)
    host = np.zeros(1)
    host.setflags(write=False)
    launcher(np.zeros(1), 1.0)
    with pytest.raises(CompileError, match="readonly array"):
        launcher(host, 1.0)
    assert out.copy_to_host()[0] == 1


def test_integers_that_need_another_type_get_it(store):
    values = [7, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 8]
    for dtype in (np.uint64, np.int64):
        expected = [np.array(value & (2**64 - 1), np.uint64).view(dtype) for value in values]
        assert results(store[1, 1], dtype, *values) == expected
    with pytest.raises(LaunchError, match="does not fit the 64 bits"):
        store[1, 1](cuda.device_array(1), 2**64)


def test_numbers_are_converted_for_declared_signatures_each_time():
    @cuda.jit("void(float64[:], int32, boolean)")
    def declared(out, number, flag):
        out[0] = number
        out[1] = flag

    launcher, out = declared[1, 1], cuda.to_device(np.zeros(2))
    for number, stored in ((5, 5), (0xFFFFFFFF, -1), (np.uint8(200), 200), (-3, -3), (True, 1)):
        for flag in (True, 0, np.int64(256)):
            launcher(out, number, flag)
            assert out.copy_to_host().tolist() == [stored, bool(flag)]
    with pytest.raises(LaunchError, match="does not fit its declared type"):
        launcher(out, 2**32, True)
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        launcher(out, 1.5, True)


def test_a_closed_array_is_refused(store):
    launcher = store[1, 1]
    out = cuda.device_array(1)
    launcher(out, 1.0)
    out.close()
    with pytest.raises(ValueError, match="given back by close"):
        launcher(out, 1.0)


def test_host_arrays_are_used_in_place_each_time(store):
    launcher = store[1, 2]
    for dtype in (np.float32, np.int64, np.float32):
        for host in (np.zeros(2, dtype), np.zeros(4, dtype)[::2]):
            launcher(host, 3)
            assert host.tolist() == [3, 3]


def test_host_arrays_are_ready_when_a_launch_in_a_stream_returns(store):
    launcher = store[1, 2, cuda.stream()]
    for value in range(50):
        host = np.zeros(2)
        launcher(host, value)
        assert host.tolist() == [value, value]


def test_streams_keep_the_memory_of_their_launches(store):
    stream = cuda.stream()
    launcher = store[1, 1, stream]
    kept, gone = cuda.to_device(np.zeros(1)), cuda.to_device(np.zeros(1))
    launcher(kept, 1.0)
    stream.synchronize()
    gate = threading.Event()
    stream.add_callback(lambda *_: gate.wait(10))
    address = gone.device_ctypes_pointer.value
    launcher(gone, 2.0)
    del gone
    others = [cuda.device_array(1) for _ in range(20)]
    assert address not in [other.device_ctypes_pointer.value for other in others]
    gate.set()
    stream.synchronize()


def test_what_is_compiled_anew_is_used():
    scope = {"cuda": cuda, "FACTOR": 2.0}
    exec("def scale(x):\n    x[0] *= FACTOR\n", scope)
    kernel = cuda.jit(scope["scale"])
    launcher, x = kernel[1, 1], cuda.to_device(np.ones(1))
    launcher(x)
    scope["FACTOR"] = 5.0
    launcher(x)
    kernel.recompile()
    launcher(x)
    assert x.copy_to_host()[0] == 20


def test_a_launch_ends_whose_kernel_changes_before_each_attempt(store, monkeypatch):
    def changed(kernel, *args):
        made = plan(kernel, *args)
        kernel.chosen = {}
        return made

    plan = type(store).plan
    out = cuda.to_device(np.zeros(1))
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "plan", changed)
        with pytest.raises(LaunchError, match=r"kernel .*store was not launched.* 100 attempts"):
            store[1, 1](out, 3.5)
    assert out.copy_to_host()[0] == 0
    assert results(store[1, 1], np.float64, 4.5) == [4.5]


def test_no_other_types_are_taken_once_that_is_said(store):
    launcher = store[1, 1]
    launcher(cuda.device_array(1), 1.0)
    launcher(cuda.device_array(1, np.float32), 1.0)
    store.disable_compile()
    launcher(cuda.device_array(1), 1.0)
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        launcher(cuda.device_array(1, np.complex64), 1.0)


def test_extensions_hold_from_when_they_are_added(store):
    class Doubled:
        def prepare_args(self, ty, value, stream, retr):
            return ty, value * 2 if isinstance(value, float) else value

    launcher = store[1, 1]
    assert results(launcher, np.float64, 1.0, 1.0) == [1, 1]
    store.extensions.append(Doubled())
    assert results(launcher, np.float64, 1.0, 1.0) == [2, 2]
    store.extensions.clear()
    assert results(launcher, np.float64, 1.0) == [1]


def test_the_way_that_the_environment_chooses_holds_at_once(store, monkeypatch):
    launcher = store[1, 1]
    for way in ("regions", "coroutines", "regions", "coroutines"):
        monkeypatch.setenv("HAULAGE_CPU_THREADS", way)
        assert results(launcher, np.float64, 1.0) == [1]
    ways = {overload.code.metadata["strategy"] for overload in store.overloads.values()}
    assert ways == {"coroutines"}
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "neither")
    with pytest.raises(ValueError, match="neither"):
        results(launcher, np.float64, 1.0)


def test_configurations_that_are_equal_but_of_other_types_are_refused(store):
    out = cuda.device_array(1)
    for _ in range(2):
        store[1, 1](out, 1.0)
        store[(1,), (1, 1)](out, 1.0)
        for configuration in ((1.0, 1), (True, 1), ((1.0,), (1, 1)), ((1,), (1, True))):
            with pytest.raises(LaunchTypeError, match="must be a sequence of integers"):
                store[configuration](out, 1.0)


def test_configurations_that_are_made_anew_share_what_is_known(store):
    for blocks in range(1, 400):
        out = cuda.to_device(np.zeros(1))
        store[blocks, 1](out, float(blocks))
        assert out.copy_to_host()[0] == blocks


def test_a_repeated_launch_that_fails_is_told_by_the_next_synchronise():
    @cuda.jit
    def check(x):
        if x[0] != 0:
            raise ValueError("not zero")

    launcher, good, bad = check[1, 1], cuda.to_device(np.zeros(1)), cuda.to_device(np.ones(1))
    for _ in range(2):
        launcher(good)
        cuda.synchronize()
        launcher(bad)
        with pytest.raises(KernelError, match="not zero"):
            cuda.synchronize()


def test_threads_that_launch_at_one_time_do_not_mix(store):
    def work(number):
        launcher = store[1, 1]
        for turn in range(200):
            value = float(1000 * number + turn)
            wrong.extend(got for got in results(launcher, np.float64, value) if got != value)

    wrong = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_blocks_that_wait_for_others_find_them_at_work_each_time(device):
    if device.properties.multiprocessors < 2:
        pytest.skip("one thread runs the blocks in turn")

    @cuda.jit
    def meet(arrived):
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) < cuda.gridDim.x:
            pass

    for _ in range(20):
        arrived = cuda.to_device(np.zeros(1, np.int32))
        meet[2, 1](arrived)
        assert arrived.copy_to_host()[0] == 2


def test_callbacks_launch_kernels_in_the_midst_of_others(store):
    def launch(*_):
        store[1, 1, other](nested, 2.0)
        other.synchronize()

    stream, other = cuda.stream(), cuda.stream()
    outer, nested = cuda.to_device(np.zeros(1)), cuda.to_device(np.zeros(1))
    for _ in range(20):
        store[1, 1, stream](outer, 1.0)
        stream.add_callback(launch)
        store[1, 1, stream](outer, 3.0)
    stream.synchronize()
    assert (outer.copy_to_host()[0], nested.copy_to_host()[0]) == (3, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("blocks", [1, 64, 4096])
def test_launches_go_on_in_a_forked_child(store, blocks):
    launcher, stream = store[blocks, 32], cuda.stream()
    out = cuda.to_device(np.zeros(32))
    for _ in range(3):
        launcher(out, 1.0)
    gate = threading.Event()
    stream.add_callback(lambda *_: gate.wait(10))
    store[blocks, 32, stream](out, 5.0)
    child = os.fork()
    if child == 0:
        right = False
        try:
            for value in range(10):
                launcher(out, float(value))
                store[blocks, 32](out, float(value))
                right = out.copy_to_host().tolist() == [value] * 32
        finally:
            os._exit(0 if right else 1)
    gate.set()
    assert os.waitpid(child, 0)[1] == 0
    stream.synchronize()
    assert out.copy_to_host().tolist() == [5] * 32


def test_forall_launches_as_many_threads_each_time():
    @cuda.jit
    def count(out, value):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += value

    streams = [0, cuda.stream(), None, cuda.stream()]
    outs = [cuda.to_device(np.zeros(n)) for n in (5, 1000, 5, 300)]
    for _ in range(4):
        for stream, out in zip(streams, outs, strict=True):
            count.forall(out.size, stream=stream)(out, 1.0)
            count.forall(out.size, 64, stream)(out, 2)
    count.forall(0)(outs[0], 1.0)
    cuda.synchronize()
    for out in outs:
        assert (out.copy_to_host() == 12).all()


def test_launches_like_one_with_forall_keep_no_stream():
    @cuda.jit
    def nothing(x):
        pass

    stream = cuda.stream()
    alive = weakref.ref(stream)
    for _ in range(3):
        nothing.forall(5, stream=stream)(np.zeros(5))
    del stream
    gc.collect()
    assert alive() is None
