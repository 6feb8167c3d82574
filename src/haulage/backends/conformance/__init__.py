"""What every back end must do, as small checks: functions of (back end, programs).

    for check in checks():
        check(backend, programs)

Each asserts one behaviour of `Backend` on its active device. Kernels come from `Programs`, as code
for the device under test, with arguments packed as `Backend.launch` says. Let g and b be the linear
numbers of the block in its grid and of the thread in its block (x fastest), and i = g * threads
of a block + b.

    where  (u32 *out)                             out[12 i ...] = blockIdx, threadIdx, gridDim,
                                                  blockDim (x, y, z of each)
    types  (i64 *ints, f64 *floats,               i = 0: ints = the eight integers and floats = the
            i8, u8, i16, u16, i32, u32,           two floats, each widened; u64 keeps its bits
            i64, u64, f32, f64)
    scale  (f32 *x, i64 n, f32 factor)            x[i] *= factor where i < n
    chain  (i64 *x, i64 a, i64 b, i64 rounds)     i = 0: after `rounds` steps of a loop that takes
                                                  about a nanosecond each, x[0] = a x[0] + b
    stop   (i64 *x, i64 fault)                    x[g] = 1; then b = 0 of g = 1 stops with `fault`
"""

from haulage.backends.conformance import code, graphs, memory, room, streams
from haulage.backends.conformance.room import KERNELS, Check, Programs

__all__ = ["KERNELS", "Check", "Programs", "checks"]


def checks() -> list[Check]:
    """All checks; each has a name and a docstring."""
    modules = (memory, streams, code, graphs)
    return [c for m in modules for c in room.registered if c.__module__ == m.__name__]
