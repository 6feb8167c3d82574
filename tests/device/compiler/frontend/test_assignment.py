"""Arrays and parts of them assigned to parts of arrays, as in NumPy."""

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import KernelError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")

SHAPE = (4, 3)


def moved(a, b):
    a[1:] = a[:-1]
    b[:-1, 1:] = b[1:, :-1]


def reversed_moved(a, b):
    a[::-1][1:] = a[::-1][:-1]
    b[0] = b[:3, 0]
    b[:, 1:] = b[:, :1]


def broadcast(a, b):
    b[:] = b[2]
    b[1:3] = a[::-1][:3]
    a[...] = b[:1, 0]


def converted(a, b):
    room = cuda.local.array(SHAPE, np.int16)
    room[:] = b
    room[3, ::2] = a[1:3]
    room[0] += 1
    b[::-1] = room


def of_other_dimensions(a, b):
    a[1:4] = b[1:2, :]
    b[None, 1] = b[3]
    b[2, 2:][...] = a[3:].reshape((1, 1, 1))


def empty(a, b):
    c = cuda.local.array((), np.float64)
    c[...] = 5
    c[()] = b[0, 0]
    a[4:] = b[0, 3:]
    b[:, :0] = b[:, 3:]


@pytest.mark.parametrize(
    "function", [moved, reversed_moved, broadcast, converted, of_other_dimensions, empty]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_arrays_are_assigned_as_in_numpy(function, order, monkeypatch):
    arrays = [np.arange(4.0) + 0.5, np.asarray(np.arange(12.0).reshape(SHAPE) ** 2, order=order)]
    wanted = [array.copy(order="K") for array in arrays]
    cuda.jit(function)[1, 1](*arrays)
    monkeypatch.setattr(cuda.local, "array", np.zeros)
    function(*wanted)
    for array, expected in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_records_and_shared_arrays_are_assigned(way):
    @cuda.jit
    def swap_halves(rows):
        room = cuda.shared.array(4, rows.dtype)
        if cuda.threadIdx.x == 0:
            room[:2] = rows[2:]
            room[2:] = rows[:2]
        cuda.syncthreads()
        rows[cuda.threadIdx.x] = room[cuda.threadIdx.x]
        cuda.syncthreads()
        rows[0].pair[:] = rows[3].pair[::-1]

    rows = np.zeros(4, [("number", "i2"), ("pair", "f4", (2,))])
    rows["number"] = range(4)
    rows["pair"] = np.arange(8).reshape(4, 2)
    swap_halves[1, 4](rows)
    assert rows["number"].tolist() == [2, 3, 0, 1]
    assert rows["pair"].tolist() == [[3, 2], [6, 7], [0, 1], [2, 3]]


def test_a_source_of_another_shape_is_a_fault(way):
    @cuda.jit
    def kernel(a, b):
        a[:] = b

    for shape in ((3,), (5,), (2, 4), (0,)):
        a = np.ones(4)
        with pytest.raises(ValueError, match="cannot be broadcast to the shape of the part"):
            kernel[1, 1](a, np.zeros(shape))
        assert (a == 1).all()


def test_an_overlap_that_needs_room_is_a_fault_at_its_line(way):
    @cuda.jit
    def kernel(a):
        a[:] = a[::-1]

    a = np.arange(4.0)
    with pytest.raises(KernelError, match=r"a cuda.local.array first in .*test_assignment.py:\d+"):
        kernel[1, 1](a)
    assert a.tolist() == [0, 1, 2, 3]
