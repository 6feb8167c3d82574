"""What kernels call: the generator's steps, and numbers drawn from it.

Each function takes `states`, an array with one axis of dtype `xoroshiro128p_dtype` anywhere in a
kernel's memory, and the `index` of one generator in it. Two threads must not use one generator at a
time. Bits are those of `numba.cuda.random`, in kernels of both vocabularies.
"""

import math
from typing import Any

import numpy as np

from haulage.kernel import cuda_jit
from haulage.lib.random.jumps import JUMP

TWO_PI_FLOAT32 = np.float32(2 * math.pi)
TWO_PI_FLOAT64 = np.float64(2 * math.pi)

_JUMP_WORDS = tuple(np.uint64(JUMP >> shift & 0xFFFF_FFFF_FFFF_FFFF) for shift in (0, 64))


@cuda_jit(device=True)
def rotl(x: Any, k: Any) -> Any:
    """`x` with its 64 bits rotated to the left by `k`, 0 < k < 64; uint64."""
    bits = np.uint64(x)
    places = np.uint64(k)
    return (bits << places) | (bits >> (np.uint64(64) - places))


@cuda_jit(device=True)
def init_xoroshiro128p_state(states: Any, index: Any, seed: Any) -> None:
    """Set a generator to the first state of `seed`, an int taken modulo 2**64, by SplitMix64.

    Small seeds so lead to bits as mixed as those of large ones.
    """
    z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    state = states[index]
    state["s0"] = z
    state["s1"] = z


@cuda_jit(device=True)
def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """The generator's next number, any uint64; the generator moves on by one step."""
    state = states[index]
    s0 = state["s0"]
    s1 = state["s1"]
    mixed = s1 ^ s0
    state["s0"] = rotl(s0, 55) ^ mixed ^ (mixed << np.uint64(14))
    state["s1"] = rotl(mixed, 36)
    return s0 + s1


@cuda_jit(device=True)
def xoroshiro128p_jump(states: Any, index: Any) -> None:
    """Move a generator on by 2**64 steps."""
    s0 = np.uint64(0)
    s1 = np.uint64(0)
    for word in _JUMP_WORDS:
        for place in range(64):
            if word & (np.uint64(1) << np.uint64(place)):
                s0 ^= states[index]["s0"]
                s1 ^= states[index]["s1"]
            xoroshiro128p_next(states, index)
    states[index]["s0"] = s0
    states[index]["s1"] = s1


@cuda_jit(device=True)
def uint64_to_unit_float64(x: Any) -> Any:
    """The upper 53 bits of `x` as a multiple of 2**-53; a float64, 0 <= result < 1."""
    return (np.uint64(x) >> np.uint64(11)) * np.float64(2.0**-53)


@cuda_jit(device=True)
def uint64_to_unit_float32(x: Any) -> Any:
    """`uint64_to_unit_float64(x)`, rounded to float32: it is 1 for one `x` in 2**25."""
    return np.float32(uint64_to_unit_float64(x))


@cuda_jit(device=True)
def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """A float32, evenly distributed from 0 to 1; the generator moves on by one step.

    As in Numba 1 itself is drawn too, once in 2**25 times, because that is what numbers just below
    it are rounded to.
    """
    return uint64_to_unit_float32(xoroshiro128p_next(states, index))


@cuda_jit(device=True)
def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """A float64, evenly distributed, 0 <= result < 1; the generator moves on by one step."""
    return uint64_to_unit_float64(xoroshiro128p_next(states, index))


@cuda_jit(device=True)
def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """A float32, normally distributed with mean 0 and deviation 1, by Box and Muller's transform.

    The generator moves on by two steps.
    """
    u = xoroshiro128p_uniform_float32(states, index)
    v = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(np.float32(-2) * math.log(u)) * math.cos(TWO_PI_FLOAT32 * v)


@cuda_jit(device=True)
def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """A float64, normally distributed with mean 0 and deviation 1, by Box and Muller's transform.

    The generator moves on by two steps. As in Numba the two numbers that go into it are float32,
    so that results are coarser than float64 can be.
    """
    u = xoroshiro128p_uniform_float32(states, index)
    v = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(np.float64(-2) * math.log(u)) * math.cos(TWO_PI_FLOAT64 * v)
