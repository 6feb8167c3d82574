"""Memory managers written as RMM's and CuPy's are, and such as do everything wrong."""

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import haulage
from device.runtime.plugins.pool_stand_ins import (
    DeviceBuffer,
    LikeCuPy,
    LikeRMM,
    default_pool,
    forgetting,
)
from haulage import cuda
from haulage.cuda.cudadrv import driver
from haulage.errors import DeviceError, OutOfMemory, Unsupported
from haulage.runtime import memory

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture(autouse=True)
def none_afterwards():
    """Also no memory of a pool is left, once the frames that an exception holds are gone."""
    yield
    driver._memory_manager = None
    memory.stats()
    if DeviceBuffer.pieces.held or default_pool.pieces.held:
        gc.collect()
        memory.stats()
    assert (DeviceBuffer.pieces.held, default_pool.pieces.held) == ({}, {})
    # What pools keep of the driver's memory is in use for Haulage, and other tests count that.
    DeviceBuffer.pieces.empty()
    default_pool.free_all_blocks()


def chosen(plugin):
    cuda.set_memory_manager(plugin)
    return cuda.current_context().memory_manager


def held_by(plugin):
    return DeviceBuffer.pieces.held if plugin is LikeRMM else default_pool.pieces.held


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


@pytest.mark.parametrize("plugin", [LikeRMM, LikeCuPy])
def test_a_pool_gives_all_arrays_and_gets_them_back(plugin):
    chosen(plugin)
    held = held_by(plugin)
    arrays = [cuda.to_device(np.arange(n, dtype=np.int64)) for n in (1, 100, 200_000)]
    assert {array.device_pointer for array in arrays} == held.keys()
    for array in arrays:
        add_one[array.size // 64 + 1, 64](array)
        np.testing.assert_array_equal(array.copy_to_host(), np.arange(array.size) + 1)
    view = arrays[1][50:]
    addresses = [array.device_pointer for array in arrays]
    del array, arrays
    assert held.keys() == {addresses[1]}
    assert view[0] == 51
    del view
    assert held == {}


@pytest.mark.parametrize("plugin", [LikeRMM, LikeCuPy])
def test_memory_of_a_pool_waits_for_the_streams_that_use_it(plugin, hold_up):
    chosen(plugin)
    held = held_by(plugin)
    stream = cuda.stream()
    array = cuda.to_device(np.zeros(100, np.int64))
    with hold_up(stream):
        add_one[2, 64, stream](array)
        del array
        assert len(held) == 1
    stream.synchronize()
    memory.reap()
    assert held == {}


@pytest.mark.parametrize("plugin", [LikeRMM, LikeCuPy])
def test_reset_forgets_and_empties(plugin):
    manager = chosen(plugin)
    array = cuda.to_device(np.arange(4))
    cuda.current_context().reset()
    assert held_by(plugin) == {}
    assert manager.allocations == {}
    if plugin is LikeCuPy:
        assert default_pool.total_bytes() == 0
    with pytest.raises(ValueError, match="close"):
        array.copy_to_host()


@pytest.mark.parametrize("plugin", [LikeRMM, LikeCuPy])
def test_arrays_of_a_plug_in_count_as_those_of_the_line_that_asked(plugin, device):
    chosen(plugin)
    cuda.device_array(1)  # the pool has a piece of the driver's memory from now on
    before = haulage.memory.stats(device).in_use
    array = cuda.device_array(12_347, np.int8)
    assert haulage.memory.stats(device).in_use - before == 12_347
    (held,) = [held for held in haulage.memory.report(device).holdings if held.nbytes == 12_347]
    assert (held.kind, held.sites[0].filename) == ("device", __file__)
    pinned = cuda.pinned_array(100, np.int8)
    assert haulage.memory.stats(device).in_use - before == 12_447
    haulage.memory.limit(haulage.memory.stats(device)[str(device)]["device"].in_use + 10, device)
    try:
        with pytest.raises(OutOfMemory, match=r"haulage.memory.limit\(\); 10 of them are left"):
            cuda.device_array(11, np.int8)
    finally:
        haulage.memory.limit(None, device)
    del array, pinned
    assert haulage.memory.stats(device).in_use == before


def test_figures_come_from_the_pool_or_not_at_all():
    chosen(LikeCuPy)
    array = cuda.device_array(1000, np.int8)
    free, total = cuda.current_context().get_memory_info()
    assert total - free == 1024
    del array
    chosen(LikeRMM)
    with pytest.raises(NotImplementedError):
        cuda.current_context().get_memory_info()


def test_defer_cleanup_enters_that_of_the_plug_in():
    manager = chosen(LikeCuPy)
    with cuda.defer_cleanup():
        assert manager.deferred == 1
        cuda.to_device(np.arange(4))
        assert len(manager.deallocations) == len(default_pool.pieces.held) == 1
        with cuda.current_context().defer_cleanup():
            assert manager.deferred == 2
    assert default_pool.pieces.held == {}


def test_items_of_deallocations_wait_while_they_are_disabled():
    manager = chosen(LikeRMM)
    done = []
    manager.deallocations.add_item(done.append, 1)
    assert done == [1]
    with manager.deallocations.disable():
        manager.deallocations.add_item(done.append, 2, 100)
        assert (done, len(manager.deallocations)) == ([1], 1)
    assert done == [1, 2]


def test_memory_of_the_host_is_unpinned_at_once_also_inside_defer_cleanup():
    chosen(LikeCuPy)
    host = np.arange(3)
    with cuda.defer_cleanup():
        for _ in range(3):
            with cuda.pinned(host):
                pass
            with cuda.mapped(host) as mapped:
                add_one[1, 32](mapped)
                cuda.synchronize()
    assert host.tolist() == [3, 4, 5]


READER = """
    import pickle, sys
    from haulage import cuda
    with pickle.loads(bytes.fromhex(sys.argv[1])) as array:
        print(array.copy_to_host().tolist())
        array[0] = 77
"""


@pytest.fixture
def shares_memory(device):
    """The test is skipped where processes cannot share the device's memory."""
    try:
        cuda.to_device(np.arange(3)).get_ipc_handle()
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("shares_memory")
@pytest.mark.parametrize("plugin", [LikeRMM, LikeCuPy])
def test_another_process_opens_memory_of_a_pool(plugin):
    chosen(plugin)
    before = cuda.to_device(np.arange(3))
    array = cuda.to_device(np.arange(10, 16))
    handle = array[2:].get_ipc_handle()
    assert handle.handle.size == 32
    assert handle.handle.offset >= 16 + before.nbytes
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READER), pickle.dumps(handle).hex()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("[12, 13, 14, 15]\n", 0), done.stderr
    assert array.copy_to_host().tolist() == [10, 11, 77, 13, 14, 15]


@pytest.mark.usefixtures("shares_memory")
def test_a_handle_keeps_its_base():
    chosen(LikeRMM)
    array = cuda.to_device(np.arange(4))
    handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    del array
    assert len(DeviceBuffer.pieces.held) == 1
    del handle
    assert DeviceBuffer.pieces.held == {}


@pytest.mark.parametrize("plugin", ["LikeRMM", "LikeCuPy"])
def test_the_environment_names_a_module(plugin, tmp_path):
    (tmp_path / "plugged.py").write_text(
        f"from pool_stand_ins import {plugin}\n_numba_memory_manager = {plugin}\n"
    )
    program = """
        import numpy as np
        from haulage import cuda
        array = cuda.to_device(np.arange(5))
        print(type(cuda.current_context().memory_manager).__name__, array.copy_to_host().sum())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={
            **os.environ,
            "NUMBA_CUDA_MEMORY_MANAGER": "plugged",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # Nothing is said at the end, when an array of the plug-in is still there.
    assert (done.stdout, done.stderr, done.returncode) == (f"{plugin} 10\n", "", 0)


# ---- managers that keep what they give ----------------------------------------------------------


class Keeping(LikeRMM):
    """Keeps the pointers themselves and gives owners of them, as numba's own manager does."""

    def memalloc(self, size):
        buffer = DeviceBuffer(size=size)
        finalizer = forgetting_both(buffer.ptr, self.allocations)
        kept = driver.AutoFreePointer(self.context, buffer.ptr, size, buffer, finalizer)
        self.allocations[buffer.ptr] = kept
        return kept.own()


def forgetting_both(address, allocations):
    def finalizer():
        del allocations[address]

    return finalizer


def test_memory_that_the_manager_keeps_is_given_back_with_its_last_owner():
    manager = chosen(Keeping)
    array = cuda.to_device(np.arange(10))
    view = array[5:]
    second = driver.OwnedPointer(manager.allocations[array.device_pointer])
    del array
    assert len(manager.allocations) == 1
    assert view[0] == 5
    del view
    assert len(manager.allocations) == 1
    del second
    assert manager.allocations == {}
    gc.collect()
    assert DeviceBuffer.pieces.held == {}


class Attached(LikeRMM):
    """What gives the memory back hangs on the pointer itself."""

    def memalloc(self, size):
        buffer = DeviceBuffer(size=size)
        pointer = cuda.MemoryPointer(self.context, buffer.ptr, size)
        pointer.buffer = buffer
        return pointer


def test_what_a_plug_in_hangs_on_a_pointer_lives_as_long_as_the_array():
    chosen(Attached)
    array = cuda.to_device(np.arange(10))
    assert len(DeviceBuffer.pieces.held) == 1
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(10))
    del array
    assert DeviceBuffer.pieces.held == {}


class OneSlab(LikeRMM):
    """Cuts all arrays out of one pointer, by views."""

    def initialize(self):
        self.ended = []
        buffer = DeviceBuffer(size=4096)
        self.slab = cuda.MemoryPointer(
            self.context, buffer.ptr, 4096, buffer, lambda: self.ended.append(1)
        )
        self.used = 0

    def memalloc(self, size):
        start, self.used = self.used, self.used + 256 * -(-size // 256)
        return self.slab.view(start, start + size)


def test_parts_of_one_piece_of_memory_are_arrays_of_their_own():
    manager = chosen(OneSlab)
    first, second = cuda.to_device(np.arange(10)), cuda.to_device(np.arange(10, 20))
    assert second.device_pointer - first.device_pointer == 256
    first.close()
    np.testing.assert_array_equal(second.copy_to_host(), np.arange(10, 20))
    assert manager.ended == []


class AllManaged(LikeRMM):
    """Arrays in memory that moves."""

    def memalloc(self, size):
        return self.memallocmanaged(size, attach_global=True)


def test_device_arrays_can_stand_on_managed_memory():
    chosen(AllManaged)
    array = cuda.to_device(np.arange(100))
    add_one[2, 64](array)
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(100) + 1)


class HostToo(LikeRMM):
    """Host memory of its own, too."""

    def memhostalloc(self, size, mapped, portable, wc):
        kept = np.zeros(size + 64, np.uint8)
        kind = cuda.MappedMemory if mapped else cuda.PinnedMemory
        self.allocations[kept.ctypes.data] = kept
        forget = forgetting(kept.ctypes.data, self.allocations)
        return kind(self.context, kept.ctypes.data, size, finalizer=forget)

    def mempin(self, owner, pointer, size, mapped):
        self.pinned = owner
        return cuda.MappedMemory(self.context, pointer, size, owner=owner, finalizer=self.unpin)

    def unpin(self):
        self.pinned = None


def test_host_memory_of_a_plug_in_goes_with_the_array(device):
    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"{device} does not reach all memory of the host")
    manager = chosen(HostToo)
    pinned, mapped = cuda.pinned_array(10), cuda.mapped_array(20)
    assert len(manager.allocations) == 2
    mapped[:] = 3
    add_one[1, 32](mapped)
    cuda.synchronize()
    assert (mapped == 4).all()
    view = pinned[2:]
    del pinned, mapped
    assert len(manager.allocations) == 1
    del view
    assert manager.allocations == {}
    host = np.arange(4.0)
    with cuda.pinned(host):
        assert manager.pinned is host
    assert manager.pinned is None


# ---- managers that do everything wrong ----------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "use"),
    [
        ("memalloc", lambda: cuda.device_array(4)),
        ("memhostalloc", lambda: cuda.pinned_array(4)),
        ("memhostalloc", lambda: cuda.mapped_array(4)),
        ("memallocmanaged", lambda: cuda.managed_array(4)),
        ("mempin", lambda: cuda.pinned(np.zeros(3)).__enter__()),
        ("get_memory_info", lambda: cuda.current_context().get_memory_info()),
        ("reset", lambda: cuda.current_context().reset()),
        ("defer_cleanup", lambda: cuda.defer_cleanup().__enter__()),
        ("get_ipc_handle", lambda: cuda.to_device(np.arange(3)).get_ipc_handle()),
    ],
)
def test_what_a_method_raises_comes_with_its_name_and_leaves_all_as_it_was(method, use):
    def fail(self, *args, **options):
        raise ZeroDivisionError("a bug")

    manager = chosen(type("Failing", (LikeRMM,), {method: fail}))
    with pytest.raises(ZeroDivisionError, match="a bug") as raised:
        use()
    if method != "defer_cleanup":
        (note,) = raised.value.__notes__
        assert note.startswith(f"raised by {method}() of the memory manager Failing")
    del raised
    assert not manager.deallocations.is_disabled
    setattr(type(manager), method, getattr(LikeRMM, method))
    array = cuda.to_device(np.arange(4))
    assert array.copy_to_host().tolist() == [0, 1, 2, 3]
    del array
    assert DeviceBuffer.pieces.held == {}


@pytest.mark.parametrize("method", ["__init__", "initialize"])
def test_a_manager_that_cannot_begin_is_asked_again(method):
    class Late(LikeRMM):
        attempts = 0

    def fail_first(self, **options):
        if options.get("context", 0) is not None:
            Late.attempts += 1
        if Late.attempts == 1:
            raise OSError("not yet")
        return getattr(LikeRMM, method)(self, **options)

    setattr(Late, method, fail_first)
    cuda.set_memory_manager(Late)
    with pytest.raises(OSError, match="not yet") as raised:
        cuda.device_array(3)
    assert raised.value.__notes__ == [f"raised by {method}() of the memory manager Late"]
    assert cuda.to_device(np.arange(2)).copy_to_host().tolist() == [0, 1]


def freed(context, size):
    pointer = cuda.MemoryPointer(context, 4096, size)
    pointer.free()
    return pointer


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (lambda c, n: None, TypeError, "gave None; expected a MemoryPointer"),
        (lambda c, n: 4096, TypeError, "gave 4096; expected a MemoryPointer"),
        (lambda c, n: cuda.MemoryPointer(c, 4096, 31), ValueError, "gave 31 bytes; 32 were"),
        (lambda c, n: cuda.MemoryPointer(c, 4096, 0), ValueError, "gave 0 bytes; 32 were"),
        (lambda c, n: cuda.MemoryPointer(c, 0, n), ValueError, "at the address 0"),
        (lambda c, n: cuda.MemoryPointer(c, ctypes.c_void_p(), n), ValueError, "the address 0"),
        (lambda c, n: cuda.MemoryPointer(c, "here", n), TypeError, "pointer 'here': expected an"),
        (
            lambda c, n: cuda.MemoryPointer(c, 4096, None),
            TypeError,
            "size None: expected a whole number",
        ),
        (
            lambda c, n: cuda.MemoryPointer(c, 4096, -n),
            ValueError,
            "size -32: expected a whole number from 0",
        ),
        (lambda c, n: cuda.MemoryPointer(None, 4096, n), TypeError, "context=None.*a Context"),
        (lambda c, n: cuda.MemoryPointer(c, 4096, n, finalizer=3), TypeError, "finalizer=3"),
        (freed, ValueError, "which is closed; expected memory in use"),
    ],
)
def test_nonsense_of_memalloc_is_refused(given, error, said):
    class Nonsense(LikeRMM):
        def memalloc(self, size):
            return given(self.context, size)

    manager = chosen(Nonsense)
    with pytest.raises(error, match=said) as raised:
        cuda.device_array(4)
    assert "Nonsense" in "".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    Nonsense.memalloc = LikeRMM.memalloc
    assert cuda.to_device(np.arange(2)).copy_to_host().tolist() == [0, 1]
    assert manager.allocations == {}


def test_memory_that_is_refused_is_given_back():
    class TooSmall(LikeRMM):
        def memalloc(self, size):
            return super().memalloc(size - 1)

    chosen(TooSmall)
    with pytest.raises(ValueError, match="gave 31 bytes"):
        cuda.device_array(4)
    gc.collect()
    assert DeviceBuffer.pieces.held == {}


def test_memory_that_is_given_twice_is_refused():
    class Twice(LikeRMM):
        def memalloc(self, size):
            self.kept = getattr(self, "kept", None) or super().memalloc(size)
            return self.kept

    chosen(Twice)
    array = cuda.device_array(4)
    with pytest.raises(ValueError, match=r"Twice gave .* twice"):
        cuda.device_array(4)
    array[:] = 1
    assert array.copy_to_host().tolist() == [1] * 4


def test_memory_of_the_device_is_no_host_memory():
    class Wrong(LikeRMM):
        def memhostalloc(self, size, mapped, portable, wc):
            return self.memalloc(size)

    chosen(Wrong)
    with pytest.raises(TypeError, match="gave memory of the device; pinned memory was asked for"):
        cuda.pinned_array(4)
    with pytest.raises(TypeError, match="gave memory of the device; mapped memory was asked for"):
        cuda.mapped_array(4)


@pytest.mark.parametrize("told", [None, 3, (1, 2, 3)])
def test_figures_that_are_none_are_refused(told):
    manager = chosen(type("Vague", (LikeRMM,), {"get_memory_info": lambda self: told}))
    assert manager.get_memory_info() == told
    with pytest.raises(TypeError, match=r"Vague gave .*; expected MemoryInfo"):
        cuda.current_context().get_memory_info()


def test_a_handle_of_none_is_refused():
    chosen(type("Silent", (LikeRMM,), {"get_ipc_handle": lambda self, memory: None}))
    array = cuda.to_device(np.arange(3))
    with pytest.raises(TypeError, match="Silent gave None; expected an IpcHandle"):
        array.get_ipc_handle()


def test_a_finalizer_that_raises_is_reported_and_harms_no_other(monkeypatch, hold_up):
    class Raising(LikeRMM):
        def memalloc(self, size):
            buffer = DeviceBuffer(size=size)

            def finalizer(kept=buffer):
                raise LookupError(f"no buffer of {size}")

            return cuda.MemoryPointer(self.context, buffer.ptr, size, finalizer=finalizer)

    said = set()

    def note(report):
        said.add((str(report.exc_value), str(report.object)[:26]))

    monkeypatch.setattr(sys, "unraisablehook", note)
    chosen(Raising)
    stream = cuda.stream()
    array, other = cuda.device_array(100, np.int8), cuda.device_array(200, np.int8)
    with hold_up(stream):
        add_one[2, 64, stream](array)
        del array
    stream.synchronize()
    del other
    # Somebody else's call gives back what waited, and has no part in what that raises.
    assert cuda.device_array(3).size == 3
    assert ("no buffer of 100", "the finalizer of 100 bytes") in said
    assert ("no buffer of 200", "the finalizer of 200 bytes") in said


def test_a_full_pool_is_asked_again_once_there_is_room(hold_up):
    class Small(LikeRMM):
        def memalloc(self, size):
            if DeviceBuffer.pieces.held:
                raise MemoryError("the pool is full")
            return super().memalloc(size)

    chosen(Small)
    stream = cuda.stream()
    array = cuda.to_device(np.zeros(100, np.int64))
    add_one[2, 64, stream](array)
    del array
    array = cuda.device_array(10)
    with pytest.raises(MemoryError, match="the pool is full") as raised:
        cuda.device_array(3)
    assert "memalloc() of the memory manager Small, which was asked for 24 bytes" in str(
        raised.value.__notes__
    )
    del array


def test_managers_are_replaced_while_their_arrays_live():
    first = chosen(LikeRMM)
    old = cuda.to_device(np.arange(5))
    second = chosen(LikeCuPy)
    assert first is not second
    new = cuda.to_device(np.arange(5, 10))
    add_one[1, 32](old)
    new[:5].copy_to_device(old)
    np.testing.assert_array_equal(new.copy_to_host(), np.arange(5) + 1)
    handles = []
    first.get_ipc_handle = lambda memory: handles.append(memory.size) or "the first one's"
    assert old.get_ipc_handle().handle == "the first one's"
    driver._memory_manager = None
    own = cuda.to_device(np.arange(3))
    assert (len(DeviceBuffer.pieces.held), len(default_pool.pieces.held)) == (1, 1)
    del old
    assert (len(DeviceBuffer.pieces.held), len(default_pool.pieces.held)) == (0, 1)
    del new, own
    assert default_pool.pieces.held == {}


def test_what_is_no_plug_in_is_refused():
    for wrong in (None, 3, "rmm"):
        with pytest.raises(TypeError, match="expected a class derived from BaseCUDAMemoryManager"):
            cuda.set_memory_manager(wrong)

    class Half(cuda.HostOnlyCUDAMemoryManager):
        interface_version = 1

    with pytest.raises(TypeError, match="abstract"):
        cuda.set_memory_manager(Half)
    assert driver._memory_manager is None


def test_threads_share_a_manager():
    class Counted(LikeRMM):
        made = 0
        lock = threading.Lock()

        def initialize(self):
            type(self).made += 1

        def memalloc(self, size):
            with self.lock:
                return super().memalloc(size)

    DeviceBuffer.pieces.give_back = locked(DeviceBuffer.pieces.give_back, Counted.lock)
    cuda.set_memory_manager(Counted)
    wrong = []
    device = cuda.current_context().device

    def work(number):
        with device:
            for turn in range(50):
                array = cuda.to_device(np.full(turn + 1, number))
                if not (array.copy_to_host() == number).all():
                    wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Of the last arrays some wait for work that other threads had queued.
    cuda.synchronize()
    haulage.memory.stats()
    del DeviceBuffer.pieces.give_back
    assert (wrong, Counted.made) == ([], 1)
    assert DeviceBuffer.pieces.held == {}


def locked(function, lock):
    def call(*args):
        with lock:
            return function(*args)

    return call


def test_out_of_memory_of_the_driver_passes_through():
    class Driver(LikeRMM):
        def memalloc(self, size):
            raise OutOfMemory(f"no room for {size} bytes")

    chosen(Driver)
    with pytest.raises(DeviceError, match="no room for 32 bytes"):
        cuda.device_array(4)
