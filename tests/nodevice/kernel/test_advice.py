"""What programs that import numba.cuda are warned of. Each runs in a process of its own."""

import subprocess
import sys

import pytest

BEGINNING = """
import warnings
import numpy as np
from numba.core import config

def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(each.filename == "<string>" for each in caught), caught
    return [(each.category.__name__, str(each.message)) for each in caught]

def empty():
    pass
"""
AS_NUMBA = """
import haulage
haulage.install()
haulage.use("cpu")
from numba import cuda
"""
AS_HAULAGE = """
import haulage
haulage.use("cpu")
from haulage import cuda
"""


def run(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "HAULAGE_NUM_THREADS": "3", **environment},
    )
    assert done.returncode == 0, done.stderr


def test_a_grid_of_fewer_blocks_than_run_at_once():
    run(f"""
{AS_NUMBA}
kernel = cuda.jit(empty)
[(category, message)] = told(lambda: kernel[2, 32]())
assert category == "NumbaPerformanceWarning", category
assert message.startswith("Grid size 2 ") and "low occupancy: it runs 3 blocks" in message
assert len(told(lambda: kernel.forall(10))) == 1
assert len(told(lambda: kernel.configure(1, 10))) == 1
assert not told(lambda: kernel[3, 32]())
assert not told(lambda: kernel[(1, 3), 32]())
config.DISABLE_PERFORMANCE_WARNINGS = 1
assert not told(lambda: kernel[2, 32]())
config.DISABLE_PERFORMANCE_WARNINGS = 0
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
assert not told(lambda: kernel[2, 32]())
""")


def test_a_reduction_s_own_launches_are_not_the_program_s():
    run(f"""
{AS_NUMBA}
add = cuda.reduce(lambda a, b: a + b)
def call():
    assert add(np.arange(10.0)) == 45
assert not told(call)
""")


def test_options_that_cuda_does_not_take_together():
    run(f"""
{AS_NUMBA}
[(category, message)] = told(lambda: cuda.jit(debug=True))
assert category == "NumbaInvalidConfigWarning" and "is not supported by CUDA" in message
[(category, message)] = told(lambda: cuda.jit(debug=True, lineinfo=True, opt=False))
assert category == "NumbaInvalidConfigWarning" and "mutually exclusive" in message
assert not told(lambda: cuda.jit(debug=True, opt=False))
config.OPT = 0
assert not told(lambda: cuda.jit(debug=True))
assert told(lambda: cuda.jit(debug=True, opt=True))
assert not told(lambda: cuda.jit(lineinfo=True))
assert not told(cuda.jit)
""")


def test_a_host_array_is_used_in_place_so_no_copy_is_warned_of():
    run(f"""
{AS_NUMBA}
kernel = cuda.jit(lambda x: None)
assert config.CUDA_WARN_ON_IMPLICIT_COPY
assert not told(lambda: kernel[8, 8](np.zeros(3)))
assert not told(lambda: kernel[8, 8](cuda.pinned_array(3)))
""")


def test_who_imports_haulage_is_told_nothing():
    run(f"""
{AS_HAULAGE}
assert not told(lambda: cuda.jit(empty)[1, 1]())
assert not told(lambda: cuda.jit(debug=True))
""")


@pytest.mark.parametrize("beginning", [AS_NUMBA, AS_HAULAGE])
def test_numba_s_setting_of_debug_kernels_holds_where_nothing_is_said(beginning):
    program = f"""
{beginning}
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
def divided(x, by):
    x[0] = x[0] // by
said, unsaid = cuda.jit(divided, debug=False), cuda.jit(divided, opt=False)
x = np.array([7])
said[1, 1](x, 0)
try:
    unsaid[1, 1](x, 0)
except ZeroDivisionError:
    pass
else:
    raise AssertionError
"""
    run(program, NUMBA_CUDA_DEBUGINFO="1")
