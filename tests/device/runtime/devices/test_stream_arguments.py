"""Streams that are not made by `stream()`: default ones, a thread's own, those of others."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import DeviceError, DeviceMismatch, LaunchError
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.event import Event
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import resolve

pytestmark = pytest.mark.usefixtures("device")


@cuda.jit
def add(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value


class Foreign:
    """A stream object of another package."""

    def __init__(self, *given):
        self.given = given

    def __cuda_stream__(self):
        return self.given


# ---- default streams ----------------------------------------------------------------------------


def test_the_legacy_default_stream_is_the_default_stream(device):
    legacy = cuda.legacy_default_stream()
    assert legacy == cuda.default_stream() == 0
    assert hash(legacy) == hash(cuda.default_stream())
    assert legacy
    assert int(legacy) == 1
    assert repr(legacy) == f"<Legacy default CUDA stream on {device}>"
    assert cuda.external_stream(1) == legacy


def test_a_thread_has_one_stream_of_its_own(device):
    mine = cuda.per_thread_default_stream()
    assert cuda.per_thread_default_stream() is mine
    assert mine.device is device
    assert mine
    assert mine.handle != 2
    if device.properties.host_memory_is_device_memory:
        assert int(mine) == 2
        assert cuda.external_stream(2) is mine
    else:
        assert int(mine) == mine.handle
    assert repr(mine) == f"<Per-thread default CUDA stream on {device}>"
    both = threading.Barrier(2)

    def ask():
        with haulage.use(device):
            both.wait(30)
            return cuda.per_thread_default_stream(), cuda.per_thread_default_stream()

    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(ask) for _ in range(2))
    assert first.result()[0] is first.result()[1]
    assert len({mine, first.result()[0], second.result()[0]}) == 3


def test_a_threads_stream_goes_with_the_thread(device):
    seen = []

    def ask():
        with haulage.use(device):
            stream = cuda.per_thread_default_stream()
            seen.append((weakref.ref(stream), stream.handle))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    gc.collect()
    gone, handle = seen[0]
    assert gone() is None
    with pytest.raises(DeviceError):
        device.backend.stream_query(handle)


def test_a_threads_stream_is_ordered_with_the_default_stream():
    stream, x = cuda.per_thread_default_stream(), cuda.to_device(np.zeros(100))
    for _ in range(3):
        add[1, 128, stream](x, 1)
        add[1, 128](x, 1)
    assert (x.copy_to_host() == 6).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_its_own(device):
    if device.kind != "cpu":
        pytest.skip("a GPU's driver does not live on in a forked child")
    code = (
        "import os, sys, numpy as np; from haulage import cuda\n"
        "mine = cuda.per_thread_default_stream()\n"
        "x = cuda.to_device(np.ones(10))\n"
        "pid = os.fork()\n"
        "now = cuda.per_thread_default_stream()\n"
        "assert (now is mine) == bool(pid)\n"
        "assert x.copy_to_host(stream=now).sum() == 10\n"
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


# ---- streams of others --------------------------------------------------------------------------


def test_a_stream_of_others_is_used_and_never_destroyed(device):
    device.activate()
    handle = device.backend.stream_create()
    stream = cuda.external_stream(handle)
    assert stream.handle == handle
    assert stream == cuda.external_stream(np.int64(handle))
    x = cuda.to_device(np.zeros(100), stream=stream)
    add[1, 128, stream](x, 1)
    assert x.stream is stream
    stream.synchronize()
    assert (x.copy_to_host() == 1).all()
    del stream, x
    gc.collect()
    assert device.backend.stream_query(handle)
    device.backend.stream_destroy(handle)


def test_the_handle_of_one_of_ours_gives_that_stream(device):
    stream = cuda.stream()
    handle = stream.handle
    same = cuda.external_stream(handle)
    assert same is stream
    del stream
    gc.collect()
    assert same.query()
    del same
    gc.collect()
    with pytest.raises(DeviceError):
        cuda.external_stream(handle)


def test_a_stream_says_whether_others_made_it(device):
    handle = device.backend.stream_create()
    assert cuda.external_stream(handle).external
    device.backend.stream_destroy(handle)
    ours = cuda.stream()
    for stream in (ours, cuda.external_stream(ours.handle), cuda.per_thread_default_stream()):
        assert not stream.external
    assert not cuda.default_stream().external


def test_handle_0_is_the_default_stream():
    assert cuda.external_stream(0) is cuda.default_stream()


@pytest.mark.parametrize("handle", ["1", 1.5, None, True, Foreign(0, 0)])
def test_a_handle_that_is_no_int_is_refused(handle):
    with pytest.raises(TypeError, match=r"the driver's handle .*: expected a whole number"):
        cuda.external_stream(handle)


@pytest.mark.parametrize("handle", [-1, 1 << 64])
def test_a_handle_that_is_no_address_is_refused(handle):
    with pytest.raises(ValueError, match=r"the driver's handle .*: expected a whole number from 0"):
        cuda.external_stream(handle)
    with pytest.raises(ValueError, match="expected an address"):
        cuda.to_device(np.ones(3), stream=Foreign(0, handle))
    with pytest.raises(ValueError, match="expected an address"):
        add[1, 32, Foreign(0, handle)]


def test_a_handle_that_the_device_does_not_know_is_refused(device):
    if device.kind != "cpu":
        pytest.skip("a GPU's driver may crash on a handle that it does not know")
    with pytest.raises(DeviceError, match="no stream 0x7fffffff"):
        cuda.external_stream(0x7FFFFFFF)
    with pytest.raises(DeviceError, match="no stream 0x7fffffff"):
        cuda.to_device(np.ones(3), stream=Foreign(0, 0x7FFFFFFF))


def test_objects_of_other_packages_stand_for_their_stream(hold_up):
    own = cuda.stream()
    stream = Foreign(0, own.handle)
    x = cuda.to_device(np.zeros(100), stream=stream)
    assert x.stream is own
    y = cuda.to_device(np.zeros(100), stream=cuda.stream())
    event, target = cuda.event(), cuda.pinned_array(100)
    target[:] = 7
    with hold_up(own):
        for array in (x, y):
            add[1, 128, stream](array, 1)
            add.forall(100, stream=stream)(array, 1)
        event.record(stream)
        y.copy_to_host(target, stream=stream)
        assert not event.query()
        assert (target == 7).all()
    own.synchronize()
    assert (target == 2).all()
    assert (x.copy_to_host(stream=Foreign(0, 0)) == 2).all()


@pytest.mark.parametrize("given", [(1, 5), (0,), (0, 1, 2), (0, "5")])
def test_what_is_not_version_0_of_the_protocol_is_refused(given):
    with pytest.raises(TypeError, match="expected"):
        cuda.to_device(np.ones(3), stream=Foreign(*given))


def test_a_protocol_that_gives_no_tuple_is_refused():
    class Wrong:
        def __cuda_stream__(self):
            return 5

    with pytest.raises(TypeError, match=r"gave 5; expected \(0, handle\)"):
        cuda.event().record(Wrong())


def test_what_is_no_stream_is_refused():
    x = cuda.to_device(np.ones(3))
    for stream in ("0", 1.5, 7, object(), Foreign):
        with pytest.raises(TypeError, match="expected a stream"):
            x.copy_to_host(stream=stream)
        with pytest.raises(LaunchError, match="expected a stream"):
            add[1, 32, stream](x, 1)


def test_a_stream_of_another_device_is_refused(device):
    other = Device(device.kind, device.backend, device.id)
    with pytest.raises(DeviceMismatch, match="made on that device"):
        resolve(Stream.create(other), device)
    with pytest.raises(DeviceMismatch):
        Event(device).record(Stream.create(other))


def test_the_cuda_stream_protocol_is_spoken_on_nvidia_only(device):
    stream = cuda.stream()
    if device.kind == "nvidia":
        assert stream.__cuda_stream__() == (0, stream.handle)
        return
    assert not hasattr(stream, "__cuda_stream__")
    assert not hasattr(cuda.default_stream(), "__cuda_stream__")


def test_on_nvidia_the_protocol_gives_version_and_handle(device):
    pretended = Device("nvidia", device.backend, device.id)
    stream = Stream.create(pretended)
    assert stream.__cuda_stream__() == (0, stream.handle)
    assert pretended.default_stream.__cuda_stream__() == (0, 0)


# ---- which are waited for -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [cuda.stream, cuda.default_stream, cuda.legacy_default_stream])
def test_a_value_set_in_a_stream_that_is_named_is_not_waited_for(make, monkeypatch):
    stream = make()
    plain, bound = cuda.to_device(np.arange(5)), cuda.to_device(np.arange(5), stream)
    made = cuda.device_array(5, np.int64, stream=stream)
    waits = []
    monkeypatch.setattr(type(stream), "synchronize", lambda each: waits.append(each))
    plain.setitem(0, 10, stream=stream)
    bound[1] = 11
    made[:] = 12
    assert waits == []
    plain[2] = 13
    # In the host's memory that may be a plain store, for which nothing has to wait.
    address = plain.device_ctypes_pointer.value
    assert waits == [0] or (ctypes.c_int64 * 5).from_address(address)[2] == 13
    monkeypatch.undo()
    stream.synchronize()
    assert plain.copy_to_host().tolist() == [10, 1, 13, 3, 4]
    assert bound.copy_to_host().tolist() == [0, 11, 2, 3, 4]
    assert made.copy_to_host().tolist() == [12] * 5


def test_streams_of_every_priority_do_their_work(device):
    least, greatest = device.stream_priorities
    assert least >= greatest
    ones = np.ones(8)
    for priority in (least + 1, least, greatest, greatest - 1):
        stream = cuda.stream(priority=priority)
        assert np.array_equal(cuda.to_device(ones, stream=stream).copy_to_host(), ones)
    with pytest.raises(TypeError):
        cuda.stream(priority=0.5)
