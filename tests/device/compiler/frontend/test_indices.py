"""Indices out of bounds in kernels with debug=True or boundscheck=True are IndexErrors that name
the thread, the block, the array, the axis, the index and the size."""

import re

import numba
import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import KernelError

pytestmark = pytest.mark.usefixtures("device")

DEBUG = {"debug": True, "opt": False}
CONSTANTS = np.arange(5.0)
RECORD = np.dtype([("x", np.float32, (3,)), ("y", np.int32)])


def message(launch):
    with pytest.raises(IndexError) as failed:
        launch()
    assert isinstance(failed.value, KernelError)
    cuda.synchronize()
    return str(failed.value)


def fails(launch, index, axis, array, size):
    told = message(launch)
    ending = f": index {index} is out of bounds for axis {axis} of array {array!r} with size {size}"
    assert told.endswith(ending), told
    return told


def element(a, n):
    a[n] = 1


def added(a, n):
    a[n] += 1


def of_atomics(a, n):
    cuda.atomic.max(a, n, 1)


def of_a_view(a, n):
    b = a[:]
    b[n] = 1


def of_a_global(a, n):
    a[0] = CONSTANTS[n] + CONSTANTS[n + 5]


@pytest.mark.parametrize(
    ("function", "array", "size"),
    [
        (element, "a", 10),
        (added, "a", 10),
        (of_atomics, "a", 10),
        (of_a_view, "b", 10),
        (of_a_global, "CONSTANTS", 5),
    ],
)
def test_each_index_of_an_axis_is_right_and_the_next_ones_are_not(function, array, size):
    kernel = cuda.jit(**DEBUG)(function)
    a = cuda.to_device(np.zeros(10))
    inside = -size if function is not of_a_global else -5
    fails(lambda: kernel[1, 4](a, size), size, 0, array, size)
    fails(lambda: kernel[1, 4](a, inside - 1), inside - 1, 0, array, size)
    fails(lambda: kernel[1, 4](a, 10**12), 10**12, 0, array, size)
    for right in {inside, -1} if function is of_a_global else (-size, -1, 0, size - 1):
        kernel[1, 4](a, right)


def test_thread_and_block_of_the_first_that_failed_and_no_store(way):
    @cuda.jit(**DEBUG)
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = x[i] + 1

    x, y = cuda.to_device(np.arange(100.0)), cuda.to_device(np.zeros(200))
    told = fails(lambda: kernel[4, 32](x, y), 100, 0, "x", 100)
    assert "tid=[4, 0, 0] ctaid=[3, 0, 0]" in told
    assert re.search(r"In function 'kernel', file .*test_indices\.py, line \d+, tid", told)
    stored = y.copy_to_host()
    np.testing.assert_array_equal(stored[:96], np.arange(96) + 1)
    assert not stored[100:].any()


def test_arrays_of_the_block_and_of_the_thread_in_a_kernel_with_barriers():
    @cuda.jit(**DEBUG)
    def shared(a, n):
        room = cuda.shared.array((16, 2), np.float64)
        t = cuda.threadIdx.x
        room[t, 0] = t
        cuda.syncthreads()
        a[t] = room[15 - t, n]

    @cuda.jit(**DEBUG)
    def local(a, n):
        own = cuda.local.array(4, np.float64)
        for i in range(n):
            own[i] = i
        a[cuda.threadIdx.x] = own[1]

    a = cuda.to_device(np.zeros(32))
    fails(lambda: shared[1, 16](a, 2), 2, 1, "room", 2)
    assert "tid=[16, 0, 0]" in fails(lambda: shared[1, 32](a, 0), 16, 0, "room", 16)
    shared[1, 16](a, -1)
    fails(lambda: local[1, 16](a, 5), 4, 0, "own", 4)
    local[1, 16](a, 4)


def test_all_that_an_index_can_be():
    @cuda.jit(**DEBUG)
    def kernel(a, r, i, j):
        if i == 0:
            a[1:, ..., j] = 2
        if i == 1:
            a[j][0] = 1
        if i == 2:
            r[0].x[j] = 1
        if i == 3:
            r[j]["y"] = 1
        if i == 4:
            a.flat[j] = 1
        if i == 5:
            place = (0, j)
            a[place] = 1
        if i == 6:
            a.T[j, 1] = 1
        if i == 7:
            a[np.uint64(j), 0] = 1
        if i == 8:
            cuda.atomic.add(a, (1, j), 1)

    a, r = cuda.to_device(np.zeros((3, 4))), cuda.to_device(np.zeros(2, RECORD))
    expected = [
        (4, 1, "a", 4),
        (3, 0, "a", 3),
        (3, 0, "r[...].x", 3),
        (2, 0, "r", 2),
        (12, 0, "a.flat", 12),
        (4, 1, "a", 4),
        (4, 0, "a.T", 4),
        (3, 0, "a", 3),
        (4, 1, "a", 4),
    ]
    for case, told in enumerate(expected):
        index = told[0]
        fails(lambda case=case, index=index: kernel[1, 1](a, r, case, index), *told)
        kernel[1, 1](a, r, case, index - 1)


@pytest.mark.parametrize("options", [DEBUG, {"boundscheck": True}], ids=["debug", "boundscheck"])
def test_functions_that_such_a_kernel_calls_are_checked_and_in_others_they_are_not(options):
    @cuda.jit(device=True)
    def inner(values, place):
        return values[place]

    def outer(values):
        return inner(values, 2)

    def body(a, check):
        if check:
            a[0] = outer(a)
        else:
            a[0] = 7

    a = cuda.to_device(np.zeros(2))
    plain, checked = cuda.jit(body), cuda.jit(**options)(body)
    plain[1, 1](a, False)

    def launch():
        checked[1, 1](a, True)
        cuda.synchronize()

    told = fails(launch, 2, 0, "values", 2)
    assert "In function 'inner'" in told
    assert "tid=[0, 0, 0] ctaid=[0, 0, 0]" in told
    checked[1, 1](a, False)
    assert a[0] == 7


def test_words_of_roc_and_functions_with_a_check_of_their_own():
    @roc.jit(**DEBUG)
    def group(a):
        a[roc.get_global_id(0)] = 1

    @cuda.jit(device=True, boundscheck=True)
    def inner(values, place):
        return values[place]

    @cuda.jit
    def outer(a):
        a[0] = inner(a, -3)

    fails(lambda: group[1, 8](roc.to_device(np.zeros(6))), 6, 0, "a", 6)

    def launch():
        outer[1, 1](cuda.to_device(np.zeros(2)))
        cuda.synchronize()

    assert "index -3 is out of bounds for axis 0 of array 'values' with size 2" in message(launch)


def test_arrays_of_an_unrolled_tuple_are_checked():
    @cuda.jit(boundscheck=True)
    def kernel(arrays, n):
        for array in numba.literal_unroll(arrays):
            array[n] = 1

    arrays = cuda.to_device(np.zeros(3)), cuda.to_device(np.zeros(2, np.int32))

    def launch():
        kernel[1, 1](arrays, 2)
        cuda.synchronize()

    fails(launch, 2, 0, "array", 2)
    assert arrays[0][2] == 1


def test_compile_changes_what_it_is_told_and_nothing_else():
    def checks(kernel, **options):
        code = haulage.compile(kernel, "void(float64[::1], int64)", **options)
        return "haulage_message" in code.stages["clean"]

    plain, bounds = cuda.jit(element), cuda.jit(boundscheck=True)(element)
    debug = cuda.jit(**DEBUG)(element)
    assert [checks(each) for each in (plain, bounds, debug)] == [False, True, True]
    assert [checks(each, debug=False) for each in (plain, bounds, debug)] == [False, True, False]
    assert checks(plain, boundscheck=True)
    assert not checks(bounds, boundscheck=False)


def test_boundscheck_waits_for_the_next_call_that_waits():
    kernel = cuda.jit(boundscheck=True)(element)
    a = cuda.to_device(np.zeros(10))
    kernel[1, 4](a, 10)
    fails(cuda.synchronize, 10, 0, "a", 10)


@pytest.mark.parametrize(
    ("settings", "checks"),
    [
        ({"HAULAGE_BOUNDSCHECK": "1"}, (True, True, True)),
        ({"NUMBA_BOUNDSCHECK": "1"}, (True, True, True)),
        ({"HAULAGE_BOUNDSCHECK": "0"}, (False, False, False)),
        ({"NUMBA_BOUNDSCHECK": "0", "HAULAGE_BOUNDSCHECK": "1"}, (True, True, True)),
        ({}, (False, True, True)),
    ],
)
def test_the_environment_says_for_all_kernels_whether_indices_are_checked(
    monkeypatch, settings, checks
):
    for name, text in settings.items():
        monkeypatch.setenv(name, text)
    a = cuda.to_device(np.zeros(10))
    for options, is_checked in zip(
        ({}, {"boundscheck": True}, {"debug": True}), checks, strict=True
    ):
        kernel = cuda.jit(**options)(element)

        def launch(kernel=kernel):
            # Within the memory, if it is not checked.
            kernel[1, 4](a[:5], 7)
            cuda.synchronize()

        if is_checked:
            fails(launch, 7, 0, "a", 5)
        else:
            launch()
