"""What the tests of other processes do there: functions that a child finds by their names."""

import numpy as np

import haulage
from haulage import cuda


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def doubled(array):
    """`array`, of one axis, after a kernel has doubled it."""
    double[(array.size + 255) // 256, 256](array)
    return array


def described(array):
    """The type, shape, dtype and sum of an array."""
    host = np.asarray(array)
    return type(array).__name__, host.shape, host.dtype.str, float(host.sum())


def copies_of(array):
    """How many copies it takes to double an array and look at its sum."""
    with haulage.transfers() as made:
        np.asarray(doubled(array)).sum()
    return made.count()


def put(queue, array):
    """Put the doubled array into a queue."""
    queue.put(doubled(array))


def fill_shared(name, size):
    """Double shared memory of `size` floats, where it is."""
    from multiprocessing import shared_memory

    shared = shared_memory.SharedMemory(name)
    host = np.ndarray(size, np.float64, shared.buf)
    doubled(host)
    cuda.synchronize()
    del host
    shared.close()


def failed(array):
    """Raise what a kernel on a closed array raises."""
    array.close()
    doubled(array)
