"""Streams and events: order, waiting, and memory that streams still use."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from haulage import cuda, roc
from haulage._core.copies import SMALL
from haulage.backends.base import KernelStopped
from haulage.errors import BarrierError, DeviceError, KernelError
from haulage.runtime import memory
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("device")


def numbers(n):
    return np.arange(n, dtype=np.float32)


def pinned(values):
    array = cuda.pinned_array_like(values)
    array[...] = values
    return array


@pytest.fixture(autouse=True)
def nothing_of_other_tests():
    """What an earlier test left in cycles must not be freed in the midst of this one's counts."""
    gc.collect()


def in_use(device, kind="device"):
    usage = memory.stats().get(str(device), {}).get(kind)
    return usage.in_use if usage else 0


def test_a_stream_knows_its_device_and_handle(device):
    stream = cuda.stream()
    assert stream.device is device
    assert int(stream) == stream.handle != 0
    assert stream
    assert stream == stream
    assert stream != cuda.stream()
    assert repr(stream) == f"<CUDA stream {stream.handle:#x} on {device}>"
    assert stream.query()


def test_the_default_stream_stands_wherever_0_does(device):
    default = cuda.default_stream()
    assert default == 0
    assert int(default) == 0
    assert default
    assert repr(default) == f"<Default CUDA stream on {device}>"
    there = cuda.to_device(numbers(4), stream=default)
    for stream in (0, None, default):
        np.testing.assert_array_equal(there.copy_to_host(stream=stream), numbers(4))
    default.synchronize()


def test_copies_of_pinned_memory_in_a_stream_do_not_wait(hold_up):
    stream = cuda.stream()
    source, target = pinned(numbers(1000)), pinned(np.zeros(1000, np.float32))
    there = cuda.device_array(1000, np.float32)
    with hold_up(stream):
        there.copy_to_device(source, stream=stream)
        assert there.copy_to_host(target, stream=stream) is target
        assert not stream.query()
        assert (target == 0).all()
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(1000))


def test_strided_copies_of_pinned_memory_run_in_the_stream_too(hold_up):
    stream = cuda.stream()
    source, target = pinned(numbers(12)), pinned(np.zeros(12, np.float32))
    there = cuda.to_device(np.zeros((2, 6), np.float32))
    with hold_up(stream):
        there[1, ::2].copy_to_device(source[::-4], stream=stream)
        there[1, 4::-2].copy_to_host(target[1:9:3], stream=stream)
        assert not stream.query()
    stream.synchronize()
    np.testing.assert_array_equal(target[1:9:3], numbers(12)[::-4][::-1])
    assert target[[0, 2, 3, 9]].tolist() == [0, 0, 0, 0]


def test_copies_of_ordinary_memory_in_a_stream_are_done_on_return():
    stream = cuda.stream()
    host = numbers(1000)
    there = cuda.to_device(host, stream=stream)
    host[:] = -1
    np.testing.assert_array_equal(there.copy_to_host(), numbers(1000))


def test_an_array_uses_the_stream_that_it_is_bound_to(hold_up):
    stream = cuda.stream()
    there = cuda.to_device(numbers(8), stream=stream)
    target = pinned(np.zeros(4, np.float32))
    assert there.stream is stream
    assert cuda.to_device(numbers(8)).stream == 0
    assert there.reshape(2, 4)[0].stream is stream
    assert there.bind().stream == 0
    assert there.bind().bind(stream).stream is stream
    with hold_up(stream):
        there[4:].copy_to_host(target)
        assert (target == 0).all()
    stream.synchronize()
    assert target.tolist() == [4, 5, 6, 7]


def test_scalars_written_in_a_stream_are_in_order(hold_up):
    stream = cuda.stream()
    there = cuda.to_device(numbers(8))
    target = pinned(np.zeros(8, np.float32))
    with hold_up(stream):
        there.setitem(slice(2, 4), 9, stream=stream)
        there.copy_to_host(target, stream=stream)
    stream.synchronize()
    assert target.tolist() == [0, 1, 9, 9, 4, 5, 6, 7]


def test_the_default_stream_sees_earlier_work_of_others(hold_up):
    stream = cuda.stream()
    there = cuda.to_device(np.zeros(8, np.float32))
    timer = threading.Timer(0.05, lambda: None)
    with hold_up(stream):
        there.copy_to_device(pinned(numbers(8)), stream=stream)
        timer.start()
    np.testing.assert_array_equal(there.copy_to_host(), numbers(8))
    timer.join()


def test_auto_synchronize_waits_at_the_end():
    stream = cuda.stream()
    target = pinned(np.zeros(8, np.float32))
    with stream.auto_synchronize() as same:
        assert same is stream
        cuda.to_device(numbers(8), stream=stream).copy_to_host(target, stream=stream)
    np.testing.assert_array_equal(target, numbers(8))
    assert roc.stream().query()


# ---- memory that streams use --------------------------------------------------------------------


def test_freed_memory_waits_for_the_stream_that_uses_it(device, hold_up):
    stream, other = cuda.stream(), cuda.stream()
    before = in_use(device), in_use(device, "pinned")
    target, rest = pinned(np.zeros(1000, np.float32)), pinned(numbers(1000) - 2000)
    there, source = cuda.device_array(1000, np.float32), pinned(numbers(1000))
    with hold_up(stream):
        there.copy_to_device(source, stream=stream)
        there.copy_to_host(target, stream=stream)
        del there, source
        gc.collect()
        assert in_use(device) == before[0] + 4000
        assert in_use(device, "pinned") == before[1] + 12000
        taken = cuda.device_array(1000, np.float32)
        taken.copy_to_device(rest, stream=other)
        other.synchronize()
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(1000))
    del taken
    assert in_use(device) == before[0]
    assert in_use(device, "pinned") == before[1] + 8000


def test_closing_waits_for_the_stream_as_well(device, hold_up):
    stream = cuda.stream()
    before = in_use(device)
    there = cuda.to_device(numbers(1000))
    target = pinned(np.zeros(1000, np.float32))
    with hold_up(stream):
        there.copy_to_host(target, stream=stream)
        there.close()
        assert in_use(device) == before + 4000
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(1000))
    assert in_use(device) == before


def test_a_stream_is_kept_by_the_memory_it_used_and_then_destroyed(device, hold_up):
    stream = cuda.stream()
    handle = stream.handle
    there = cuda.to_device(numbers(10))
    target = pinned(np.zeros(10, np.float32))
    with hold_up(stream):
        there.copy_to_host(target, stream=stream)
        del stream
    device.synchronize()
    np.testing.assert_array_equal(target, numbers(10))
    del there, target
    gc.collect()
    with pytest.raises(DeviceError):
        device.backend.stream_query(handle)


def test_the_collector_may_find_a_stream_and_its_memory_in_one_cycle(device):
    before = in_use(device)
    stream = cuda.stream()
    handle = stream.handle
    there = cuda.to_device(numbers(1000))
    there.copy_to_host(pinned(numbers(1000)), stream=stream)
    cycle = [stream, there]
    cycle.append(cycle)
    del stream, there, cycle
    gc.collect()
    # The copy may not have run yet; its memory waits for it.
    cuda.synchronize()
    assert in_use(device) == before
    with pytest.raises(DeviceError):
        device.backend.stream_query(handle)


def test_a_block_used_in_many_streams_does_not_keep_them_all():
    there = cuda.to_device(numbers(SMALL))  # less may be copied at once
    target = pinned(numbers(SMALL))
    for _ in range(100):
        stream = cuda.stream()
        there.copy_to_host(target, stream=stream)
        stream.synchronize()
    assert len(there.block.streams) < 20


def test_an_interrupted_wait_keeps_the_host_memory(device, hold_up):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    stream = cuda.stream()
    there = cuda.to_device(numbers(1000))
    target = np.zeros(1000, np.float32)
    references = sys.getrefcount(target)
    with hold_up(stream):
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            there.copy_to_host(target, stream=stream)
        timer.join()
        gc.collect()
        assert sys.getrefcount(target) > references
    stream.synchronize()
    memory.reap()
    assert sys.getrefcount(target) == references
    np.testing.assert_array_equal(target, numbers(1000))


def test_frees_from_many_threads_are_all_counted(device):
    before = in_use(device)

    def work():
        for n in range(200):
            cuda.to_device(numbers(n % 7))[: n % 3].copy_to_host()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert in_use(device) == before


@pytest.mark.parametrize(
    "code",
    [
        "kept = cuda.to_device(np.ones(100)), cuda.stream(), cuda.event(), cuda.pinned_array(9)",
        "import gc; gc.disable(); c = [cuda.to_device(np.ones(9))]; c.append(c)",
        "s = cuda.stream(); p = cuda.pinned_array(1000000); p[:] = 1;"
        "d = cuda.to_device(p, stream=s); [d.copy_to_host(p, stream=s) for _ in range(50)]; del d",
        "import atexit; d = cuda.to_device(np.ones(9)); atexit.register(lambda: d.copy_to_host())",
    ],
)
def test_the_end_of_the_process_is_quiet(device, code):
    start = f"import numpy as np, haulage; from haulage import cuda; haulage.use('{device}'); "
    done = subprocess.run(
        [sys.executable, "-c", start + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork_the_child_reads_and_allocates(device):
    if device.kind != "cpu":
        pytest.skip("a GPU's driver does not live on in a forked child")
    code = (
        "import os, sys, numpy as np; from haulage import cuda\n"
        "s = cuda.stream(); p = cuda.pinned_array(1000); d = cuda.to_device(np.ones(1000))\n"
        "d.copy_to_host(p, stream=s)\n"
        "pid = os.fork()\n"
        "total = d.copy_to_host().sum() + cuda.to_device(np.ones(5)).copy_to_host().sum()\n"
        "del d, p\n"
        "s.synchronize()\n"
        "assert total == 1005\n"
        "if pid: sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- pinning memory that is there ---------------------------------------------------------------


def test_pinned_takes_copies_without_waiting_and_its_end_waits(hold_up):
    stream = cuda.stream()
    host = np.zeros(1000, np.float32)
    there = cuda.to_device(numbers(1000))
    with cuda.pinned(host, np.zeros((0, 3))), hold_up(stream):
        there.copy_to_host(host, stream=stream)
        assert (host == 0).all()
    np.testing.assert_array_equal(host, numbers(1000))
    assert not pinned_memory.note_pinned(host, stream)


def test_pinning_what_cannot_be_pinned_says_why_and_leaves_nothing_pinned():
    host = numbers(10)
    with pytest.raises(TypeError, match="expected a NumPy array"), cuda.pinned(host, [1, 2]):
        pass
    with pytest.raises(ValueError, match="has gaps"), cuda.pinned(host, numbers(10)[::2]):
        pass
    with cuda.pinned(host), pytest.raises(ValueError, match="pinned already"):
        roc.register(host)
    with roc.register(host):
        pass
    roc.register(host)
    roc.deregister(host)
    with pytest.raises(ValueError, match="is not pinned"):
        roc.deregister(host)
    with pytest.raises(TypeError, match="expected a NumPy array"):
        roc.deregister(3)


# ---- kernels that failed ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wait",
    [
        lambda stream, event: stream.synchronize(),
        lambda stream, event: event.synchronize(),
        lambda stream, event: cuda.synchronize(),
        lambda stream, event: cuda.to_device(numbers(SMALL), stream=stream),
    ],
)
def test_a_fault_becomes_what_its_kernel_says(device, monkeypatch, wait, hold_up):
    def stop(*args):
        raise KernelStopped(0xABC, 7)

    stream, event = cuda.stream(), cuda.event()
    for name in ("synchronize", "stream_synchronize", "event_synchronize"):
        monkeypatch.setattr(device.backend, name, stop)
    # An idle stream would be known to be done without asking.
    with hold_up(stream):
        with pytest.raises(KernelError, match="fault 7"):
            wait(stream, event)
        monkeypatch.setitem(
            runtime.current.describe, 0xABC, lambda stopped: BarrierError(f"line {stopped.code}")
        )
        with pytest.raises(BarrierError, match="line 7"):
            wait(stream, event)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_streams_and_events_are_not_copied(duplicate):
    for thing in (cuda.stream(), cuda.default_stream(), cuda.event()):
        with pytest.raises(TypeError, match="belongs to this process"):
            duplicate(thing)


@cuda.jit
def when_told(flag, out):
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    out[0] += 1


def test_a_kernel_that_waits_for_the_host_does_not_keep_its_caller_though_it_was_short_before():
    flag, out = cuda.mapped_array(1, np.int32), cuda.to_device(np.zeros(1, np.int32))
    stream = cuda.stream()
    flag[0] = 1
    for _ in range(3):
        when_told[1, 1, stream](flag, out)
        stream.synchronize()
    flag[0] = 0
    when_told[1, 1, stream](flag, out)
    flag[0] = 1
    stream.synchronize()
    assert out.copy_to_host()[0] == 4
