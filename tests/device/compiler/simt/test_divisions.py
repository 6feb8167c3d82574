"""Quotients and remainders of whole numbers, in each way that threads can be run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

KINDS = [np.int32, np.uint32, np.int64, np.uint64, np.int8, np.uint16]


@cuda.jit
def both(a, b, quotients, rests):
    i = cuda.grid(1)
    if i < a.size:
        quotients[i] = a[i] // b[i]
        rests[i] = a[i] % b[i]


@cuda.jit
def by_one(a, b, quotients, rests):
    i = cuda.grid(1)
    if i < a.size:
        quotients[i] = a[i] // b[0]
        rests[i] = a[i] % b[0]


def edges(kind):
    limits = np.iinfo(kind)
    near = [limits.min, limits.min + 1, limits.max - 1, limits.max, limits.max // 2]
    powers = [2**k + d for k in (7, 15, 24, 31, 32, 50, 51, 52, 53, 62) for d in (-1, 0, 1)]
    some = [0, 1, 2, 3, 5, 7, 10, 641, 1000003, 6700417, 3037000499, 4294967291]
    listed = [*near, *powers, *some]
    if limits.min:
        listed += [-number for number in (*powers, *some)]
    return [number for number in listed if limits.min <= number <= limits.max]


def divided(kernel, a, b):
    """What a kernel makes of a and b, without what NumPy does not define."""
    quotients, rests = cuda.device_array(len(a), a.dtype), cuda.device_array(len(a), a.dtype)
    kernel[-(-len(a) // 64), 64](cuda.to_device(a), cuda.to_device(b), quotients, rests)
    return quotients.copy_to_host(), rests.copy_to_host()


def expected(a, b):
    wide = [(int(x), int(y)) for x, y in zip(a, np.broadcast_to(b, a.shape), strict=True)]
    quotients = np.array([x // y if y else 0 for x, y in wide], object)
    rests = np.array([x % y if y else 0 for x, y in wide], object)
    return quotients.astype(a.dtype), rests.astype(a.dtype)


def defined(a, b):
    """Pairs whose quotient is a number of the type: not the least by -1."""
    limits = np.iinfo(a.dtype)
    return ~((a == limits.min) & (b.astype(object) == -1) & (limits.min < 0))


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_edges_is_divided_exactly(way, kind):
    known = np.array(edges(kind), kind)
    a, b = (each.ravel() for each in np.meshgrid(known, known))
    fits = defined(a, b)
    a, b = a[fits], b[fits]
    for made, wanted in zip(divided(both, a, b), expected(a, b), strict=True):
        assert np.array_equal(made, wanted)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_all_threads_divide_by_one_number(way, kind):
    known = np.array(edges(kind), kind)
    for divisor in (0, 1, 3, 1000, 2**31 - 1):
        b = np.array([divisor], kind)
        for made, wanted in zip(divided(by_one, known, b), expected(known, b), strict=True):
            assert np.array_equal(made, wanted)


@cuda.jit
def places(x, wide, high, wrapped):
    i = cuda.grid(1)
    if i < wide * high:
        row, column = i // wide, i % wide
        wrapped[row, column] = x[(row - 1) % high, (column + 1) % wide]


def test_rows_and_columns_come_from_one_index(way):
    x = np.arange(37 * 53).reshape(37, 53)
    wrapped = cuda.device_array_like(x)
    places[-(-x.size // 128), 128](cuda.to_device(x), 53, 37, wrapped)
    assert np.array_equal(wrapped.copy_to_host(), np.roll(x, (1, -1), (0, 1)))


@cuda.jit
def cells(seen, offset, deep, high, wide):
    i = cuda.grid(1) + offset
    z, rest = i // (high * wide), i % (high * wide)
    y, x = i // wide % high, i % wide
    if i < seen.size:
        seen[i] = 1_000_000 * z + 10_000 * (rest // wide) + 100 * y + x


@pytest.mark.parametrize("wide", [1, 31, 32, 33, 50, 128, 5000])
@pytest.mark.parametrize("offset", [0, 7])
def test_planes_rows_and_columns_come_from_one_index(way, wide, offset):
    seen, high = cuda.to_device(np.zeros(3000, np.int64)), 3
    cells[-(-3000 // 160), 160](seen, offset, 4, high, wide)
    i = np.arange(3000)
    expected = 1_000_000 * (i // (high * wide)) + 10_000 * (i % (high * wide) // wide)
    expected += 100 * (i // wide % high) + i % wide
    assert np.array_equal(seen.copy_to_host(), np.where(i < offset, 0, expected))


@cuda.jit
def behind_a_barrier(x, widths, seen):
    t, y = cuda.threadIdx.x, cuda.threadIdx.y
    wide = widths[0]
    room = cuda.shared.array((2, 96), np.int64)
    room[y, t] = x[y, t]
    cuda.syncthreads()
    i = cuda.blockIdx.x * cuda.blockDim.x + t + 5 * y
    if i % wide > 0:
        seen[cuda.blockIdx.x, y, t] = room[y, 95 - t] + 1000 * (i // wide) + i % wide


@pytest.mark.parametrize("wide", [0, 3, 32, 47, 64, 1000])
def test_rows_are_as_wide_as_an_array_says_behind_a_barrier(way, wide):
    x = np.arange(2 * 96).reshape(2, 96)
    seen = cuda.to_device(np.zeros((3, 2, 96), np.int64))
    behind_a_barrier[3, (96, 2)](cuda.to_device(x), cuda.to_device(np.array([wide])), seen)
    block, y, t = np.indices(seen.shape)
    i = block * 96 + t + 5 * y
    row, column = (i // wide, i % wide) if wide else (0 * i, 0 * i)
    expected = np.where(column > 0, x[y, 95 - t] + 1000 * row + column, 0)
    assert np.array_equal(seen.copy_to_host(), expected)


@cuda.jit
def divisor(a, b, o):
    i = cuda.grid(1)
    if i < a.size:
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        o[i] = x


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_greatest_common_divisors(way, kind):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, np.iinfo(kind).max, 200, kind) for _ in range(2))
    o = cuda.device_array_like(a)
    divisor[4, 64](cuda.to_device(a), cuda.to_device(b), o)
    assert np.array_equal(o.copy_to_host(), np.gcd(a, b))


_SIGNED = st.integers(-(2**63), 2**63 - 1)
_SHAPED = _SIGNED | st.builds(
    lambda size, sign, less: max(-(2**63), min(2**63 - 1, sign * 2**size + less)),
    st.integers(0, 63),
    st.sampled_from([-1, 1]),
    st.integers(-3, 3),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(_SHAPED, _SHAPED, st.integers(-2, 2)), min_size=1, max_size=64))
def test_multiples_of_the_divisor_and_their_neighbours_are_divided_exactly(triples):
    pairs = []
    for number, by, less in triples:
        near = by * (number >> max(1, by.bit_length())) + less
        pairs += [(number, by), (max(-(2**63), min(2**63 - 1, near)), by)]
    a, b = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    fits = defined(a, b)
    a, b = a[fits], b[fits]
    if len(a):
        for made, wanted in zip(divided(both, a, b), expected(a, b), strict=True):
            assert np.array_equal(made, wanted)


@cuda.jit
def checkerboard(a, out, up):
    i, j = cuda.grid(2)
    h, w = out.shape
    if i < h and j < w and (i + j) % 2 == up % 2:
        out[i, j] = a[(i - up + h) % h, j] + (i - 40) // up


@pytest.mark.parametrize("block", [(16, 16), (4, 64), (64, 4)])
@pytest.mark.parametrize("up", [1, 2, -3])
def test_divisions_that_neighbours_share_where_some_of_them_divide(block, up):
    a = np.arange(900.0).reshape(30, 30)
    out = np.full((30, 30), -1.0)
    checkerboard[(8, 8), block](a, out, up)
    i, j = np.indices(out.shape)
    expected = np.where((i + j) % 2 == up % 2, a[(i - up + 30) % 30, j] + (i - 40) // up, -1)
    np.testing.assert_array_equal(out, expected)
