"""Many generators, each 2**64 steps behind the one before, at the price of a few look-ups each.

A step of xoroshiro128+ maps the 128 bits of a state linearly over GF(2), and so do any number of
steps. Such a map is kept as 16 tables, one for each byte of a state, of what the 256 values of the
byte contribute; the state that it leads to is their exclusive or. Applying a map of 2**k jumps to
its own tables' generators gives the map of 2**(k+1) jumps.
"""

import functools
from typing import Any

import numpy as np

_Words = np.ndarray[Any, np.dtype[np.uint64]]
_Map = np.ndarray[Any, np.dtype[np.complex128]]

# As a number, bit i of it: whether the state after i steps takes part in the state after 2**64.
JUMP = 0xD86B048B86AA9922_BEAC0467EBA5FACB

_MASK = 0xFFFF_FFFF_FFFF_FFFF

# 64 KiB of states, the size of a map's tables: both stay in a core's cache.
_BLOCK_BITS = 12


def first_state(seed: int) -> _Words:
    """The state of the generator of `seed`, by SplitMix64: shape (2,), both words the same."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return np.array([z ^ z >> 31] * 2, np.uint64)


def fill(states: _Words, seed: int, start: int) -> None:
    """Write states `start`, `start + 1`, ... of the generators of `seed`.

    Args:
        states: shape (n, 2), C-contiguous.
        seed: 0 <= seed < 2**64.
        start: how many jumps the first state is behind the one of the seed, 0 <= start < 2**64.
    """
    if not len(states):
        return
    first = first_state(seed)[None]
    for power in range(start.bit_length()):
        if start >> power & 1:
            first = _jumped(first, _tables(power))
    states[:1] = first
    done, power = 1, 0
    while done < len(states):
        count = min(done, 1 << power, len(states) - done)
        states[done : done + count] = _jumped(states[done - (1 << power) :][:count], _tables(power))
        done += count
        power = min(power + 1, _BLOCK_BITS)


def _jumped(states: _Words, tables: _Map) -> _Words:
    """What a map makes of states, shape (n, 2)."""
    places = states.view(np.uint8).reshape(-1, 16).T.astype(np.intp)
    result = tables[0].take(places[0])
    part = np.empty_like(result)
    words, part_words = result.view(np.uint64), part.view(np.uint64)
    for table, place in zip(tables[1:], places[1:], strict=True):
        table.take(place, out=part, mode="wrap")
        words ^= part_words
    return words.reshape(-1, 2)


@functools.cache
def _tables(power: int) -> _Map:
    """The map of 2**power jumps; shape (16, 256).

    A state is an element of 16 bytes, so that it is taken from the table at once. complex128 is
    NumPy's fastest such dtype to take; nothing is calculated with it.
    """
    if power:
        before = _tables(power - 1)
        images = _jumped(_basis(), before)
        images = _jumped(images, before)
    else:
        images = _jump(_basis())
    tables = np.zeros((16, 256, 2), np.uint64)
    for bit, image in enumerate(images.reshape(16, 8, 2).transpose(1, 0, 2)):
        tables[:, 1 << bit : 2 << bit] = tables[:, : 1 << bit] ^ image[:, None]
    return tables.view(np.complex128)[..., 0]


def _basis() -> _Words:
    """The 128 states with one bit each, bits of the lower bytes first; shape (128, 2)."""
    bits = np.packbits(np.eye(128, dtype=np.uint8), axis=1, bitorder="little")
    return bits.view(np.uint64)


def _jump(states: _Words) -> _Words:
    """States of shape (n, 2), each moved on by 2**64 steps, worked out by 128 of them."""
    s0, s1 = states.T.copy()
    result = np.zeros_like(states)
    for step in range(128):
        if JUMP >> step & 1:
            result[:, 0] ^= s0
            result[:, 1] ^= s1
        s1 ^= s0
        s0 = _rotated(s0, 55) ^ s1 ^ (s1 << np.uint64(14))
        s1 = _rotated(s1, 36)
    return result


def _rotated(x: _Words, places: int) -> _Words:
    return (x << np.uint64(places)) | (x >> np.uint64(64 - places))
