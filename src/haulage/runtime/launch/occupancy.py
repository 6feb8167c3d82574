"""How many blocks of a kernel fit a device at once, and which size of block fills it best."""

from collections.abc import Callable
from typing import Any

from haulage.checks import whole_number
from haulage.runtime.devices.device import Device
from haulage.runtime.launch.loaded import ANY_BLOCK

# Sizes of blocks are tried in steps of this many threads: a warp of the cuda vocabulary.
_STEP = 32


def active_blocks(device: Device, kernel: Any, threads: int, shared_bytes: int) -> int:
    """Blocks of that size which fit one multiprocessor at once; 0 if none does.

    Args:
        device: where the kernel is to run.
        kernel: a kernel with one signature, or one of its overloads.
        threads: threads of a block.
        shared_bytes: of dynamic shared memory for each block.

    Raises:
        TypeError: `kernel` is none.
        ValueError: it has no signature, or more than one.
    """
    limit = device.properties.max_threads_per_block
    threads = whole_number(threads, "threads of a block", 1)
    shared_bytes = whole_number(shared_bytes, "bytes of shared memory", 0)
    loaded = _overload(kernel).load(device, (min(threads, limit), 1, 1))
    device.activate()
    return device.backend.occupancy(loaded.function, threads, shared_bytes)


def best_block(
    device: Device,
    kernel: Any,
    shared_of: Callable[[int], int] | int,
    shared_bytes: int,
    limit: int,
) -> tuple[int, int]:
    """(blocks of a grid that fills the device, threads of a block) with most threads at once.

    Of sizes that are as good the largest is taken. The code is that of a block of the limit; where
    there is one for all sizes, it is that one, and blocks that its registers do not suffice for do
    not fit.

    Args:
        device, kernel: as for `active_blocks`.
        shared_of: gives the bytes of dynamic shared memory for a number of threads; 0: none that
            depends on it.
        shared_bytes: of dynamic shared memory besides.
        limit: most threads of a block; 0 for the device's own limit.

    Raises:
        TypeError, ValueError: as `active_blocks` does; or no size of block fits.
    """
    limit = whole_number(limit, "most threads of a block", 0)
    shared_bytes = whole_number(shared_bytes, "bytes of shared memory", 0)
    if not callable(shared_of):
        whole_number(shared_of, "bytes of shared memory for a number of threads", 0)
    most = device.properties.max_threads_per_block
    most = min(limit, most) if limit > 0 else most
    block = (most, 1, 1) if device.properties.code_per_block else ANY_BLOCK
    loaded = _overload(kernel).load(device, block)
    best, blocks = 0, 0
    for threads in (most, *range((most - 1) // _STEP * _STEP, 0, -_STEP)):
        needs = shared_bytes + (shared_of(threads) if callable(shared_of) else 0)
        device.activate()
        fitting = device.backend.occupancy(loaded.function, threads, needs)
        if fitting * threads > blocks * best:
            best, blocks = threads, fitting
    if not best:
        raise ValueError(f"no block of up to {most} threads fits {device} with that shared memory")
    return blocks * device.properties.multiprocessors, best


def _overload(kernel: Any) -> Any:
    overloads = getattr(kernel, "overloads", None)
    if isinstance(overloads, dict):
        if len(overloads) != 1:
            raise ValueError(
                f"{kernel!r} has {len(overloads)} signatures; give kernel.overloads[signature]"
            )
        (kernel,) = overloads.values()
    if not hasattr(kernel, "max_cooperative_grid_blocks"):
        raise TypeError(f"{kernel!r}: expected a kernel, or one of kernel.overloads")
    return kernel
