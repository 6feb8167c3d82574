"""Arrays of the device that kernels use as globals and closure variables."""

import gc

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import CompileError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device", "way")]

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")


def test_a_kernel_reads_and_writes_an_array_around_it():
    around = cuda.to_device(np.arange(8.0))

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = around[i]
        around[i] = -1

    out = np.zeros(8)
    kernel[1, 8](out)
    assert out.tolist() == list(range(8))
    assert (around.copy_to_host() == -1).all()
    # It is the array and not its elements that the kernel has.
    around.copy_to_device(np.full(8, 5.0))
    kernel[1, 8](out)
    assert (out == 5).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda whole: whole,
        lambda whole: whole[::2, 1:],
        lambda whole: whole.T,
        lambda whole: whole[::-1],
    ],
)
def test_views_keep_their_strides(view):
    around = view(cuda.to_device(np.arange(48, dtype=np.int32).reshape(6, 8)))

    @cuda.jit
    def kernel(out):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = around[i, j]

    out = np.zeros(around.shape, np.int32)
    kernel[1, 1](out)
    np.testing.assert_array_equal(out, around.copy_to_host())


def test_device_functions_tuples_and_classes_have_them_too():
    table = cuda.to_device(np.arange(4.0))
    pair = (cuda.to_device(np.full(4, 10.0)), cuda.to_device(np.full((2, 2), 7, np.int8)))

    class Names:
        counts = cuda.to_device(np.zeros(4, np.int32))

    @cuda.jit(device=True)
    def looked_up(i):
        return table[i] + pair[0][i] + pair[1][1, 1]

    @roc.jit
    def kernel(out):
        i = roc.get_global_id(0)
        out[i] = looked_up(i)
        roc.atomic.add(Names.counts, 0, 1)

    out = np.zeros(4)
    kernel[2, 2](out)
    assert out.tolist() == [17, 18, 19, 20]
    assert Names.counts[0] == 4


@pytest.mark.parametrize("packed", [False, True])
def test_records_are_read_and_written(packed):
    dtype = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2", (3,))], align=not packed)
    records = cuda.to_device(np.zeros(3, dtype))
    record = records[1]

    @cuda.jit
    def kernel(out):
        record.b = 2.5
        record["c"][2] = 7
        out[0] = record.a + record.b + record.c[2]

    out = np.zeros(1)
    kernel[1, 1](out)
    assert out[0] == 9.5
    assert records.copy_to_host()["b"].tolist() == [0, 2.5, 0]
    assert records.copy_to_host()["c"][1].tolist() == [0, 0, 7]


def test_writes_to_it_are_seen_behind_barriers():
    around = cuda.device_array(64)

    @cuda.jit
    def kernel(out):
        t = cuda.threadIdx.x
        total = 0.0
        for step in range(4):
            around[t] = t + step
            cuda.syncthreads()
            total += around[(t + 1) % 64] + around[0]
            cuda.syncthreads()
        out[t] = total

    out = np.zeros(64)
    kernel[1, 64](out)
    assert out.tolist() == [4 * ((t + 1) % 64) + 12 for t in range(64)]


def test_it_lives_as_long_as_the_kernel():
    def make():
        around = cuda.to_device(np.arange(1000.0))

        @cuda.jit
        def kernel(out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = around[i]

        return kernel

    kernel = make()
    out = np.zeros(1000)
    kernel[4, 256](out)
    gc.collect()
    others = [cuda.to_device(np.full(1000, -1.0)) for _ in range(20)]
    kernel[4, 256](out)
    assert out.tolist() == list(range(1000))
    assert len(others) == 20


def test_a_launch_after_close_is_refused_and_runs_nothing():
    around = cuda.to_device(np.ones(4))

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = around[cuda.grid(1)]

    out = cuda.zeros(4)
    kernel[1, 4](out)
    around.close()
    out.copy_to_device(np.zeros(4))
    with pytest.raises(ValueError, match="close"):
        kernel[1, 4](out)
    assert (out.copy_to_host() == 0).all()


def test_a_read_only_array_is_read_and_not_written():
    around = cuda.to_device(np.ones(4))
    around.readonly = True

    @cuda.jit
    def reads(out):
        out[cuda.grid(1)] = around[cuda.grid(1)]

    @cuda.jit
    def writes(out):
        around[cuda.grid(1)] = out[cuda.grid(1)]

    out = np.zeros(4)
    reads[1, 4](out)
    assert (out == 1).all()
    with pytest.raises(CompileError, match=r"(?i)readonly array"):
        writes[1, 4](out)


def test_it_is_in_use_by_the_launchs_stream(hold_up):
    around = cuda.to_device(np.ones(4))
    stream = cuda.stream()

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = around[cuda.grid(1)]

    out = cuda.zeros(4)
    kernel[1, 4](out)
    out.copy_to_device(np.zeros(4))
    with hold_up(stream):
        kernel[1, 4, stream](out)
    stream.synchronize()
    assert (out.copy_to_host() == 1).all()
