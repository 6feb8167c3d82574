"""How much a thread can have of local arrays; what is too much is told at compilation."""

import inspect

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import CompileError

# Of a thread on the CPU device and on NVIDIA's GPUs.
MOST = 512 << 10


@pytest.fixture(autouse=True)
def most(device):
    if device.kind == "amd":
        pytest.skip(
            "AMD's GPUs have other limits, which nodevice/compiler/gpu/amd/test_code.py checks"
        )


def run(kernel, *args):
    x = np.arange(8, dtype=np.float32)
    kernel[1, 1](x, *args)
    return x.tolist()


def refused(kernel, nbytes, *words, args=()):
    """Launch what must fail, at the lines with these words."""
    lines, first = inspect.getsourcelines(kernel.py_func)
    with pytest.raises(CompileError) as caught:
        run(kernel, *args)
    message = str(caught.value)
    assert f"kernel {kernel.__qualname__} has {nbytes} bytes of local arrays" in message
    assert f" has {MOST} for a thread" in message
    for word in words:
        line = first + next(n for n, text in enumerate(lines) if word in text)
        assert f"test_local_arrays.py:{line}: " in message


def with_array(size, words=cuda):
    @words.jit
    def kernel(x):
        room = words.local.array(size, np.float32)
        i = int(x[3])
        room[i] = x[i]
        room[i + 1] = x[i + 1]
        x[0] = room[i] + room[i + 1]

    return kernel


@pytest.mark.parametrize("words", [cuda, roc])
def test_an_array_is_as_large_as_a_thread_has(words):
    assert run(with_array(MOST // 4, words))[0] == 7
    refused(with_array(MOST // 4 + 1, words), MOST + 4, "local.array")


@pytest.mark.parametrize("size", [10**9, (1 << 40, 1 << 20), 1 << 61, 1 << 62])
def test_no_array_is_too_large_to_be_refused(size):
    @cuda.jit
    def kernel(x):
        cuda.local.array(size, np.float32)

    refused(kernel, 4 * int(np.prod(size, dtype=object)), "local.array")


@cuda.jit(device=True)
def largest(x, n):
    found = cuda.local.array(40000, np.float64)
    for k in range(n):
        found[k] = x[k]
    most = found[0]
    for k in range(1, n):
        most = max(most, found[k])
    return most


def test_those_of_functions_count_once():
    @cuda.jit
    def fits(x, n):
        x[0] = largest(x, n) + largest(x, n - 1) + largest(x, n - 2)

    @cuda.jit
    def both(x, n):
        own = cuda.local.array(30000, np.float64)
        own[n] = x[n]
        x[0] = largest(x, n) + own[n]

    assert run(fits, 5)[0] == 4 + 3 + 2
    refused(both, 560000, "own = cuda.local", args=(5,))


def test_a_bound_counts():
    @cuda.jit
    def kernel(x, n):
        one = cuda.local.array(n, np.float32, bound=100000)
        other = cuda.local.array((n, n), np.float32, bound=40000)
        one[0] = other[0, 0] = x[0]
        x[0] = one[0] + other[0, 0]

    refused(kernel, 560000, "one =", "other =", args=(2,))


def test_a_shared_array_is_refused_at_any_size():
    @cuda.jit
    def kernel(x):
        cuda.shared.array(1 << 62, np.float32)

    with pytest.raises(CompileError, match="no device has so much for a block"):
        run(kernel)
