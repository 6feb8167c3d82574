"""Memory managers of others: all memory goes through them, and comes back to them."""

import ctypes
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from haulage import cuda
from haulage.cuda.cudadrv import driver
from haulage.runtime import memory

pytestmark = pytest.mark.usefixtures("device")


class Counting(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    """Gives memory of its own, and writes down what is asked of it."""

    interface_version = 1

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked, self.live, self.freed, self.resets = [], {}, [], 0

    def initialize(self):
        self.asked.append("initialize")

    def memalloc(self, size):
        self.asked.append(("device", size))
        kept = memory.allocate_of_driver(self.context.device, size)
        self.live[kept.device_ptr] = kept

        def give_back(address=kept.device_ptr):
            self.freed.append(size)
            del self.live[address]

        pointer = ctypes.c_uint64(kept.device_ptr)
        return cuda.MemoryPointer(self.context, pointer, size, finalizer=give_back)

    def memhostalloc(self, size, mapped=False, portable=False, wc=False):
        self.asked.append(("mapped" if mapped else "pinned", size, portable, wc))
        return super().memhostalloc(size, mapped, portable, wc)

    def memallocmanaged(self, size, attach_global=True):
        self.asked.append(("managed", size, attach_global))
        return super().memallocmanaged(size, attach_global)

    def mempin(self, owner, pointer, size, mapped=False):
        self.asked.append(("pin", size))
        return super().mempin(owner, pointer, size, mapped)

    def get_memory_info(self):
        return cuda.MemoryInfo(free=3, total=4)

    def reset(self):
        self.resets += 1
        super().reset()


@pytest.fixture
def manager():
    cuda.set_memory_manager(Counting)
    yield cuda.current_context().memory_manager
    driver._memory_manager = None


def test_arrays_stand_on_memory_of_the_plug_in_and_give_it_back(manager):
    array = cuda.to_device(np.arange(6.0))
    assert manager.asked == ["initialize", ("device", 48)]
    assert array.device_pointer in manager.live
    np.testing.assert_array_equal(array[1:].copy_to_host(), np.arange(1, 6.0))
    view = array[2:]
    del array
    assert manager.freed == []
    np.testing.assert_array_equal(view.copy_to_host(), np.arange(2, 6.0))
    del view
    assert manager.freed == [48]
    assert manager.live == {}


def test_kernels_write_to_memory_of_the_plug_in(manager):
    @cuda.jit
    def count(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = i

    array = cuda.device_array(100, np.int64)
    count[4, 32](array)
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(100))
    assert ("device", 800) in manager.asked


def test_memory_of_every_kind_is_asked_of_the_plug_in(manager):
    pinned = cuda.pinned_array(4)
    mapped = cuda.mapped_array(5, portable=True, wc=True)
    managed = cuda.managed_array(6, attach_global=False)
    span = cuda.current_context().memalloc(7)
    assert manager.asked[1:] == [
        ("pinned", 32, False, False),
        ("mapped", 40, True, True),
        ("managed", 48, False),
        ("device", 7),
    ]
    assert span.size == 7
    for array in (pinned, mapped, managed):
        array[:] = 3
        assert cuda.to_device(array).copy_to_host().tolist() == [3] * array.size


def test_host_memory_is_pinned_by_the_plug_in(manager):
    host = np.arange(4.0)
    for _ in range(2):
        with cuda.pinned(host), pytest.raises(ValueError, match="pinned already"):
            cuda.pinned(host).__enter__()
    assert manager.asked[1:] == [("pin", 32)] * 2


def test_a_context_asks_the_plug_in_for_figures_and_handles(manager):
    assert cuda.current_context().get_memory_info() == (3, 4)
    array = cuda.to_device(np.arange(4.0))
    handle = array[1:].get_ipc_handle()
    assert (handle.handle.size, handle.handle.offset) == (24, 8)
    assert handle._ipc_handle is handle.handle


def test_close_tells_the_plug_in_and_makes_a_new_manager(manager):
    array = cuda.to_device(np.arange(4.0))
    cuda.current_context().reset()
    assert (manager.resets, manager.freed) == (1, [32])
    assert cuda.current_context().memory_manager is manager
    with pytest.raises(ValueError, match="given back"):
        array.copy_to_host()
    cuda.close()
    assert cuda.current_context().memory_manager is not manager


def test_what_a_plug_in_has_given_stays_its_own_when_another_is_chosen(manager):
    array = cuda.to_device(np.arange(4.0))
    driver._memory_manager = None
    other = cuda.to_device(np.arange(4.0))
    del array, other
    assert manager.freed == [32]


def test_nothing_is_given_back_inside_defer_cleanup(manager):
    pending = cuda.current_context().deallocations
    with cuda.defer_cleanup():
        before = len(pending)
        array = cuda.to_device(np.arange(4.0))
        del array
        assert len(pending) == before + 1
        assert pending.is_disabled
        pending.clear()
        assert manager.freed == []
    assert manager.freed == [32]
    assert not pending.is_disabled


def test_memory_is_given_back_at_once_without_batches():
    pending = cuda.current_context().deallocations
    pending.clear()
    for _ in range(100):
        cuda.to_device(np.arange(1000))
        assert len(pending) == 0


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (lambda c, n: object(), TypeError),
        (lambda c, n: cuda.MemoryPointer(c, 64, n - 1), ValueError),
    ],
)
def test_what_is_no_memory_or_too_small_is_refused(given, error):
    class Bad(Counting):
        def memalloc(self, size):
            return given(self.context, size)

    cuda.set_memory_manager(Bad)
    try:
        with pytest.raises(error, match="memory manager Bad gave"):
            cuda.device_array(4)
    finally:
        driver._memory_manager = None


def test_a_plug_in_of_another_version_is_refused():
    class Later(Counting):
        interface_version = 2

    with pytest.raises(RuntimeError, match="version 2 - version 1 required"):
        cuda.set_memory_manager(Later)
    assert driver._memory_manager is None


def in_a_process(program, folder, module):
    environment = {
        **os.environ,
        "NUMBA_CUDA_MEMORY_MANAGER": module,
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
    }
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_module_of_the_environment_gives_the_memory(tmp_path):
    (tmp_path / "plugged.py").write_text(
        textwrap.dedent("""
            from haulage.cuda.cudadrv.driver import NumbaCUDAMemoryManager

            class Plugged(NumbaCUDAMemoryManager):
                def memalloc(self, size):
                    print("asked for", size)
                    return super().memalloc(size)

            _numba_memory_manager = Plugged
        """)
    )
    program = "from haulage import cuda; assert cuda.to_device(b'abc').copy_to_host() == b'abc'"
    done = in_a_process(program, tmp_path, "plugged")
    assert (done.stdout, done.returncode) == ("asked for 3\n", 0), done.stderr
    done = in_a_process(program, tmp_path, "not_there")
    assert "RuntimeError: Failed to use memory manager from not_there" in done.stderr
