"""What a kernel does with its arguments is the same on all targets, and known without a device."""

import pytest

from haulage import cuda
from haulage.compiler.options import Options
from haulage.kernel.compilation import body_for
from haulage.kernel.signatures import keys_of
from haulage.platforms import PLATFORMS

TARGETS = (("cpu", "host"), ("nvidia", "sm_80"), ("amd", "gfx90a"))
SIGNATURE = "void(float32[:], float32[:], float32[:], int32[:])"


@cuda.jit(device=True)
def add(array, index, value):
    array[index] += value


def strided(x, y, z, counts):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = y[i]
        add(z, i, 1)
        cuda.atomic.add(counts, 0, 1)


def guarded(x, y, z, counts):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= counts.size:
        return
    own = cuda.local.array(3, dtype="float32")
    own[i % 3] = y[i]
    z[i] = own[1] / counts[i]
    x[i // 2] = 1


def summed(x, y, z, counts):
    room = cuda.shared.array(32, dtype="float32")
    room[cuda.threadIdx.x] = y[cuda.grid(1)]
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        z[cuda.blockIdx.x] = room[3]


WHOLE = "w, all of it if the grid has at least z.size threads and counts.shape[0] >= z.size"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (strided, {"x": "w, all of it", "y": "r", "z": "rw", "counts": "rw"}),
        (guarded, {"x": "w", "y": "r", "z": WHOLE, "counts": "r"}),
        (summed, {"x": "none", "y": "r", "z": "w", "counts": "none"}),
    ],
)
def test_all_targets_tell_the_same(function, expected) -> None:
    for kind, architecture in TARGETS:
        target = PLATFORMS[kind].new_target(architecture, 32)
        body = body_for(function, keys_of(SIGNATURE), target, Options())
        assert {name: str(each) for name, each in body.access.items()} == expected, kind


def test_code_of_others_may_do_anything_with_what_it_is_given() -> None:
    foreign = cuda.declare_device("foreign", "void(float32[:])", abi="numba")

    def kernel(x, y):
        i = cuda.grid(1)
        foreign(x)
        if i < y.size:
            y[i] = 1

    target = PLATFORMS["nvidia"].new_target("sm_80", 32)
    body = body_for(kernel, keys_of("void(float32[:], float32[:])"), target, Options())
    # It may end the thread, too.
    assert {name: str(each) for name, each in body.access.items()} == {"x": "rw", "y": "w"}
