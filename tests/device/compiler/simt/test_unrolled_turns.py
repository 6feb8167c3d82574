"""Short loops that LLVM unrolls inside the loop over the threads."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device", "way")]


def test_what_a_turn_wrote_is_what_the_thread_reads_next():
    @cuda.jit
    def kernel(x, y, places):
        t = cuda.threadIdx.x
        for j in range(2):
            x[2 * t + j] = j + 1
            y[t] += x[places[t]]

    y = cuda.to_device(np.zeros(64, np.int32))
    kernel[1, 64](cuda.to_device(np.zeros(128, np.int32)), y, cuda.to_device(np.arange(0, 128, 2)))
    assert list(y.copy_to_host()) == [2] * 64


def test_turns_under_a_condition_of_the_thread_keep_their_order():
    @cuda.jit
    def kernel(x, y, places, n):
        t = cuda.threadIdx.x
        if places[t] < n:
            for j in range(3):
                x[3 * t + j] = j + 1
                y[t] += x[places[t]]

    places = np.arange(0, 192, 3)
    y = cuda.to_device(np.zeros(64, np.int32))
    kernel[1, 64](cuda.to_device(np.zeros(192, np.int32)), y, cuda.to_device(places), 96)
    assert list(y.copy_to_host()) == [3 * (place < 96) for place in places]
