"""The structures that Python and the emitted code share, each named here only."""

import struct
from collections.abc import Sequence

# What the code itself keeps: a cell of 8 bytes each, all 0 at first. Most are addresses of objects.
STATE = (
    # Constants.
    "none",
    "order_c",
    "stream_0",
    "one",
    "getframe",
    "array_type",
    "block_type",
    "give_back",
    # Which device is meant: see `runtime.devices.registry.current_device`.
    "in_context",
    "selected",
    "device_variable",
    "device_value",
    "device_of_value",
    # Where memory comes from: the variable, and the value with which it comes from pools.
    "memory_variable",
    "memory_value",
    "environment",
    # What collector passes put aside: two deques.
    "aside",
    "aside_handles",
    # Block objects without a block, by `next`, and how many; the blocks that are alive, by `next`.
    "shells",
    "shells_kept",
    "live",
    # The number of the last block.
    "generation",
    # The first of the watched names that does not matter when memory is given back, and their end.
    "end_for_free",
    "end_for_take",
)

# Behind them three tables. Names of modules, each of four cells: the module's dictionary, the keys
# of that at the time when the place of the value in it was looked for, that place, and the value
# that the name has while all is plain. First two names of the `Runtime`.
WATCHED = 16
OF_PROCESS, PROCESS_CHOICE, FIRST_PLAIN = 0, 1, 2
# Plans, by shape and dtype.
PLANS = 256
# Code objects of the program: an array that they ask for is theirs.
CODES = 256
# A plan or code object is at its place or one of the next ones; so many are looked at.
WAYS = 4

WATCHED_AT = 8 * len(STATE)
PLANS_AT = WATCHED_AT + 32 * WATCHED
CODES_AT = PLANS_AT + 8 * PLANS
STATE_BYTES = CODES_AT + 8 * CODES

# What a block of the native type has behind the slots of `Block`.
OF_BLOCK = ("plan", "code", "lasti", "born", "generation", "previous", "next")

# A plan is a tuple: these, then a value for each slot of a block, then one for each of an array.
# `numbers` are bytes; `cells` is the list of free addresses of the size class.
PLAN = ("numbers", "cells", "dtype", "device", "counters")

MOST_AXES = 8
LEVELS = 4
# The numbers of a plan: what the counters are changed by, the shape, the addresses of the counters.
NUMBERS = (
    "nbytes",
    "ndim",
    *(f"axis{axis}" for axis in range(MOST_AXES)),
    *(f"counter{level}" for level in range(LEVELS)),
)


def numbers(nbytes: int, shape: Sequence[int], counters: Sequence[int]) -> bytes:
    """The numbers of a plan; `counters` are addresses."""
    axes = [*shape, *[0] * (MOST_AXES - len(shape))]
    return struct.pack(f"={len(NUMBERS)}q", nbytes, len(shape), *axes, *counters)


def shape(numbers: bytes) -> tuple[int, ...]:
    """The shape in the numbers of a plan."""
    _, ndim, *axes = struct.unpack_from(f"={2 + MOST_AXES}q", numbers)
    return tuple(axes[:ndim])


def slot_of(shape: Sequence[int], dtype: object) -> int:
    """The first place for a plan in the table; the code's `find` does the same."""
    mixed = id(dtype) >> 4
    for axis in shape:
        mixed = (mixed * 31 + axis) % 2**64
    return (mixed ^ (mixed >> 8)) % PLANS


def place_of_code(code: object) -> int:
    """The first place for a code object in the table; the code's `is_known` does the same."""
    return (id(code) >> 6) % CODES
