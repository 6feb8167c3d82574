"""`reduce` of ufuncs: the elements of an array combined in their order, share by share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from haulage.lib.ufuncs import source
from haulage.lib.ufuncs.launching import SIZE, Kernels, block_size, blocks, key, launch
from haulage.lib.ufuncs.operands import Array, new_array
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream_arguments import StreamLike

# Blocks of one pass at most, and elements for a block at least: a launch costs as much.
_MOST_BLOCKS, _LEAST = 256, 8192

# Results of a thread that do not wait for one another.
_RUNS = 8


def fold(
    x: Array,
    function: Any,
    dtypes: Sequence[np.dtype[Any]],
    converted: Sequence[bool],
    kernels: Kernels,
    most_threads: int,
    name: str,
    stream: StreamLike,
    place: Device,
) -> Array:
    """An array with one element: `function` of all elements of `x`, which has one or more.

    Args:
        function: of two elements.
        dtypes: to which its two arguments and its result are converted, where `converted` says so.
        most_threads: of a block.
        name: what messages call it.
    """
    threads = block_size(most_threads, place.properties.row_block)
    least = max(_LEAST // place.properties.row_block, 2 * _RUNS)
    while x.size > 1:
        share = max(blocks(x.size, threads * _MOST_BLOCKS), least)
        parts = blocks(x.size, share)
        out = new_array((parts,), x.dtype, "C", isinstance(x, DeviceNDArray), place, stream)
        keys = (SIZE, key(x, readonly=True), key(out, readonly=False))

        def make() -> Callable[..., Any]:
            conversions = {f"to{number}": dtype.type for number, dtype in enumerate(dtypes)}
            text = source.folded(_RUNS, converted)
            return source.function(text, function, conversions, name)

        kernel = kernels.get(keys, ("fold", *dtypes, *converted), make)
        grid = blocks(parts, threads)
        launch(kernel, grid, (threads,), stream, place, [np.uint64(share), x], [out])
        x = out
    return x
