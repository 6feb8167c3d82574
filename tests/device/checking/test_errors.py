"""What kernels raise under a check, and Ctrl-C in a checked launch."""

import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import DeviceError

ENDLESS = """
import os, signal, threading
import numpy as np
import haulage
from haulage import cuda

@cuda.jit
def count(x, n):
    for k in range(n):
        x[cuda.grid(1) % 3] += 1

x = cuda.to_device(np.zeros(64))
with haulage.check(only="race", raises=False) as result:
    count[1, 32](x, 10)
    cuda.synchronize()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        count[2, 32](x, 10**12)
        cuda.synchronize()
    except KeyboardInterrupt:
        print("interrupted")
    count[1, 1](x, 10)
    cuda.synchronize()
print(len(result), "finding,", result.launches, "launches")
"""


def test_ctrl_c_stops_a_checked_kernel_and_the_next_one_is_checked():
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "interrupted\n1 finding, 3 launches\n"


def test_what_a_checked_kernel_raises_is_raised_by_the_next_wait():
    @cuda.jit
    def positive(x):
        if x[cuda.grid(1)] < 0:
            raise ValueError("below 0")

    with haulage.check(only="race,bounds") as result:
        positive[1, 4](cuda.to_device(np.array([1.0, 2.0, -1.0, 4.0])))
        with pytest.raises(ValueError, match="below 0"):
            cuda.synchronize()
        positive[1, 4](cuda.to_device(np.ones(4)))
        cuda.synchronize()
    assert not list(result)
    assert result.launches == 2


@pytest.mark.parametrize("only", ["bounds", "race"])
def test_index_errors_that_a_kernel_raises_by_itself_are_raised_under_a_check(only):
    @cuda.jit(boundscheck=True)
    def shift(x, y):
        i = cuda.grid(1)
        y[i] = x[i + 1]

    with haulage.check(only=only, raises=False) as result:
        shift[1, 8](cuda.to_device(np.zeros(8)), cuda.to_device(np.zeros(8)))
        with pytest.raises(IndexError, match="index 8 is out of bounds for axis 0 of array 'x'"):
            cuda.synchronize()
    assert [finding.kind for finding in result] == ["bounds"] * (only == "bounds")


def test_what_an_earlier_kernel_told_is_kept():
    @cuda.jit(boundscheck=True)
    def beyond(x):
        x[cuda.grid(1) + 1] = 1

    @cuda.jit
    def fill(x):
        x[cuda.grid(1)] = 1

    x = cuda.to_device(np.zeros(8))
    stream = cuda.stream()
    beyond[1, 8, stream](x)
    # The check waits at its end.
    told = pytest.raises(IndexError, match="index 8 is out of bounds")
    with told, haulage.check(only="race", raises=False):
        fill[1, 8](x)


@pytest.mark.parametrize("error", [LookupError, DeviceError])
def test_what_failed_in_the_stream_is_raised_by_the_next_wait_and_the_launch_is_checked(error):
    @cuda.jit
    def alike(x):
        x[0] = cuda.grid(1)

    def fail(stream, status, arg):
        raise error("of the callback")

    x = cuda.to_device(np.zeros(8))
    stream = cuda.stream()
    with haulage.check(only="race", raises=False) as result:
        stream.add_callback(fail)
        alike[1, 8, stream](x)
        with pytest.raises(error, match="of the callback"):
            stream.synchronize()
        stream.synchronize()
    assert [finding.kind for finding in result] == ["race"]
