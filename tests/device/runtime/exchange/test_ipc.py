"""Arrays that processes share: each test has at least one other process, if not said otherwise."""

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.backends.base import NON_BLOCKING
from haulage.backends.null import NullBackend
from haulage.errors import DeviceError, Unsupported
from haulage.runtime import memory
from haulage.runtime.context import Context
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.exchange import ipc
from haulage.runtime.exchange.ipc import (
    IpcArrayHandle,
    IpcHandle,
    get_memory_handle,
    open_ipc_array,
)

pytestmark = pytest.mark.usefixtures("device")

SOURCE = Path(haulage.__path__[0]).parent

pair = np.dtype([("number", "i4"), ("weights", "f8", (2,))])


@pytest.fixture(autouse=True)
def _needs_ipc(device):
    try:
        cuda.to_device(np.zeros(1)).get_ipc_handle()
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.fixture
def no_collection():
    """Arrays that earlier tests left in circles are collected before, and none while one counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def run(script, *arguments):
    """What a script in a process of its own prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def spawned(function, *arguments):
    """What a function of this module returns in a spawned process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def numbered(shape, dtype=np.int64, order="C"):
    host = np.zeros(shape, dtype, order)
    host.view(np.uint8).T.reshape(-1)[...] = np.arange(host.nbytes) % 100 + 1
    return host if order == "C" else np.asfortranarray(host)


# ---- what is shared -----------------------------------------------------------------------------

VIEWS = {
    "ten": (np.arange(10.0), np.s_[:]),
    "one page and more": (np.arange(5000, dtype=np.int16), np.s_[:]),
    "part": (np.arange(5000), np.s_[700:4000]),
    "steps": (np.arange(100), np.s_[5:90:7]),
    "reversed": (np.arange(100), np.s_[90:5:-7]),
    "rows": (np.arange(60.0).reshape(6, 10), np.s_[2:4]),
    "F order": (np.asfortranarray(np.arange(60.0).reshape(6, 10)), np.s_[:]),
    "part in F order": (np.asfortranarray(np.arange(60.0).reshape(6, 10)), np.s_[::-1, 3:5]),
    "records": (np.arange(40).astype(pair), np.s_[3:20]),
    "no axes": (np.full((), 7.5, np.float32), np.s_[...]),
    "nothing": (np.zeros((4, 0)), np.s_[:]),
    "nothing of something": (np.arange(10), np.s_[5:5]),
}


def doubled(values):
    """Other values of the same dtype."""
    if values.dtype != pair:
        return values * 2
    other = values.copy()
    other["number"] += 1
    other["weights"] *= 2
    return other


def read_and_double(handles):
    """In another process: what each array is, which then gets other values."""
    seen = []
    for handle in handles:
        with handle as array:
            seen.append((array.copy_to_host(), array.strides))
            array.copy_to_device(doubled(seen[-1][0]))
    return seen


def test_a_spawned_process_reads_and_writes_arrays_of_any_form():
    bases = {name: cuda.to_device(host) for name, (host, _) in VIEWS.items()}
    arrays = [bases[name][key] for name, (_, key) in VIEWS.items()]
    seen = spawned(read_and_double, [array.get_ipc_handle() for array in arrays])
    for (name, (host, key)), array, (values, strides) in zip(
        VIEWS.items(), arrays, seen, strict=True
    ):
        assert values.dtype == host.dtype, name
        assert np.array_equal(values, host[key]), name
        assert strides == array.strides, name
        expected = host.copy(order="K")
        expected[key] = doubled(host[key])
        assert np.array_equal(bases[name].copy_to_host(), expected), name


def test_small_neighbours_are_not_touched():
    neighbours = [cuda.to_device(np.full(10, k)) for k in range(100)]
    spawned(read_and_double, [neighbours[k].get_ipc_handle() for k in (30, 31, 77)])
    for k, neighbour in enumerate(neighbours):
        factor = 2 if k in (30, 31, 77) else 1
        assert np.array_equal(neighbour.copy_to_host(), np.full(10, factor * k))
    del neighbours[30], neighbours[:10]
    for neighbour in neighbours:
        values = neighbour.copy_to_host()
        assert (values == values[0]).all()


def add_in_kernel(handle):
    @cuda.jit
    def add(x, value):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += value

    with handle as array:
        stream = cuda.stream()
        add.forall(array.size, stream=stream)(array, 5)
        stream.synchronize()


def test_kernels_of_two_processes_see_each_others_writes():
    @cuda.jit
    def triple(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 3

    numbers = np.arange(8 << 20, dtype=np.int64)  # 64 MiB
    array = cuda.to_device(numbers)
    triple.forall(array.size)(array)
    handle = array.get_ipc_handle()
    triple.forall(array.size)(array)
    cuda.synchronize()
    spawned(add_in_kernel, handle)
    triple.forall(array.size)(array)
    assert np.array_equal(array.copy_to_host(), (numbers * 9 + 5) * 3)


def test_the_bytes_of_a_handle_are_enough():
    array = cuda.to_device(np.arange(100, dtype=np.int32))
    handle = array[40:].get_ipc_handle().handle
    script = """
import sys
from haulage import cuda
from haulage.runtime.exchange.ipc import open_ipc_array

handle, offset = bytes.fromhex(sys.argv[1]), int(sys.argv[2])
with open_ipc_array(handle, 3, "i4", offset=offset) as array:
    print(*array.copy_to_host())
    array[0] = -1
with open_ipc_array(tuple(handle), (2, 3), "i4", (40, 8)) as array:
    print(*array.copy_to_host().ravel())
"""
    assert len(bytes(handle)) == 64
    lines = run(script, bytes(handle).hex(), str(handle.offset)).splitlines()
    assert lines == ["40 41 42", "0 2 4 10 12 14"]
    assert array[40] == -1


def test_a_pickled_handle_is_all_that_a_process_needs():
    array = cuda.to_device(np.arange(4))
    script = """
import pickle, sys
with pickle.loads(bytes.fromhex(sys.argv[1])) as opened:
    print(opened.copy_to_host())
"""
    assert run(script, pickle.dumps(array.get_ipc_handle()).hex()) == "[0 1 2 3]"


def test_a_read_only_array_stays_read_only():
    array = cuda.to_device(np.arange(10))
    array.readonly = True
    with array.get_ipc_handle() as opened, pytest.raises(ValueError, match="read-only"):
        opened[0] = 5
    assert array[0] == 0


def test_a_forked_process_has_a_copy_and_can_open_the_original():
    script = """
import os
import numpy as np
from haulage import cuda

small, large = cuda.to_device(np.arange(10)), cuda.to_device(np.arange(100_000))
neighbour = cuda.to_device(np.arange(10))
handles = [small.get_ipc_handle(), large.get_ipc_handle()]
child = os.fork()
if not child:
    assert "haulage-ipc" not in open("/proc/self/maps").read()
    for array, handle in zip((small, large), handles):
        assert np.array_equal(array.copy_to_host(), np.arange(array.size))
        array[0] = -1  # the child's own
        with handle as original:
            assert original[0] == 0
            original[1] = -2
        with array.get_ipc_handle() as again:
            assert tuple(again[:2].copy_to_host()) == (-1, 1)
    neighbour[0] = -3
    os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
for array in (small, large):
    assert tuple(array[:3].copy_to_host()) == (0, -2, 2)
assert np.array_equal(neighbour.copy_to_host(), np.arange(10))
print("done")
"""
    assert run(script) == "done"


# ---- opening and closing; within this process, which can open its own arrays too ----------------


def test_a_handle_says_what_it_is_of():
    array = cuda.to_device(np.arange(12).reshape(3, 4))
    handle = array[1:].get_ipc_handle()
    assert isinstance(handle, IpcArrayHandle)
    assert (handle.shape, handle.strides, handle.dtype) == ((2, 4), (32, 8), array.dtype)
    assert isinstance(handle.handle, IpcHandle)
    assert (handle.handle.size, handle.handle.offset) == (64, 32)
    assert handle.handle.device == str(array.device)
    assert bytes(handle.handle) == bytes(array.get_ipc_handle().handle)
    assert repr(handle) == f"<IpcArrayHandle shape=(2, 4) dtype=int64 on {array.device}, not open>"
    whole = get_memory_handle(array.gpu_data)
    assert whole == get_memory_handle(array.block) == array.get_ipc_handle().handle


def test_the_memory_is_the_exporters():
    array = cuda.to_device(np.arange(10))
    handle = array.get_ipc_handle()
    opened = handle.open()
    assert "open>" in repr(handle)
    array[3] = 33
    assert opened[3] == 33
    opened[4] = 44
    assert array[4] == 44
    handle.close()


def test_what_is_not_open_cannot_be_closed():
    handle = cuda.to_device(np.arange(10)).get_ipc_handle()
    with pytest.raises(ValueError, match="IpcHandle not opened"):
        handle.close()


def test_open_twice_is_an_error_and_again_after_close_is_not():
    array = cuda.to_device(np.arange(10))
    handle = array.get_ipc_handle()
    for _ in range(2):
        opened = handle.open()
        with pytest.raises(ValueError, match="IpcHandle is already opened"):
            handle.open()
        assert opened[9] == 9
        handle.close()
        with pytest.raises(ValueError, match=r"given back by close\(\)"):
            opened.copy_to_host()


def test_views_of_an_opened_array_end_with_it():
    array = cuda.to_device(np.arange(10))
    with array.get_ipc_handle() as opened:
        view = opened[::2]
    for used in (opened, view):
        with pytest.raises(ValueError, match=r"given back by close\(\)"):
            used[0]
    assert array[1] == 1


def test_that_a_handle_is_open_is_not_pickled():
    array = cuda.to_device(np.arange(10))
    handle = array.get_ipc_handle()
    with handle, pickle.loads(pickle.dumps(handle)) as opened:
        assert opened[5] == 5
    assert pickle.loads(pickle.dumps(handle.handle)) == handle.handle


def test_an_opened_array_is_bound_to_a_stream():
    array = cuda.to_device(np.arange(10))
    handle, stream = array.get_ipc_handle(), cuda.stream()
    assert handle.open(stream).stream is stream
    handle.close()
    assert handle.open().stream == 0
    handle.close()


def test_work_in_a_stream_ends_before_the_memory_goes(device, hold_up):
    array = cuda.to_device(np.zeros(100_000))
    handle, stream = array.get_ipc_handle(), cuda.stream()
    with hold_up(stream):
        with handle as opened:
            opened.setitem(slice(None), 1.0, stream)
        assert not stream.query()
    stream.synchronize()
    assert (array.copy_to_host() == 1).all()


def test_a_body_that_raises_closes():
    array = cuda.to_device(np.arange(10))
    handle = array.get_ipc_handle()
    kept = []
    for opener in (handle, open_ipc_array(handle.handle, 10, array.dtype)):
        with pytest.raises(KeyError), opener as opened:  # noqa: PT012
            kept.append(opened)
            raise KeyError
    for opened in kept:
        with pytest.raises(ValueError, match=r"given back by close\(\)"):
            opened[0]


def test_open_ipc_array_takes_a_handle_in_each_form():
    array = cuda.to_device(np.arange(10))
    handle = array[2:].get_ipc_handle().handle
    raw = bytes(handle)
    for form in (raw, bytearray(raw), memoryview(raw), tuple(raw), list(raw)):
        with open_ipc_array(form, (2, 3), array.dtype, offset=16) as opened:
            assert np.array_equal(opened.copy_to_host(), [[2, 3, 4], [5, 6, 7]])
    with open_ipc_array(handle, 2, array.dtype, -16, offset=8) as opened:
        assert np.array_equal(opened.copy_to_host(), [5, 3])
    with open_ipc_array(array[2:].get_ipc_handle(), 3, array.dtype) as opened:
        assert np.array_equal(opened.copy_to_host(), [2, 3, 4])


@pytest.mark.parametrize(
    ("shape", "dtype", "strides", "offset", "error", "expected"),
    [
        (11, "i8", None, 0, ValueError, "takes 88 bytes, the memory given has 80"),
        (2, "i8", 80, 0, ValueError, "takes 88 bytes"),
        (10, "i8", None, 1, ValueError, "the memory given has 79"),
        (0, "i8", None, 81, ValueError, "offset 81: the memory that was exported has 80"),
        (1, "i8", None, -8, ValueError, "bytes of offset -8: expected a whole number"),
        (1, "i8", None, 1.5, TypeError, "offset 1.5: expected a whole number"),
        (-1, "i8", None, 0, ValueError, "negative"),
        (1, "O", None, 0, TypeError, "object"),
        ((2, 2), "i8", (8,), 0, ValueError, "expected one for each axis"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(
    no_collection, shape, dtype, strides, offset, error, expected
):
    array = cuda.to_device(np.arange(10))
    raw = bytes(array.get_ipc_handle().handle)
    mappings = Path("/proc/self/maps").read_text().count("haulage-ipc")
    opener = open_ipc_array(raw, shape, dtype, strides, offset)
    with pytest.raises(error, match=expected), opener:
        pass
    # Memory of other tests may be given back meanwhile.
    assert Path("/proc/self/maps").read_text().count("haulage-ipc") <= mappings
    assert np.array_equal(array.copy_to_host(), np.arange(10))


@pytest.mark.parametrize("wrong", [5, None, "text", [1, 300], b"short", object()])
def test_what_is_no_handle_is_refused(wrong):
    opener = open_ipc_array(wrong, 1, np.int64)
    expected = "no IPC handle" if wrong == b"short" else "expected an IpcHandle, its bytes"
    with pytest.raises((TypeError, ValueError), match=expected), opener:
        pass


# ---- what cannot be shared ----------------------------------------------------------------------


def test_memory_of_others_is_not_exported():
    array = cuda.to_device(np.arange(10))
    with (
        array.get_ipc_handle() as opened,
        pytest.raises(ValueError, match="memory of another owner"),
    ):
        opened.get_ipc_handle()
    for kind, other in (("mapped", cuda.mapped_array(10)), ("managed", cuda.managed_array(10))):
        with pytest.raises(ValueError, match=f"stands on {kind} memory.*copy the array"):
            ipc.get_memory_handle(other.gpu_data)


def test_memory_that_is_none_is_not_exported():
    with pytest.raises(TypeError, match="expected memory of a device array, gpu_data"):
        get_memory_handle(np.arange(10))


def test_a_closed_array_is_not_exported():
    array = cuda.to_device(np.arange(10))
    array.close()
    with pytest.raises(ValueError, match=r"given back by close\(\)"):
        array.get_ipc_handle()


def refusal(handle):
    """In another process: what opening says."""
    try:
        handle.open()
    except DeviceError as error:
        return str(error)
    return "opened"


def test_freed_memory_cannot_be_opened():
    handles = []
    for size in (10, 100_000):
        array = cuda.to_device(np.zeros(size))
        handles.append(array.get_ipc_handle())
        array.close()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for said in pool.map(refusal, handles):
            assert f"process {os.getpid()} exported are gone" in said


def test_memory_of_a_process_that_has_ended_cannot_be_opened():
    script = """
import pickle, sys
import numpy as np
from haulage import cuda
array = cuda.to_device(np.arange(10))
print(pickle.dumps(array.get_ipc_handle()).hex())
"""
    handle = pickle.loads(bytes.fromhex(run(script)))
    with pytest.raises(DeviceError, match="are gone: the process has ended"):
        handle.open()


def test_what_is_open_when_it_is_freed_reaches_no_new_memory():
    for size in (10, 100_000):
        array = cuda.to_device(np.arange(size))
        with array.get_ipc_handle() as opened:
            array.close()
            others = [cuda.to_device(np.arange(size)) for _ in range(20)]
            opened[...] = -1
            cuda.synchronize()
            for other in others:
                assert np.array_equal(other.copy_to_host(), np.arange(size))


# ---- nothing is lost ----------------------------------------------------------------------------


def test_nothing_stays_behind(no_collection):
    def resources():
        # What earlier tests have left: memory that work still used.
        cuda.synchronize()
        memory.stats()
        maps = Path("/proc/self/maps").read_text().count("haulage-ipc")
        return maps, len(os.listdir("/proc/self/fd"))

    def share():
        for size in (10, 500, 100_000):
            array = cuda.to_device(np.arange(size))
            with array.get_ipc_handle() as opened, array.get_ipc_handle() as again:
                assert again[5] == opened[5] == 5
            handle = array[3:].get_ipc_handle()
            handle.open()
            del opened, again, array, handle

    share()  # pages that were shared once keep their name until they are given back
    before = resources()
    for _ in range(30):
        share()
    assert resources() == before


def test_exporting_loses_no_write_of_concurrent_work(device):
    """Threads write to arrays in streams of all kinds while they are exported."""
    rounds, writes = 12, 20
    current: dict[int, object] = {}
    lost, running = [], [4]

    def work(number, stream):
        try:
            with haulage.use(device):
                for turn in range(rounds):
                    array = cuda.device_array(10 if number == 0 else 300_000, np.int32)
                    current[number] = array
                    for k in range(writes):
                        array.setitem(slice(None), turn * writes + k, stream)
                    stream.synchronize()
                    if not (array.copy_to_host() == turn * writes + writes - 1).all():
                        lost.append((number, turn))
        finally:
            running[0] -= 1

    streams = [
        cuda.stream(),
        cuda.stream(),
        Stream.create(device, NON_BLOCKING),
        device.default_stream,
    ]
    threads = [threading.Thread(target=partial(work, *item)) for item in enumerate(streams)]
    for thread in threads:
        thread.start()
    exported = set()
    while running[0]:
        for array in list(current.values()):
            exported.add(bytes(array.get_ipc_handle().handle))
    for thread in threads:
        thread.join()
    assert lost == []
    assert exported


def read_and_close(handle):
    array = handle.open_array(cuda.current_context(), handle.size // 8, np.int64)
    values = array.copy_to_host().tolist()
    handle.close()
    with pytest.raises(ValueError, match="given back"):
        array.copy_to_host()
    return values


def test_a_memory_handle_opens_as_an_array_in_another_process():
    array = cuda.to_device(np.arange(10))[2:7]
    handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    assert spawned(read_and_close, handle) == [2, 3, 4, 5, 6]


def test_a_memory_handle_is_open_once():
    array = cuda.to_device(np.arange(10))
    handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    assert handle.base is None
    span = handle.open(cuda.current_context())
    assert span.size == handle.size == 80
    assert cuda.DeviceNDArray(10, 8, np.int64, gpu_data=span)[3] == 3
    with pytest.raises(ValueError, match="IpcHandle is already opened") as again:
        handle.open_array(None, 10, np.int64)
    # Programs compare these words.
    assert str(again.value) == "IpcHandle is already opened"
    copy = pickle.loads(pickle.dumps(handle))
    assert copy == handle
    copy.open()
    copy.close()
    handle.close()
    with pytest.raises(ValueError, match="IpcHandle not opened"):
        handle.close()


def test_a_memory_handle_that_cannot_be_an_array_is_not_open():
    array = cuda.to_device(np.arange(10))
    handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    with pytest.raises(ValueError, match="takes 88 bytes, the memory given has 80"):
        handle.open_array(None, 11, np.int64)
    with pytest.raises(TypeError, match="stream"):
        array.get_ipc_handle().open(stream="no stream")
    with pytest.raises(ValueError, match="cannot be opened in"):
        handle.open(Context(Device("null", NullBackend(), 0)))
    assert handle.open().size == 80
    handle.close()


def test_a_staged_opening_is_a_copy():
    array = cuda.to_device(np.arange(4.0))
    handle = cuda.current_context().get_ipc_handle(array[1:].gpu_data)
    context = cuda.current_context()
    assert handle.can_access_peer(context)
    copy = handle.open_staged(context)
    seen = cuda.DeviceNDArray(3, 8, np.float64, gpu_data=copy)
    with pytest.raises(ValueError, match="already opened"):
        handle.open_direct(context)
    array[:] = 7
    assert seen.copy_to_host().tolist() == [1, 2, 3]
    handle.close()
    with pytest.raises(ValueError, match="given back"):
        seen.copy_to_host()
    assert array.copy_to_host().tolist() == [7] * 4


def test_a_context_opens_the_bytes_of_a_handle():
    array = cuda.to_device(np.arange(4.0))
    handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    memory = cuda.current_context().open_ipc_handle(bytes(handle), 16)
    assert memory.size == 16
    cuda.DeviceNDArray(2, 8, np.float64, gpu_data=memory)[0] = 5
    assert array.copy_to_host().tolist() == [5, 1, 2, 3]
