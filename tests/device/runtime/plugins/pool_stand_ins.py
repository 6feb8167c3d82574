"""Stand-ins for the pools of RMM and CuPy, with the few words of theirs that plug-ins use.

Both cut what they give out of large pieces of the driver's memory, as the real ones do. The
plug-ins in this file ask them in the way of the plug-ins for numba.cuda that RMM has, and that is
shown for CuPy.
"""

import ctypes
from contextlib import contextmanager

from haulage import cuda
from haulage.cuda.cudadrv.driver import device_extents, driver

_PIECE = 1 << 20


class Pieces:
    """Cuts memory out of pieces of 1 MiB, first fit; `held` is what is not given back."""

    def __init__(self):
        self.pieces, self.free, self.held = [], [], {}

    def take(self, nbytes):
        need = max(256, -(-nbytes // 256) * 256)
        device = cuda.current_context().device
        for place, (start, size, of) in enumerate(self.free):
            if size >= need and of is device:
                self.free[place] = (start + need, size - need, of)
                break
        else:
            piece = ctypes.c_uint64()
            driver.cuMemAlloc(ctypes.byref(piece), max(need, _PIECE))
            self.pieces.append(piece.value)
            start = piece.value
            self.free.append((start + need, max(need, _PIECE) - need, device))
        self.held[start] = need, device
        return start

    def give_back(self, start):
        self.free.insert(0, (start, *self.held.pop(start)))

    def empty(self):
        if not self.held:
            for piece in self.pieces:
                driver.cuMemFree(piece)
            self.pieces, self.free = [], []


class DeviceBuffer:
    """RMM's: memory by its size, given back when it dies."""

    pieces = Pieces()

    def __init__(self, *, size):
        self.ptr = self.pieces.take(size)
        self.size = size

    def __del__(self):
        self.pieces.give_back(self.ptr)


class PooledMemory:
    """What CuPy's `MemoryPool.malloc` gives."""

    def __init__(self, pool, nbytes):
        self.pool, self.ptr = pool, pool.pieces.take(nbytes)

    def __del__(self):
        self.pool.pieces.give_back(self.ptr)


class MemoryPool:
    """CuPy's."""

    def __init__(self):
        self.pieces = Pieces()

    def malloc(self, nbytes):
        return PooledMemory(self, nbytes)

    def free_bytes(self):
        return sum(size for _, size, _ in self.pieces.free)

    def total_bytes(self):
        return self.free_bytes() + sum(size for size, _ in self.pieces.held.values())

    def free_all_blocks(self):
        self.pieces.empty()


default_pool = MemoryPool()


class LikeRMM(cuda.HostOnlyCUDAMemoryManager):
    """Keeps the buffers in `self.allocations`, which the parent has; makes its own handles."""

    def initialize(self):
        pass

    def memalloc(self, size):
        buffer = DeviceBuffer(size=size)
        address = ctypes.c_uint64(int(buffer.ptr))
        self.allocations[address.value] = buffer
        forget = forgetting(address.value, self.allocations)
        return cuda.MemoryPointer(self.context, address, size, finalizer=forget)

    def get_ipc_handle(self, memory):
        start, _ = device_extents(memory)
        handle = (ctypes.c_byte * 64)()
        driver.cuIpcGetMemHandle(ctypes.byref(handle), start)
        identity = cuda.current_context().device.get_device_identity()
        offset = memory.handle.value - start
        return cuda.IpcHandle(memory, handle, memory.size, identity, offset=offset)

    def get_memory_info(self):
        raise NotImplementedError

    @property
    def interface_version(self):
        return 1


def forgetting(address, allocations):
    def finalizer():
        if allocations:
            del allocations[address]

    return finalizer


class LikeCuPy(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    """Keeps the pool's memory in a dict of its own; all parents' methods are called."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._allocations = {}
        self._pool = None
        self.deferred = 0

    def initialize(self):
        super().initialize()
        self._pool = default_pool

    def memalloc(self, nbytes):
        given = self._pool.malloc(nbytes)
        self._allocations[given.ptr] = given

        def finalizer(address=given.ptr, allocations=self._allocations):
            allocations.pop(address)

        address = ctypes.c_uint64(int(given.ptr))
        return cuda.MemoryPointer(cuda.current_context(), address, nbytes, finalizer=finalizer)

    def get_memory_info(self):
        return cuda.MemoryInfo(free=self._pool.free_bytes(), total=self._pool.total_bytes())

    def reset(self):
        super().reset()
        if self._pool:
            self._pool.free_all_blocks()

    @contextmanager
    def defer_cleanup(self):
        with super().defer_cleanup():
            self.deferred += 1
            yield

    @property
    def interface_version(self):
        return 1
