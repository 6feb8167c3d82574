"""Images whose border is treated otherwise than what is inside."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

BLOCKS = [(8, 32), (5, 3), (1, 64)]
SHAPES = [(37, 70), (1, 1), (2, 3), (3, 3), (1, 9), (9, 2), (64, 64)]


def mean(a, i, j):
    return a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + 2 * a[i, j + 1]


mean_of_four = cuda.jit(device=True)(mean)


def inside_first(a, b):
    j, i = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        b[i, j] = mean_of_four(a, i, j)
    elif i < a.shape[0] and j < a.shape[1]:
        b[i, j] = -1 - a[i, j]


def border_first(a, b):
    j, i = cuda.grid(2)
    if i >= a.shape[0] or j >= a.shape[1]:
        return
    if i == 0 or j == 0 or i == a.shape[0] - 1 or j == a.shape[1] - 1:
        b[i, j] = -1 - a[i, j]
        return
    b[i, j] = mean_of_four(a, i, j)


def both_within(a, b):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        if i > 0 and i < a.shape[0] - 1 and j > 0 and j < a.shape[1] - 1:
            b[i, j] = mean_of_four(a, i, j)
        else:
            b[i, j] = -1 - a[i, j]


def before_a_barrier(a, b):
    room = cuda.shared.array((64, 64), np.float32)
    j, i = cuda.grid(2)
    y, x = cuda.threadIdx.y, cuda.threadIdx.x
    height, width = a.shape
    if i < 1 or j < 1 or i >= height - 1 or j >= width - 1:
        room[y, x] = -1 - a[min(i, height - 1), min(j, width - 1)]
    else:
        room[y, x] = mean_of_four(a, i, j)
    cuda.syncthreads()
    if i < height and j < width:
        b[i, j] = room[y, x]


KERNELS = (inside_first, border_first, both_within, before_a_barrier)


def expected(a):
    b = -1 - a
    inner = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + 2 * a[1:-1, 2:]
    if inner.size:
        b[1:-1, 1:-1] = inner
    return b


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_border_is_treated_as_the_kernel_says(kernel, block, way):
    run = cuda.jit(kernel)
    for shape in SHAPES:
        a = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        b = cuda.to_device(np.full(shape, np.nan, np.float32))
        along = shape if kernel is both_within else shape[::-1]
        grid = tuple(-(-size // each) for size, each in zip(along, block, strict=True))
        run[grid, block](cuda.to_device(a), b)
        np.testing.assert_array_equal(b.copy_to_host(), expected(a), err_msg=str(shape))


def test_a_box_of_three_axes_may_lie_anywhere(way):
    @cuda.jit
    def marked(x, low, high):
        i, j, k = cuda.grid(3)
        if low <= i < high and j >= low + 1 and k < high - 2:
            x[i, j, k] = 1
        else:
            x[i, j, k] = 2

    for low in range(-2, 20, 3):
        x = cuda.device_array((12, 8, 10), np.int64)
        marked[(3, 4, 2), (4, 2, 5)](x, low, 9)
        i, j, k = np.indices(x.shape)
        inside = (low <= i) & (i < 9) & (j >= low + 1) & (k < 7)
        np.testing.assert_array_equal(x.copy_to_host(), np.where(inside, 1, 2))
