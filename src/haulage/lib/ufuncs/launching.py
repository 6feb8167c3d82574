"""Kernels of ufuncs: compiled once for each kind of arguments, and started."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from haulage import forks
from haulage.checks import whole_number
from haulage.kernel import Kernel, Vocabulary, advice, jit
from haulage.kernel.configuration import in_blocks
from haulage.lib.ufuncs.operands import is_array
from haulage.runtime.arrays import keys
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream_arguments import StreamLike
from haulage.runtime.launch.hints import In, Out
from haulage.runtime.launch.kinds import key_of
from haulage.runtime.launch.placement import in_place

_THREADS = 256

# The keys of counts and of sizes among a kernel's keys.
COUNT: keys.Key = (keys.SCALAR, np.dtype(np.int64))
SIZE: keys.Key = (keys.SCALAR, np.dtype(np.uint64))


class Kernels:
    """The kernels of one ufunc, by what they were made for; `cache`: kept on disk as well."""

    def __init__(self, vocabulary: Vocabulary, cache: bool = False) -> None:
        self.vocabulary = vocabulary
        self.cache = cache
        self._made: dict[Hashable, Kernel] = {}
        self._lock = forks.lock()

    def get(self, keys: tuple[keys.Key, ...], kind: Hashable, make: Callable[[], Any]) -> Kernel:
        """The kernel of a `kind` for arguments with `keys`, of the Python function `make()`."""
        kernel = self._made.get((kind, keys))
        if kernel is None:
            with self._lock:
                kernel = self._made.get((kind, keys))
                if kernel is None:
                    from haulage import numba_bridge

                    signature = tuple(numba_bridge.numba_type(key) for key in keys)
                    kernel = jit(self.vocabulary, signature, cache=self.cache)(make())
                    self._made[kind, keys] = kernel
        return kernel


def sizes_key(count: int) -> keys.Key:
    """The key of a tuple of `count` sizes."""
    return (keys.TUPLE, (SIZE,) * count, None)


def key(view: Any, *, readonly: bool) -> keys.Key:
    """The key that a kernel is compiled with for an argument: only C order is told apart."""
    what, dtype, *rest = key_of(view)
    if what != keys.ARRAY:
        return (what, dtype)
    axes, layout, _, aligned = rest
    # Host arrays whose elements are not aligned are copied by the launch.
    return (what, dtype, axes, "C" if layout == "C" else "A", readonly, aligned or _on_host(view))


def launch(
    kernel: Kernel,
    grid: int,
    block: tuple[int, ...],
    stream: StreamLike,
    place: Device,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    copy_inputs: bool = False,
) -> None:
    """Start a kernel with inputs and outputs as its keys.

    Host arrays among the inputs go to the device only, and outputs come back only.
    """
    if copy_inputs or not in_place(place):
        inputs = [In(value) if _on_host(value) else value for value in inputs]
        outputs = [Out(value) if _on_host(value) else value for value in outputs]
    configuration = in_blocks(grid, block, stream)
    advice.of_few_blocks(configuration)
    kernel.launch(configuration, (*inputs, *outputs))


def block_size(most: int, usual: int = _THREADS) -> int:
    """Threads of a block where a ufunc's `max_blocksize` is `most`."""
    return min(usual, most)


def checked_block_size(most: Any) -> int:
    """`most` as an int of at least 1.

    Raises:
        TypeError, ValueError: it is no such int.
    """
    return whole_number(most, "max_blocksize", 1)


def blocks(elements: int, size: int) -> int:
    """Blocks of `size` threads for that many elements."""
    return -(-elements // size)


def _on_host(value: Any) -> bool:
    return is_array(value) and not isinstance(value, DeviceNDArray)
