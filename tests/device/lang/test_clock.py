"""`clock`, `clock64` and `globaltimer` in kernels."""

import time

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import CompileError

pytestmark = [pytest.mark.ptx, pytest.mark.ptx_always, pytest.mark.usefixtures("device")]

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")


WORDS = [
    (words, name, dtype)
    for words in (cuda, roc)
    for name, dtype in (("clock", "u4"), ("clock64", "i8"), ("globaltimer", "u8"))
]


@pytest.mark.parametrize(("words", "name", "dtype"), WORDS)
def test_a_clock_never_goes_back_in_a_thread(way, words, name, dtype):
    read = getattr(words, name)

    @words.jit
    def often(times, kinds):
        i = cuda.threadIdx.x
        for k in range(times.shape[1]):
            times[i, k] = read()
            if k % 5 == 0:
                cuda.syncthreads()
        kinds[0] = read()

    times = words.device_array((8, 50), dtype)
    as_float = words.device_array(1, np.float64)
    often[1, 8](times, as_float)
    # Differences of the unsigned 32-bit clock are right where it has wrapped round.
    steps = np.diff(times.copy_to_host(), axis=1).astype(dtype).view(f"i{dtype[1]}")
    assert (steps >= 0).all()
    assert steps.sum() > 0
    assert as_float.copy_to_host()[0] >= 0


def test_nanoseconds_are_those_of_the_host(device):
    if device.kind != "cpu":
        pytest.skip("the device's clock is not the host's")

    @cuda.jit
    def now(out):
        out[cuda.grid(1)] = cuda.globaltimer()

    out = cuda.device_array(64, np.uint64)
    now[4, 16](out)
    before = time.monotonic_ns()
    now[4, 16](out)
    cuda.synchronize()
    after = time.monotonic_ns()
    found = out.copy_to_host()
    assert (before <= found).all()
    assert (found <= after).all()


def test_what_stands_between_two_readings_is_timed(way):
    @cuda.jit
    def work(x, out, n):
        begin = cuda.clock64()
        begin_ns = cuda.globaltimer()
        value = x[0]
        for _ in range(n):
            value = value * 0.999 + 1.5
        x[0] = value
        out[0] = cuda.clock64() - begin
        out[1] = cuda.globaltimer() - begin_ns

    x, out = cuda.to_device(np.ones(1)), cuda.device_array(2, np.int64)
    work[1, 1](x, out, 0)
    nothing = out.copy_to_host()
    work[1, 1](x, out, 10_000_000)
    much = out.copy_to_host()
    assert much[0] > 1_000_000
    # No processor multiplies and adds, one after another, in a tenth of a nanosecond.
    assert much[1] > 1_000_000
    assert (much > nothing).all()


def test_clocks_take_no_arguments():
    @cuda.jit
    def wrong(out):
        out[0] = cuda.clock64(1)

    with pytest.raises(CompileError, match="wrong"):
        wrong[1, 1](np.zeros(1))
