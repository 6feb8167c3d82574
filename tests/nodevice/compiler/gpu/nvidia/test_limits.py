"""What is too large for NVIDIA's GPUs is told when code for them is made."""

import numpy as np
import pytest

import haulage
from doubles.ptxas import assemble
from haulage import cuda
from haulage.errors import CompileError


def with_local(count):
    def hoard(x, n):
        room = cuda.local.array(count, np.float64)
        for k in range(n):
            room[k * 7 % n] = x[k]
        for k in range(n):
            x[k] += room[k]

    return hoard


def with_shared(count):
    def much(x):
        room = cuda.shared.array(count, np.float64)
        room[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = room[8 - cuda.threadIdx.x]

    return much


def of_tuple(x, numbers):
    x[0] = numbers[1]


@pytest.mark.parametrize(
    ("make", "signature", "most"),
    [(with_local, "void(float64[:], int64)", 65536), (with_shared, "void(float64[:])", 6144)],
)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_arrays_of_a_thread_and_of_a_block(make, signature, most, architecture):
    code = haulage.compile(make(most), signature, architecture)
    assemble(code.asm)
    name = make(most).__name__
    message = rf"kernel .*{name} has {8 * most + 16} bytes of .* {architecture} has {8 * most} for "
    with pytest.raises(CompileError, match=message):
        haulage.compile(make(most + 2), signature, architecture)
    with pytest.raises(CompileError, match=rf"{name} has {8 * most + 16} bytes"):
        cuda.compile_ptx(make(most + 2), signature)


def test_arguments():
    # The array has 7 words before the tuple.
    fits, too_many = (32764 - 56) // 8, 4100
    code = haulage.compile(of_tuple, f"void(float64[:], UniTuple(int64, {fits}))", "sm_90")
    assemble(code.asm)
    with pytest.raises(CompileError, match="of_tuple takes 32856 bytes of arguments; sm_90 takes"):
        haulage.compile(of_tuple, f"void(float64[:], UniTuple(int64, {too_many}))", "sm_90")
