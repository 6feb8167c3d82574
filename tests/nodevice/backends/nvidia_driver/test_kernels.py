"""Kernels on the stand-in driver: what it is told of them, and what they are asked of it."""

import pytest

from support.nvidia_children import needs_compiler, run

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
pytestmark = needs_compiler

START = """
import numpy as np
from doubles.libcuda.reading import Reading
reader = Reading()
double.interpret(reader)
from haulage import cuda

def copy(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]

x = cuda.to_device(np.arange(8, dtype=np.float32))
y = cuda.device_array_like(x)
"""


def test_a_wish_for_shared_memory_reaches_the_driver() -> None:
    told = run(
        START
        + """
for wish in (None, "MaxShared", "MaxL1", 50, -1):
    before = double.calls("cuFuncSetAttribute")
    kernel = cuda.jit(shared_memory_carveout=wish) if wish is not None else cuda.jit
    kernel(copy)[1, 8](x, y)
    print(double.calls("cuFuncSetAttribute") - before)
""",
        HAULAGE_DEVICE="nvidia",
    )
    usual, *wished = map(int, told.split())
    assert wished == [usual + 1] * 4


def test_figures_are_the_drivers() -> None:
    told = run(
        START
        + """
reader.attributes |= {0: 768, 3: 24, 4: 40}
kernel = cuda.jit("void(float32[::1], float32[::1])")(copy)
signature = kernel.signatures[0]
print(kernel.get_max_threads_per_block(signature), kernel.get_local_mem_per_thread(signature))
print(kernel.get_regs_per_thread(signature), kernel.get_shared_mem_per_block(signature))
print(".visible .entry copy(" in kernel.inspect_asm(signature))
""",
        HAULAGE_DEVICE="nvidia",
    )
    assert told.split() == ["768", "24", "40", "0", "True"]


def test_machine_code_that_the_driver_refuses_gives_way_to_ptx(tmp_path) -> None:
    told = run(
        START
        + """
kernel = cuda.jit(cache=True)(copy)
kernel[1, 8](x, y)
print(y.copy_to_host().tolist() == x.copy_to_host().tolist())
(loaded,) = next(iter(kernel.overloads.values())).loaded.values()
print(loaded.code.machine_code is not None)
""",
        HAULAGE_DEVICE="nvidia",
        HAULAGE_CACHE_DIR=str(tmp_path),
    )
    # The stand-in reads PTX only.
    printed, _, warned = told.partition("\n")
    assert printed == "True"
    assert warned.startswith("True\n")
    assert "CacheWarning: kernel copy: the driver does not take the machine code" in warned
