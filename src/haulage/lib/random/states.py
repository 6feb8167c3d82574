"""The host's side of random numbers: arrays of generators."""

import math
import operator
from typing import Any

import numpy as np

from haulage import api
from haulage.lib.random import jumps
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.buffers.coherent import is_coherent
from haulage.runtime.devices.stream_arguments import StreamLike

xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)


def create_xoroshiro128p_states(
    n: int, seed: float, subsequence_start: int = 0, stream: StreamLike = 0
) -> DeviceNDArray:
    """A new device array of `n` generators for kernels, all of one seed.

    Each generator begins 2**64 steps behind the one before, so that their numbers do not overlap.
    They are the same, bit for bit, on each device, and the same as those of Numba.

    Args:
        n: how many, 0 or more.
        seed: -2**63 to 2**64 - 1, taken modulo 2**64; of a float its whole part, as of
            `time.time()`.
        subsequence_start: the place of the first generator in the sequence of all generators of
            the seed, 0 to 2**64 - 1; `create(n, seed, k)` are the last n of `create(k + n, seed)`.
        stream: which the array is bound to, and in which it is written.

    Returns:
        Shape (n,), dtype `xoroshiro128p_dtype`.

    Raises:
        TypeError: `n` or `subsequence_start` is no int, or `seed` is no finite number.
        ValueError: one of them is out of its range.
        OutOfMemory: the device has no room.
    """
    count = _int("n", n, 0, 2**63 - 1)
    values = _checked(seed, subsequence_start)
    states = api.device_array(count, xoroshiro128p_dtype, stream=stream)
    states.copy_to_device(_filled(count, *values), stream)
    return states


def init_xoroshiro128p_states(
    states: Any,
    seed: float,
    subsequence_start: int = 0,
    stream: StreamLike = 0,
) -> None:
    """Set the generators of an array anew, as `create_xoroshiro128p_states` makes them.

    Args:
        states: a device array, a mapped or managed one or a SmartArray, with one axis and dtype
            `xoroshiro128p_dtype`; gaps between the elements are no matter.
        seed, subsequence_start: as for `create_xoroshiro128p_states`.
        stream: in which they are written.

    Raises:
        TypeError: `states` is no such array, `seed` no finite number or `subsequence_start` no int.
        ValueError: `seed` or `subsequence_start` is out of its range; `states` is read-only.
        DeviceMismatch: `states` and `stream` are of different devices.
    """
    if not (isinstance(states, DeviceNDArray | HostVisibleNDArray) or is_coherent(states)):
        raise TypeError(f"random states: expected a device array; got {type(states).__name__}")
    _check_states(states)
    values = _checked(seed, subsequence_start)
    api.to_device(_filled(states.shape[0], *values), stream, to=states)


def init_xoroshiro128p_states_cpu(
    states: np.ndarray, seed: float, subsequence_start: int = 0
) -> None:
    """`init_xoroshiro128p_states` for a NumPy array or a SmartArray; no device takes part.

    Raises:
        TypeError: `states` is no such array with one axis and dtype `xoroshiro128p_dtype`, or
            `seed` is no finite number or `subsequence_start` no int.
        ValueError: `seed` or `subsequence_start` is out of its range; `states` is read-only.
    """
    if not (isinstance(states, np.ndarray) or is_coherent(states)):
        raise TypeError(f"random states: expected a NumPy array; got {type(states).__name__}")
    _check_states(states)
    states[...] = _filled(len(states), *_checked(seed, subsequence_start))


def _filled(count: int, seed: int, start: int) -> np.ndarray:
    states = np.empty(count, xoroshiro128p_dtype)
    jumps.fill(states.view(np.uint64).reshape(count, 2), seed, start)
    return states


def _check_states(states: Any) -> None:
    if states.ndim != 1 or states.dtype != xoroshiro128p_dtype:
        raise TypeError(
            f"random states: an array of shape {states.shape} and dtype {states.dtype}; expected "
            "one axis and xoroshiro128p_dtype, as create_xoroshiro128p_states makes them"
        )


def _checked(seed: Any, subsequence_start: Any) -> tuple[int, int]:
    whole = seed
    if isinstance(seed, float | np.floating) and math.isfinite(seed):
        whole = int(seed)
    chosen = _int("seed", whole, -(2**63), 2**64 - 1)
    return chosen % 2**64, _int("subsequence_start", subsequence_start, 0, 2**64 - 1)


def _int(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"random states: {name}={value!r}; expected an int") from None
    if not least <= number <= most:
        raise ValueError(f"random states: {name}={number}; expected {least} to {most}")
    return number


def __getattr__(name: str) -> Any:
    """`xoroshiro128p_type`, Numba's type of a state: made when asked for, as it takes Numba."""
    if name == "xoroshiro128p_type":
        from haulage.numba_bridge import SCALAR, numba_type

        return numba_type((SCALAR, xoroshiro128p_dtype))
    raise AttributeError(f"the random numbers of Haulage have no {name!r}")
