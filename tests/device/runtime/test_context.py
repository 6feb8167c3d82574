"""Which device is current, contexts, resetting a device, and the profiler's switches."""

import gc
import threading

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import DeviceNotFound, KernelError, Unsupported
from haulage.runtime import memory
from haulage.runtime.devices.registry import devices_of

pytestmark = pytest.mark.usefixtures("device")

words = pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])


@cuda.jit
def fails(out):
    out[0] = 1
    raise ValueError("on purpose")


def in_use(device):
    gc.collect()
    return sum(usage.in_use for usage in memory.stats().get(str(device), {}).values())


# ---- which is current ---------------------------------------------------------------------------


@words
def test_select_device_makes_a_device_current_in_this_thread(words, device):
    assert words.select_device(device.id) is device
    assert words.get_current_device() is device
    assert words.to_device(np.zeros(3)).device is device


@words
def test_select_device_refuses_what_is_no_device(words):
    with pytest.raises(DeviceNotFound, match=r"select_device\(99\).*present: "):
        words.select_device(99)
    with pytest.raises(DeviceNotFound, match=r"select_device\(-1\)"):
        words.select_device(-1)
    for wrong in ("0", 1.0, None, True):
        with pytest.raises(TypeError, match=r"the number of a device .*: expected a whole number"):
            words.select_device(wrong)
    with pytest.raises(DeviceNotFound, match=r"current_context\(7\)"):
        words.current_context(7)


def test_gpus_are_the_devices_and_each_can_be_entered(device):
    kind = devices_of(device.kind)
    assert len(cuda.gpus) == len(kind)
    assert list(cuda.gpus) == list(kind) == cuda.gpus.lst
    assert list(roc.agents) == list(kind)
    assert cuda.gpus.current is device
    with cuda.gpus[device.id] as entered:
        assert entered is device
        assert cuda.get_current_device() is device
        with haulage.use("cpu") as cpu:
            assert cuda.gpus.current is cpu
        assert cuda.gpus.current is device
    with pytest.raises(IndexError):
        cuda.gpus[len(kind)]


# ---- contexts -----------------------------------------------------------------------------------


@words
def test_the_current_context_is_the_current_device_s(words, device):
    context = words.current_context()
    assert context.device is device
    assert context.id == device.id
    assert context == words.current_context(device.id)
    assert hash(context) == hash(words.current_context())
    assert context != 0
    assert str(device) in repr(context)


def test_a_context_knows_its_memory(device):
    info = cuda.current_context().get_memory_info()
    free, total = info
    assert info.free == free
    assert 0 < free <= total == info.total


def test_contexts_are_pushed_and_popped(device):
    with haulage.use("cpu"):
        context = cuda.current_context()
        context.push()
        assert cuda.get_current_device() is context.device
        context.pop()
        with context as same:
            assert same is context
    assert cuda.get_current_device() is device


def test_a_pop_without_a_push_is_refused():
    found = []

    def pop():
        try:
            cuda.current_context().pop()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=pop)
    thread.start()
    thread.join()
    assert "push it first" in found[0]


def test_a_context_s_memory_holds_arrays(device):
    context = cuda.current_context()
    before = in_use(device)
    for made in (context.memalloc(64), context.memallocmanaged(64)):
        assert made.size == 64
        array = cuda.DeviceNDArray((8,), (8,), np.float64, gpu_data=made)
        array.copy_to_device(np.arange(8.0))
        np.testing.assert_array_equal(array.copy_to_host(), np.arange(8.0))
    assert in_use(device) > before
    del made, array
    assert in_use(device) == before


def test_a_context_s_host_memory_is_a_buffer():
    context = cuda.current_context()
    managed = context.memallocmanaged(80, attach_global=False)
    assert isinstance(managed, cuda.ManagedNDArray)
    assert managed.hints == ("attach_host",)
    np.ndarray(10, np.float64, buffer=managed)[...] = 3
    seen = cuda.DeviceNDArray(10, 8, np.float64, gpu_data=managed)
    assert seen.copy_to_host().tolist() == [3] * 10
    pinned = context.memhostalloc(80)
    array = np.ndarray(10, np.float64, buffer=pinned)
    array[...] = np.arange(10)
    there = cuda.to_device(array, stream=context.create_stream())
    np.testing.assert_array_equal(there.copy_to_host(), array)
    mapped = context.memhostalloc(80, mapped=True, portable=True, wc=True)
    assert isinstance(mapped, cuda.MappedNDArray)
    assert mapped.hints == ("portable", "wc")


def test_a_context_makes_streams_and_events(device):
    context = cuda.current_context()
    stream, event = context.create_stream(), context.create_event(timing=False)
    assert stream.device is device
    assert stream.handle
    event.record(stream)
    event.synchronize()
    assert not event.timing
    assert context.get_default_stream() == context.get_legacy_default_stream() == 0
    own = context.get_per_thread_default_stream()
    assert own is cuda.per_thread_default_stream()
    assert context.create_external_stream(stream.handle) == stream
    context.synchronize()


def test_a_context_gives_memory_to_other_processes(device):
    array = cuda.to_device(np.arange(4.0))
    try:
        handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    except Unsupported as error:
        pytest.skip(str(error))
    with cuda.open_ipc_array(bytes(handle), 4, np.float64, offset=handle.offset) as opened:
        np.testing.assert_array_equal(opened.copy_to_host(), np.arange(4.0))


def test_a_device_without_peers_says_so(device):
    context = cuda.current_context()
    if len(devices_of(device.kind)) == 1:
        assert not context.can_access_peer(1)
    with pytest.raises(ValueError, match=r"flags=1.: expected 0"):
        context.enable_peer_access(context, flags=1)
    if device.kind == "cpu":
        with pytest.raises(Unsupported, match="peer_enable"):
            context.enable_peer_access(1)


# ---- the end of all arrays ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "close",
    [
        cuda.close,
        roc.close,
        lambda: cuda.current_context().reset(),
        lambda: cuda.get_current_device().reset(),
    ],
    ids=["cuda.close", "roc.close", "context.reset", "device.reset"],
)
def test_a_reset_gives_all_memory_back_and_closes_the_arrays(close, device):
    arrays = [cuda.to_device(np.arange(1000.0)), cuda.device_array(10)]
    view = arrays[0][::2]
    mapped = cuda.mapped_array(3)
    mapped[...] = 1
    stream = cuda.stream()
    close()
    assert memory.stats()[str(device)]["device"].in_use == 0
    for array in (*arrays, view, mapped):
        with pytest.raises(ValueError, match="given back by close"):
            array.copy_to_host()
    assert mapped.sum() == 3  # the host's view of it stays good
    again = cuda.to_device(np.arange(3.0), stream=stream)
    np.testing.assert_array_equal(again.copy_to_host(), np.arange(3.0))


def test_a_reset_after_a_failed_kernel_reports_it_and_gives_the_memory_back(device):
    array = cuda.device_array(1)
    fails[1, 1](array)
    with pytest.raises(KernelError, match="on purpose"):
        cuda.close()
    assert memory.stats()[str(device)]["device"].in_use == 0
    cuda.synchronize()


# ---- cleanup that waits -------------------------------------------------------------------------


@words
def test_memory_is_not_given_back_inside_defer_cleanup(words, device):
    before = in_use(device)
    with words.defer_cleanup():
        with words.defer_cleanup():
            words.device_array(1000)
        words.pinned_array(1000)
        assert in_use(device) == before + 16000
    assert in_use(device) == before


def test_defer_cleanup_ends_where_its_body_raises(device):
    before = in_use(device)

    def body():
        cuda.device_array(1000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), cuda.defer_cleanup():
        body()
    assert in_use(device) == before
    cuda.device_array(1000)
    assert in_use(device) == before


# ---- the profiler -------------------------------------------------------------------------------


@words
def test_the_profiler_s_switches_reach_the_driver(words, device, monkeypatch):
    calls = []
    monkeypatch.setattr(device.backend, "profile", lambda record: calls.append(record))
    with words.profiling():
        assert calls == [True]
    assert calls == [True, False]
    with pytest.raises(ZeroDivisionError), words.profiling():
        _ = 1 // 0
    words.profile_start()
    words.profile_stop()
    assert calls == [True, False] * 3


@words
def test_detect_prints_the_devices(words, device, capsys):
    assert words.detect() is True
    assert device.name in capsys.readouterr().out
    assert words.is_available()
    assert device in words.list_devices()
