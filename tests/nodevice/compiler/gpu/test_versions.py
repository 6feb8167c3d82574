"""Kernels with a second version: which of the two runs, by where their arguments lie in memory.

The PTX is executed with loads of memory that stays as it is made to give zeros, so that what comes
out tells which version has run.
"""

import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import haulage
from doubles.ptx import runtime
from doubles.ptx.loading import run
from haulage import cuda

pytestmark = pytest.mark.skipif(
    runtime.compiler() is None, reason="the reader of PTX needs a C compiler"
)


def doubled(x, out):
    for k in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        out[k] = 2 * x[k]


def fours(x, out):
    i = cuda.grid(1)
    for k in range(4):
        out[4 * i + k] = 2 * x[4 * i + k]


def rows(x, out):
    i = cuda.grid(1)
    for k in range(4):
        out[i, k] = 2 * x[i, k]


def compiled(kernel, signature):
    return haulage.compile(kernel, signature, "sm_90").asm


def blind(text):
    """PTX in which loads of memory that stays as it is give zeros."""
    changed, count = re.subn(
        r"ld\.global\.nc\.(b32|v4\.b32|v2\.b32) *\t?(\{[^}]*\}|%\w+), \[[^\]]*\];",
        lambda found: " ".join(f"mov.b32 {name}, 0;" for name in re.findall(r"%\w+", found[2])),
        text,
    )
    assert count
    assert "ld.global.nc" not in changed
    return changed


def packed(*arrays):
    """The arguments of a launch, as kernels take arrays."""
    return b"".join(
        struct.pack(
            f"<QQqqQ{2 * array.ndim}q",
            *(0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides),
        )
        for array in arrays
    )


def takes_second(text, x, out, threads=2):
    """Whether the version for arrays that lie apart has run; the results are those of threads one
    after the other."""
    name = re.search(r"\.entry (\w+)", text)[1]
    before = x.copy()
    run(text, name, (1, 1, 1), (threads, 1, 1), 0, packed(x, out))
    if not out.size:
        return None
    if not out.any():
        return True
    assert np.array_equal(out, 2 * before) or np.shares_memory(x, out)
    return False


@pytest.fixture(scope="module")
def texts():
    return {
        "C": blind(compiled(doubled, "void(float32[::1], float32[::1])")),
        "A": blind(compiled(doubled, "void(float32[:], float32[:])")),
        "fours": blind(compiled(fours, "void(float32[::1], float32[::1])")),
        "rows": blind(compiled(rows, "void(float32[:,::1], float32[:,::1])")),
    }


def room(count, offset=0):
    """Ones at an address that is `offset` elements behind a multiple of 64."""
    raw = np.ones(4 * (count + offset) + 64, np.uint8)
    start = -raw.ctypes.data % 64 + 4 * offset
    array = raw[start : start + 4 * count].view(np.float32)
    array[...] = 1
    return array


def test_arrays_that_lie_apart_take_the_second_version(texts):
    memory = room(64)
    for kind in "CA":
        memory[...] = 1
        assert takes_second(texts[kind], memory[:32], memory[32:])
        memory[...] = 1
        assert takes_second(texts[kind], memory[32:], memory[:32])


def test_one_array_given_twice_takes_the_first(texts):
    for kind in "CA":
        memory = room(32)
        assert takes_second(texts[kind], memory, memory) is False
        assert (memory == 2).all()


def test_a_thread_sees_what_it_wrote_before_where_arrays_overlap(texts):
    for kind in "CA":
        memory = room(9)
        assert takes_second(texts[kind], memory[:-1], memory[1:], threads=1) is False
        assert memory.tolist() == [2**k for k in range(9)]


def test_neighbours_are_accessed_at_once_only_from_multiples_of_16_bytes_on(texts):
    assert takes_second(texts["fours"], room(8), room(8))
    for x, out in ((1, 0), (0, 1), (2, 2), (3, 1)):
        assert takes_second(texts["fours"], room(8, x), room(8, out)) is False
    assert takes_second(texts["rows"], room(8).reshape(2, 4), room(8).reshape(2, 4))
    for columns in (5, 6, 7):
        x, out = (room(2 * columns).reshape(2, columns) for _ in range(2))
        text = texts["rows"]
        run(text, "rows", (1, 1, 1), (2, 1, 1), 0, packed(x, out))
        assert (out[:, :4] == 2).all()


slices = st.builds(
    slice,
    st.one_of(st.none(), st.integers(-40, 40)),
    st.one_of(st.none(), st.integers(-40, 40)),
    st.sampled_from([None, 1, 2, 3, -1, -2, -3]),
)


@settings(max_examples=150, deadline=None)
@given(slices, slices)
def test_arrays_with_an_element_in_common_never_take_the_second_version(texts, first, second):
    memory = room(40)
    x, out = memory[first], memory[second]
    count = min(x.size, out.size)
    x, out = x[:count], out[:count]
    taken = takes_second(texts["A"], x, out)
    if count:
        assert not (taken and np.shares_memory(x, out))
        assert taken or any(
            low < high
            for low, high in [
                (
                    max(np.lib.array_utils.byte_bounds(each)[0] for each in (x, out)),
                    min(np.lib.array_utils.byte_bounds(each)[1] for each in (x, out)),
                )
            ]
        )
