"""From what stands in `kernel[...]` and its kin to a `Configuration`."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from haulage._core.launches import has_plain_sizes
from haulage.checks import whole_number
from haulage.errors import LaunchError, LaunchTypeError, LimitError
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import ForeignHandle, is_foreign
from haulage.runtime.launch.loaded import Configuration, Dims, normalise_dims


def in_blocks(griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0) -> Configuration:
    """A grid of blocks, each size an int or up to three.

    Raises:
        LaunchError: something is no size, or no stream.
    """
    if type(sharedmem) is not int and (
        isinstance(sharedmem, (bool, np.bool_)) or not isinstance(sharedmem, (int, np.integer))
    ):
        raise LaunchError(f"dynamic shared bytes {sharedmem!r}: expected an int")
    if sharedmem < 0:
        raise LaunchError(f"dynamic shared bytes {sharedmem!r}: must not be negative")
    if isinstance(stream, Stream):
        pass
    elif _is_zero(stream):
        stream = 0
    elif is_foreign(stream):
        stream = stream if isinstance(stream, ForeignHandle) else ForeignHandle(stream)
    elif stream is not None:
        raise LaunchError(
            f"stream {stream!r}: expected a stream made by stream(), an object with "
            "__cuda_stream__, or 0"
        )
    sizes = (_sizes if has_plain_sizes((griddim, blockdim)) else _sizes.__wrapped__)(
        griddim, blockdim
    )
    return Configuration(*sizes, stream, int(sharedmem))


def _is_zero(stream: Any) -> bool:
    """Whether it is the number that stands for the default stream."""
    return isinstance(stream, (int, np.integer)) and not isinstance(stream, bool) and stream == 0


def key_in_stream(given: Any) -> tuple[Any, Any]:
    """By what `kernel[given]` is looked up: something that keeps no stream, or None; and the stream
    as `Configuration` has it."""
    if not has_plain_sizes(given) or len(given) > 4:
        return None, None
    if len(given) == 2:
        return given, 0
    grid, block, stream, shared = given if len(given) == 4 else (*given, 0)
    if type(shared) is not int:
        return None, None
    if isinstance(stream, Stream):
        return (grid, block, shared, stream._serial), stream
    if is_foreign(stream):
        taken = ForeignHandle(stream)
        return (grid, block, shared, None, taken.handle), taken
    return ((grid, block, shared), 0) if type(stream) is int and stream == 0 else (None, None)


@lru_cache(maxsize=256)
def _sizes(grid: Any, block: Any) -> tuple[Dims, Dims]:
    return normalise_dims(grid, "griddim"), normalise_dims(block, "blockdim")


def in_work_items(global_size: Any, local_size: Any = None, stream: Any = None) -> Configuration:
    """A range of work-items and the size of a group, as OpenCL counts.

    Without a local size, groups are the largest divisor of the first size up to 64.

    Raises:
        LaunchError: something is no size, or groups do not fill the range.
    """
    whole = normalise_dims(global_size, "global size")
    if local_size is None:
        local_size = next(size for size in range(64, 0, -1) if whole[0] % size == 0)
    local = normalise_dims(local_size, "local size")
    if any(total % size for total, size in zip(whole, local, strict=True)):
        raise LaunchError(
            f"global size {whole} is not a multiple of local size {local}; round it up and let "
            "the kernel leave out what is beyond the end"
        )
    groups = tuple(total // size for total, size in zip(whole, local, strict=True))
    return in_blocks(groups, local, stream)


def for_tasks(
    usual: int, ntasks: Any, block: Any, stream: Any, shared_bytes: Any
) -> Configuration | None:
    """At least `ntasks` threads in blocks of `block` (0: `usual`); None if there are no tasks.

    Raises:
        LaunchError: `ntasks` or `block` is no number of threads.
    """
    for what, number in (("tasks", ntasks), ("threads a block", block)):
        try:
            whole = whole_number(number, what)
        except TypeError:
            raise LaunchTypeError(
                f"forall: {what} {number!r}: expected an int, 0 or more"
            ) from None
        if whole < 0:
            task = "Can't create ForAll with negative task count" if what == "tasks" else what
            raise LaunchError(f"forall: {task}: {number}")
    threads = int(block) or usual
    blocks = -(-int(ntasks) // threads)
    return in_blocks(blocks, threads, stream, shared_bytes) if blocks else None


def check_hints(hints: dict[str, Any]) -> None:
    """Raise a ValueError for values of hints that no device takes, a TypeError for what is no
    number."""
    bounds = hints.get("launch_bounds")
    if isinstance(bounds, (tuple, list)) and not 1 <= len(bounds) <= 3:
        raise ValueError(
            f"Got {len(bounds)} launch bounds: {bounds}; expected 1 to 3: the most threads of a "
            "block, the fewest blocks of a multiprocessor, the most blocks of a cluster"
        )
    counts = bounds if isinstance(bounds, (tuple, list)) else (bounds,)
    for name, count in (
        *(("launch_bounds", each) for each in counts),
        ("max_registers", hints.get("max_registers")),
    ):
        if count is None:
            continue
        if whole_number(count, name) < 0:
            raise ValueError(f"{name} {count}: must not be negative")
    carveout = hints.get("shared_memory_carveout")
    if isinstance(carveout, str) and carveout.lower() not in ("default", "maxl1", "maxshared"):
        raise ValueError(
            f"Invalid carveout value: {carveout!r}; expected 'default', 'MaxL1' or 'MaxShared'"
        )
    if isinstance(carveout, int) and not -1 <= carveout <= 100:
        raise ValueError(
            f"shared_memory_carveout {carveout} must be between -1 and 100, in percent of the "
            "memory that shared arrays and the L1 cache have together; -1 is the device's choice"
        )


# CUDA's names for preferences, in percent.
_CARVEOUTS = {"default": -1, "maxl1": 0, "maxshared": 100}


def carveout(hints: dict[str, Any]) -> int | None:
    """The preferred size of shared memory, in percent of what it and the L1 cache have together; -1
    is the driver's choice, None says nothing."""
    given = hints.get("shared_memory_carveout")
    return _CARVEOUTS[given.lower()] if isinstance(given, str) else given


def bound(hints: dict[str, Any]) -> int:
    """The most threads of a block that `launch_bounds` allows; 0 if it says nothing of that.

    CUDA's launch bounds are that number, or a tuple that begins with it.
    """
    bounds = hints.get("launch_bounds")
    first: Any = bounds[0] if isinstance(bounds, (tuple, list)) and bounds else bounds
    return int(first) if hasattr(first, "__index__") else 0


def check_bound(configuration: Configuration, most: int) -> None:
    """Raise a LimitError if the block has more threads than `launch_bounds` allows, as on GPUs."""
    threads = math.prod(configuration.block)
    if most and threads > most:
        raise LimitError(
            f"a block of {configuration.block} has {threads} threads; launch_bounds of the "
            f"kernel allows at most {most}"
        )
