"""What the CPU device tells of itself: its name, its limits, CUDA's attributes of devices."""

import functools
import os

from haulage.backends.attributes import NONE
from haulage.backends.base import Properties
from haulage.backends.cpu_driver import processor

# Of a block: threads, and bytes of shared memory.
MAX_THREADS, MAX_SHARED = 1024, 227 << 10


@functools.cache
def properties() -> Properties:
    """Of this computer's processor, as `Backend.properties` gives them."""
    threads = processor.threads()
    return Properties(
        name=processor.name(),
        compute_capability=(9, 0),
        multiprocessors=threads,
        warp_size=32,
        max_threads_per_block=MAX_THREADS,
        max_block=(1024, 1024, 64),
        max_grid=(2**31 - 1, 65535, 65535),
        max_static_shared=48 << 10,
        max_dynamic_shared=MAX_SHARED,
        total_memory=processor.memory()[1],
        architecture=processor.architecture(),
        code_per_block=True,
        code_in_versions=True,
        host_memory_is_device_memory=True,
        # Threads of a block go through a loop in step: rows side by side, against the caches.
        row_block=1,
        uuid=processor.uuid(),
        # The first CUDA that has all of compute capability 9.0.
        runtime=(12, 0),
        floats=("float16",),
        figures=_figures(),
        details={"cores": str(os.cpu_count() or 1), "threads": str(threads)},
    )


def _figures() -> dict[str, int]:
    """CUDA's attributes of devices, by their names without `CU_DEVICE_ATTRIBUTE_`."""
    figures = {
        # Memory is the host's, wherever it came from.
        "INTEGRATED": 1,
        "CAN_MAP_HOST_MEMORY": 1,
        "UNIFIED_ADDRESSING": 1,
        "MANAGED_MEMORY": 1,
        "CONCURRENT_MANAGED_ACCESS": 1,
        "PAGEABLE_MEMORY_ACCESS": 1,
        "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES": 1,
        "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 1,
        "HOST_NATIVE_ATOMIC_SUPPORTED": 1,
        # Streams run at the same time, copies beside kernels; none goes before another.
        "CONCURRENT_KERNELS": 1,
        "COOPERATIVE_LAUNCH": 1,
        "GPU_OVERLAP": 1,
        # Two copies at once, as GPUs have it that copy to and fro beside a kernel.
        "ASYNC_ENGINE_COUNT": 2,
        "STREAM_PRIORITIES_SUPPORTED": 0,
        "COMPUTE_PREEMPTION_SUPPORTED": 1,
        "KERNEL_EXEC_TIMEOUT": 0,
        "COMPUTE_MODE": 0,
        "TCC_DRIVER": 0,
        "IS_MULTI_GPU_BOARD": 0,
        # A worker runs one block at a time. Numba and the driver spell the first one differently.
        "MAX_THREADS_PER_MULTI_PROCESSOR": MAX_THREADS,
        "MAX_THREADS_PER_MULTIPROCESSOR": MAX_THREADS,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": 1,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": MAX_SHARED,
        # No limits here; those of compute capability 9.0, which programs that are portable keep to.
        "TOTAL_CONSTANT_MEMORY": 64 << 10,
        "MAX_REGISTERS_PER_BLOCK": 64 << 10,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": 64 << 10,
        "MAX_PITCH": 2**31 - 1,
        "GLOBAL_L1_CACHE_SUPPORTED": 1,
        "LOCAL_L1_CACHE_SUPPORTED": 1,
        # The vector registers hold twice as many floats of half the size.
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
    }
    none = dict.fromkeys(NONE, 0)
    known = {"CLOCK_RATE": processor.clock_khz(), "L2_CACHE_SIZE": processor.cache_bytes(2)}
    return none | figures | {name: figure for name, figure in known.items() if figure is not None}
