"""Random numbers in kernels: xoroshiro128+, one generator per thread.

Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", and their
reference code at https://prng.di.unimi.it (xoroshiro128+ with the constants of 2016, splitmix64).
"""

from haulage.lib.random.draws import (
    TWO_PI_FLOAT32,
    TWO_PI_FLOAT64,
    init_xoroshiro128p_state,
    rotl,
    uint64_to_unit_float32,
    uint64_to_unit_float64,
    xoroshiro128p_jump,
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)
from haulage.lib.random.states import (
    __getattr__ as __getattr__,
)
from haulage.lib.random.states import (
    create_xoroshiro128p_states,
    init_xoroshiro128p_states,
    init_xoroshiro128p_states_cpu,
    xoroshiro128p_dtype,
)

__all__ = [
    "TWO_PI_FLOAT32",
    "TWO_PI_FLOAT64",
    "create_xoroshiro128p_states",
    "init_xoroshiro128p_state",
    "init_xoroshiro128p_states",
    "init_xoroshiro128p_states_cpu",
    "rotl",
    "uint64_to_unit_float32",
    "uint64_to_unit_float64",
    "xoroshiro128p_dtype",
    "xoroshiro128p_jump",
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]
