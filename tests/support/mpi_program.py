"""A program of two MPI processes: arrays on the CPU device are the buffers of messages."""

import numpy as np
import pytest
from mpi4py import MPI

import haulage
from haulage import SmartArray, cuda

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
assert size == 2, "mpiexec -n 2"


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def address(buffer):
    return MPI.buffer.frombuffer(buffer).address


def zeros(kind, shape, dtype="f8"):
    return (
        cuda.to_device(np.zeros(shape, dtype))
        if kind == "device"
        else SmartArray(np.zeros(shape, dtype))
    )


def of(kind, host):
    return cuda.to_device(host) if kind == "device" else SmartArray(host)


def same(array, expected):
    np.testing.assert_array_equal(np.asarray(array), expected)


# The buffer is the memory of the array itself.
there = cuda.to_device(np.arange(6.0))
assert address(there) == there.device_pointer
smart = SmartArray(np.arange(6.0))
assert address(smart) == smart.get().__array_interface__["data"][0]

for kind in ("device", "SmartArray"):
    for dtype in ("f8", "f4", "i8", "i4", "c16", "?", "u1"):
        host = np.arange(12).astype(dtype)
        mine, theirs = of(kind, host + rank if dtype != "?" else host), zeros(kind, 12, dtype)
        with haulage.assert_no_transfers():
            if rank == 0:
                comm.Send(mine, dest=1, tag=1)
            else:
                comm.Recv(theirs, source=0, tag=1)
        if rank == 1:
            same(theirs, host)

    # A kernel before, in a stream that nobody has waited for, and one after.
    mine, total = of(kind, np.full(1000, rank + 1.0)), zeros(kind, 1000)
    stream = cuda.stream()
    double[4, 256, stream](mine)
    comm.Allreduce(mine, total)
    same(total, np.full(1000, 6.0))
    double[4, 256](total)
    same(total, np.full(1000, 12.0))
    comm.Allreduce(MPI.IN_PLACE, total)
    same(total, np.full(1000, 24.0))

    # Pieces, and messages that are waited for later.
    array = of(kind, np.arange(20.0) + 100 * rank)
    requests = [
        comm.Isend(array[:5], dest=1 - rank, tag=2),
        comm.Irecv(array[10:15], source=1 - rank, tag=2),
    ]
    MPI.Request.Waitall(requests)
    del requests
    double[1, 32](array)
    expected = np.arange(20.0) + 100 * rank
    expected[10:15] = np.arange(5.0) + 100 * (1 - rank)
    same(array, 2 * expected)

    gathered = zeros(kind, (2, 3))
    comm.Allgather(of(kind, np.full(3, float(rank))), gathered)
    same(gathered, [[0, 0, 0], [1, 1, 1]])

    # As objects they are pickled.
    got = comm.bcast(of(kind, np.arange(4.0)) if rank == 0 else None, root=0)
    assert type(got) is type(mine)
    same(got, [0, 1, 2, 3])

total = zeros("device", 6)
with haulage.assert_no_transfers():
    comm.Allreduce(there, total)
same(total, 2 * np.arange(6.0))
messages = total

# Mapped and managed arrays are NumPy's, which nothing waits for; their device views are not.
for make in (cuda.mapped_array, cuda.managed_array):
    mapped = make(1_000_000)
    mapped[...] = 1
    assert address(mapped) == mapped.device_pointer
    # Before the launches: what is done in the default stream waits for those of others.
    total, stream = cuda.to_device(np.zeros(1_000_000)), cuda.stream()
    for _ in range(20):
        double[4000, 256, stream](mapped)
    comm.Allreduce(mapped.device_view(), total)
    same(total, np.full(1_000_000, 2.0**21))
    double[4000, 256, stream](mapped)
    stream.synchronize()
    comm.Allreduce(mapped, total)
    same(total, np.full(1_000_000, 2.0**22))

with pytest.raises(BufferError, match="contiguous"):
    comm.Allreduce(MPI.IN_PLACE, cuda.to_device(np.arange(6.0))[::2])
readonly = cuda.to_device(np.zeros(3))
readonly.readonly = True
with pytest.raises(BufferError, match="not writable"):
    comm.Allreduce(MPI.IN_PLACE, readonly)
closed = cuda.to_device(np.arange(6.0))
closed.close()
with pytest.raises(ValueError, match="given back"):
    comm.Allreduce(closed, messages)
# One write, as lines of two processes can run into each other.
print("done\n", end="", flush=True)
