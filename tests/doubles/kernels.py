"""Kernels that tests of what is done with them, and tests of their results, have in common."""

import numpy as np

from haulage import cuda


def row_sums(a, out):
    """Adds each row of `a` to an element of `out`, a thread for a row."""
    i = cuda.grid(1)
    if i < out.size:
        total = out[i]
        for k in range(a.shape[1]):
            total += a[i, k]
        out[i] = total


def butterflies(threads):
    """A kernel for a block of `threads`: the Walsh-Hadamard transform of twice as many numbers."""
    numbers = 2 * threads

    def transform(x, y):
        s = cuda.shared.array(numbers, np.float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        s[t + threads] = x[t + threads]
        h = 1
        while h < numbers:
            cuda.syncthreads()
            i = t // h * (2 * h) + t % h
            a, b = s[i], s[i + h]
            s[i], s[i + h] = a + b, a - b
            h *= 2
        cuda.syncthreads()
        y[t] = s[t]
        y[t + threads] = s[t + threads]

    return transform
