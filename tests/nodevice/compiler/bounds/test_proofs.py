"""Which bounds checks of a kernel are proven when it is launched, and by which tests."""

import re

import numpy as np
import pytest
from numba import float32, int32, int64, void

import haulage
from haulage import cuda
from haulage.cli.bench.kernels.blocks import reduce_tree, scan

ROW, TABLE, PLACES = float32[::1], float32[:, ::1], int32[::1]


def checks_left(function, *kinds, block=256):
    """How many messages of threads that stop are left in the code for launches that pass."""
    code = haulage.compile(function, void(*kinds), block=block, boundscheck=True)
    _, name, text = code.stages["bounds"].partition(" @haulage.kernel(")
    assert name
    return text.count("call void @haulage_message(")


def guarded(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


def all_threads(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


def interior(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        y[i] = x[i - 1] + x[i + 1]


def counted(x, y, n):
    i = cuda.grid(1)
    for k in range(n):
        y[i] += x[k]


def by_twos(x, y, n):
    for k in range(1, n, 2):
        y[0] += x[k] + x[k - 1]


def downwards(x, y, n):
    for k in range(n - 1, -1, -1):
        y[0] += x[k]


def grid_stride(x, y):
    for k in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[k] = x[k]


def grid_stride_while(x, y):
    k = cuda.grid(1)
    while k < x.size:
        y[k] = x[k]
        k += cuda.gridsize(1)


def shifted_in(x, y):
    room = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < 256:
        if t >= step:
            y[t] += room[t - step]
        step *= 2


def sorted_in(x, y):
    room = cuda.shared.array(256, np.float32)
    t, k = cuda.threadIdx.x, 2
    room[t] = x[t]
    while k <= 256:
        j = k // 2
        while j > 0:
            cuda.syncthreads()
            if t ^ j > t and room[t] > room[t ^ j]:
                room[t], room[t ^ j] = room[t ^ j], room[t]
            j //= 2
        k *= 2
    y[t] = room[t]


def reversed_in(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[x.size - 1 - i] = x[i]


def remainders(x, y, n):
    i = cuda.grid(1)
    if n > 0:
        y[i % 8] = x[i // 2]


def clamped(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[max(i - 3, 0)] + x[min(i + 3, x.size - 1)]


def from_the_end(x, y):
    y[-1] = x[-2]


def rows(a, b):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        b[i, j] = a[i, j]


def divided(a, b):
    i = cuda.grid(1)
    if i < a.shape[0] * a.shape[1]:
        b[i // 16, i % 16] = 1


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        *((each, (ROW, ROW)) for each in (guarded, all_threads, interior, grid_stride)),
        *((each, (ROW, ROW)) for each in (grid_stride_while, reduce_tree, scan, shifted_in)),
        *((each, (ROW, ROW)) for each in (reversed_in, clamped, from_the_end, sorted_in)),
        *((each, (ROW, ROW, int64)) for each in (counted, by_twos, downwards, remainders)),
        (counted, (ROW, ROW, int32)),
        (rows, (TABLE, TABLE)),
        (divided, (TABLE, TABLE)),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_no_check_is_left(function, kinds):
    assert checks_left(function, *kinds) == 0


def test_the_tests_are_passed_by_launches_that_are_right():
    """Not only is nothing left in the code: it is this code that runs."""
    code = haulage.compile(scan, void(ROW, ROW), block=256, boundscheck=True)
    tests = code.stages["bounds"].partition(" @haulage.kernel(")[0]
    sizes = {"%arg.x.5.0": 512, "%arg.out.5.0": 512}
    told = _made(tests, sizes)
    assert told == "proven"
    assert _made(tests, {**sizes, "%arg.x.5.0": 511}) == "checked"


def _made(text, sizes):
    """Where the entry goes on for arrays of some sizes and a grid of one block."""
    values = dict.fromkeys(re.findall(r"(%gridDim\.\w) = load", text), 1) | sizes
    for line in text.splitlines():
        found = re.match(r"  (%\S+) = (\w+) (?:sge )?\w+ (\S+?),? (?:to )?(\S+)$", line)
        if not found or found[1] in values:
            continue
        name, opcode, *parts = found.groups()
        one, other = (values.get(part, _number(part)) for part in parts)
        if opcode in _EVALUATED and one is not None:
            values[name] = _EVALUATED[opcode](one, other)
    return "proven" if values[re.search(r"br i1 (%\S+),", text)[1]] else "checked"


def _number(text):
    return {"true": 1, "false": 0}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else None)


_EVALUATED = {
    "sext": lambda one, _: one,
    "add": lambda one, other: one + other,
    "mul": lambda one, other: one * other,
    "and": lambda one, other: one & other,
    "or": lambda one, other: one | other,
    "icmp": lambda one, other: int(one >= other),
}


def test_checks_that_lead_to_one_place_are_dropped_one_by_one(device):
    """Two ways to one check, of which one is proven."""

    @cuda.jit(boundscheck=True)
    def kernel(x, rows, columns, out):
        n = cuda.grid(1)
        if n < x.size:
            row, column = n // x.shape[1], n % x.shape[1]
            out[row, column] = x[row, column] * rows[row] + columns[column]

    x = np.arange(120, dtype=np.float32).reshape(10, 12)
    rows, columns = np.arange(10, dtype=np.float32), np.ones(12, np.float32)
    given = [cuda.to_device(each) for each in (x, rows, columns)]
    out = cuda.to_device(np.zeros_like(x))
    kernel[1, 128](*given, out)
    np.testing.assert_array_equal(out.copy_to_host(), x * rows[:, None] + columns)
    kernel[1, 128](given[0], given[1][:9], given[2], out)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 of array 'rows'"):
        cuda.synchronize()


def test_checks_of_indices_that_come_from_memory_are_left():
    def gather(x, places, y):
        i = cuda.grid(1)
        if i < places.size:
            y[i] = x[places[i]]

    assert checks_left(gather, ROW, PLACES, ROW) == 1


def test_what_was_asked_of_an_index_from_memory_counts():
    def gather(x, places, y):
        i = cuda.grid(1)
        if i < places.size:
            place = places[i]
            if 0 <= place < x.size:
                y[i] = x[place]

    assert checks_left(gather, ROW, PLACES, ROW) == 0


def test_numbers_that_are_cut_are_no_proof(device):
    @cuda.jit(boundscheck=True)
    def kernel(x, n):
        x[np.int32(n)] = 1

    x = cuda.to_device(np.zeros(3))
    kernel[1, 1](x, (1 << 32) + 1)
    np.testing.assert_array_equal(x.copy_to_host(), (0, 1, 0))
    kernel[1, 1](x, (1 << 32) + 5)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        cuda.synchronize()


def test_there_is_nothing_to_prove_without_checks():
    code = haulage.compile(guarded, void(ROW, ROW), block=64)
    assert "bounds" not in code.stages


def test_a_launch_that_fails_the_tests_makes_its_checks(device):
    kernel = cuda.jit(void(ROW, ROW), boundscheck=True)(guarded)
    x, y = (cuda.to_device(np.arange(n, dtype=np.float32)) for n in (100, 90))
    kernel[1, 128](x, y)
    with pytest.raises(IndexError, match=r"index 9\d is out of bounds .* 'y' with size 90"):
        cuda.synchronize()
    # Nor is anything wrong with the threads in front.
    kernel[1, 64](x, y)
    np.testing.assert_array_equal(y.copy_to_host()[:64], np.arange(64))


def test_barriers_are_no_obstacle_to_regions():
    checked = haulage.compile(reduce_tree, void(ROW, ROW), block=256, boundscheck=True).metadata
    assert checked["strategy"] == "regions"
    plain = haulage.compile(reduce_tree, void(ROW, ROW), block=256).metadata
    assert checked["regions"] == plain["regions"]
