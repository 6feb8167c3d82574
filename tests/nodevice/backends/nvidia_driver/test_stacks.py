"""Functions that call themselves on NVIDIA's GPUs: their threads have deeper stacks."""

import math

import pytest

import haulage
from haulage import cuda
from support.nvidia_children import needs_compiler, run

PROGRAM = """
import numpy as np
from cuda.bindings import driver
from haulage import cuda
from doubles.libcuda.reading import Reading

double.interpret(Reading())

@cuda.jit(device=True)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

@cuda.jit
def numbers(out):
    i = cuda.grid(1)
    out[i] = fibonacci(i)

@cuda.jit
def squares(out):
    i = cuda.grid(1)
    out[i] = i * i

def stack():
    status, size = driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_STACK_SIZE)
    return size

out = cuda.zeros(10, np.int64)
squares[1, 10](out)
print(stack())
if {full}:
    double.fail("cuCtxSetLimit", 2)
    try:
        numbers[1, 10](out)
    except Exception as error:
        print(type(error).__name__, error)
    print(double.calls("cuModuleLoadDataEx"))
numbers[1, 10](out)
print(*out.copy_to_host(), stack())
driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_STACK_SIZE, 65536)
numbers[1, 5](cuda.zeros(5, np.int32))
print(stack())
"""


@needs_compiler
def test_the_first_kernel_that_calls_itself_deepens_the_stacks():
    # 8192 threads can be there at one time: 2 GiB / 16 / 8192 are 16 KiB.
    usual, numbers, own = run(PROGRAM.format(full=False), f"memory={2 << 30}").splitlines()
    assert usual == "1024"
    assert numbers == "0 1 1 2 3 5 8 13 21 34 16384"
    assert own == "65536"


@needs_compiler
def test_no_memory_for_stacks_is_told_and_tried_again():
    _, told, loaded, numbers, _ = run(PROGRAM.format(full=True), f"memory={64 << 30}").splitlines()
    assert "OutOfMemory" in told
    assert "stacks of 32768 bytes for each thread of a kernel that calls itself" in told
    assert loaded == "1", "code that nobody gives back was loaded"
    assert numbers.endswith(" 32768")


@cuda.jit(device=True)
def recursive(n):
    if n < 1:
        return 1.0
    return recursive(n - 1) * n + math.sqrt(n)


@cuda.jit(device=True)
def even(n):
    if n < 1:
        return 1.0
    return odd(n - 1) * n


@cuda.jit(device=True)
def odd(n):
    if n < 1:
        return 0.0
    return even(n - 1) + n


@cuda.jit(device=True)
def far_sine(x):
    # It calls functions of libdevice, and those one another.
    return math.sin(x) * math.pow(x, 0.3)


@pytest.mark.parametrize(
    ("function", "expected"), [(recursive, True), (even, True), (far_sine, False)]
)
def test_functions_that_call_themselves_are_found(function, expected):
    def kernel(out):
        out[0] = function(out[1])

    code = haulage.compile(kernel, "void(float64[::1])", "sm_90")
    assert code.metadata["recursive"] == expected
