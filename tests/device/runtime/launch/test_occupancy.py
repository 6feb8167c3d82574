"""How many blocks of a kernel fit a device at once."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = pytest.mark.usefixtures("device")


def test_the_figures_of_an_occupancy_fit_together(device):
    assert device.MAX_THREADS_PER_MULTIPROCESSOR >= device.MAX_THREADS_PER_BLOCK
    assert device.MAX_THREADS_PER_MULTI_PROCESSOR == device.MAX_THREADS_PER_MULTIPROCESSOR
    assert device.MAX_BLOCKS_PER_MULTIPROCESSOR >= 1
    assert device.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR >= device.MAX_SHARED_MEMORY_PER_BLOCK


def test_occupancy_is_that_of_the_figures():
    @cuda.jit("void(float32[:])")
    def kernel(a):
        a[0] = cuda.shared.array(0, np.float32)[0]

    context, device = cuda.current_context(), cuda.get_current_device()
    most = device.MAX_THREADS_PER_BLOCK
    (overload,) = kernel.overloads.values()
    for of in (kernel, overload):
        blocks = context.get_active_blocks_per_multiprocessor(of, 128, 128)
        assert 1 <= blocks <= device.MAX_BLOCKS_PER_MULTIPROCESSOR
        assert context.get_active_blocks_per_multiprocessor(of, most + 1, 0) == 0
        too_much = device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN + 1
        assert context.get_active_blocks_per_multiprocessor(of, 32, too_much) == 0
    grid, block = context.get_max_potential_block_size(kernel, 0, 0, 0)
    assert (grid % device.MULTIPROCESSOR_COUNT, block % 32) == (0, 0)
    assert context.get_max_potential_block_size(kernel, 0, 0, 100)[1] <= 100
    room = device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN // 64
    assert context.get_max_potential_block_size(kernel, lambda n: n * room, 0, 0)[1] <= 64
    with pytest.raises(ValueError, match="fits"):
        context.get_max_potential_block_size(kernel, 0, 1 << 40, 0)
    with pytest.raises(TypeError, match="expected a kernel"):
        context.get_active_blocks_per_multiprocessor(3, 128, 0)
    with pytest.raises(ValueError, match="there are no flags"):
        context.get_active_blocks_per_multiprocessor(kernel, 128, 0, 1)
