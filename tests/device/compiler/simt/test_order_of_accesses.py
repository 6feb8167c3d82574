"""A thread sees its own accesses of memory in their order, whatever is widened around them."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]
WAYS = ("regions", "scalar", "coroutines")
T = np.arange(256)


@cuda.jit
def through_two_names(x, y, out):
    t = cuda.threadIdx.x
    x[2 * t] = t + 100
    out[2 * t] = y[2 * t]
    x[2 * t + 1] = t + 200
    out[2 * t + 1] = y[2 * t + 1]


def test_an_array_that_is_given_twice(way):
    x, out = cuda.to_device(np.zeros(512, np.int32)), cuda.device_array(512, np.int32)
    through_two_names[1, 256](x, x, out)
    np.testing.assert_array_equal(out.copy_to_host()[::2], T + 100)
    np.testing.assert_array_equal(out.copy_to_host()[1::2], T + 200)


@cuda.jit
def own_array(index, out):
    t = cuda.threadIdx.x
    own = cuda.local.array(4, np.int32)
    k = index[t]
    own[0] = t + 100
    own[2] = 7
    own[3] = k
    out[0, t] = own[k]
    own[1] = t + 200
    out[1, t] = own[k]
    own[k] = 5
    out[2, t] = own[1 - k] + own[3] + own[2]


def test_an_array_of_the_threads_own_with_an_index_that_was_read(way):
    k = T % 2
    out = cuda.device_array((3, 256), np.int32)
    own_array[1, 256](cuda.to_device(k), out)
    first, second, third = out.copy_to_host()
    np.testing.assert_array_equal(first[k == 0], T[k == 0] + 100)
    np.testing.assert_array_equal(second, np.where(k == 0, 100, 200) + T)
    np.testing.assert_array_equal(third, np.where(k == 1, 100, 200) + T + 7 + k)


@cuda.jit
def parts_of_numbers(z, where, out):
    room = cuda.shared.array(256, np.complex64)
    t = cuda.threadIdx.x
    room.real[t] = t
    out[t] = room.real[where[t]]
    room.imag[t] = -t
    z[t] = room[t]


def test_parts_of_complex_numbers_in_shared_memory(way):
    z, out = cuda.device_array(256, np.complex64), cuda.device_array(256, np.float32)
    parts_of_numbers[1, 256](z, cuda.to_device(T), out)
    np.testing.assert_array_equal(out.copy_to_host(), T)
    np.testing.assert_array_equal(z.copy_to_host(), T - 1j * T)


ELEMENT = np.dtype([("n", "i4"), ("x", "f4")], align=True)


@cuda.jit
def fields_of_records(given, also, where):
    i = cuda.grid(1)
    given[i].n = i
    also[i].x += also[where[i]].n
    given[i].n = 2 * i
    given[i].x += also[where[i]].n


def test_fields_of_records_under_two_names(way):
    records = cuda.to_device(np.zeros(256, ELEMENT))
    fields_of_records[4, 64](records, records, cuda.to_device(T))
    np.testing.assert_array_equal(records.copy_to_host()["x"], 3 * T)
    np.testing.assert_array_equal(records.copy_to_host()["n"], 2 * T)


@cuda.jit
def swapped_rooms(x, turns, out):
    one = cuda.shared.array(256, np.int64)
    other = cuda.shared.array(256, np.int64)
    t = cuda.threadIdx.x
    one[t] = x[t]
    other[t] = 0
    now, following = one, other
    for k in range(turns):
        cuda.syncthreads()
        one[t] = 10 * k
        seen = now[t]
        one[t] = 10 * k + 1
        out[t] += seen + following[t]
        cuda.syncthreads()
        now, following = following, now
    out[t] += 1000 * now[t]


def test_shared_arrays_whose_names_change_places_between_barriers(way):
    out = cuda.to_device(np.zeros(256, np.int64))
    swapped_rooms[1, 256](cuda.to_device(T), 5, out)
    one, other, expected = T.copy(), 0 * T, 0 * T
    now, following = one, other
    for k in range(5):
        one[:] = 10 * k
        seen = now.copy()
        one[:] = 10 * k + 1
        expected += seen + following
        now, following = following, now
    np.testing.assert_array_equal(out.copy_to_host(), expected + 1000 * now)
