"""Blocks of more threads than a kernel's code leaves registers for: they get code of their own."""

import numpy as np
import pytest

import haulage
from doubles import ptxas
from haulage import cuda
from haulage.compiler.options import Options
from haulage.kernel.compilation import body_for
from haulage.kernel.signatures import keys_of
from haulage.platforms import PLATFORMS
from support.nvidia_children import needs_compiler, run

# Of NVIDIA's multiprocessors.
REGISTERS = 65536

PROGRAM = """
import numpy as np
from haulage import cuda
from doubles.libcuda.reading import Reading

reading = Reading()
reading.attributes[0] = 384
double.interpret(reading)

def plain(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += i

count, few = cuda.jit(plain), cuda.jit(max_registers=128)(plain)

@cuda.jit
def turn(x, y):
    i = cuda.grid(1)
    x[i] = i
    cuda.cg.this_grid().sync()
    y[i] = x[x.size - 1 - i]

def tell(kernel):
    lines = next(iter(kernel.inspect_asm().values())).splitlines()
    print([line for line in lines if line.startswith(".m")], double.calls("cuModuleLoadDataEx"))

def launched(kernel, threads):
    x = cuda.zeros(1100, np.int64)
    for _ in range(2):
        kernel[-(-1100 // threads), threads](x)
    assert (x.copy_to_host() == 2 * np.arange(1100)).all()
    tell(kernel)

declared = cuda.jit("void(int64[::1])")(plain)
print(cuda.current_context().get_max_potential_block_size(declared, 0, 0, 0)[1])
for threads in (256, 384, 1024, 513, 512, 385, 256):
    launched(count, threads)
print(next(iter(count.get_max_threads_per_block().values())))
launched(few, 1024)
x, y = cuda.zeros(2048, np.int64), cuda.zeros(2048, np.int64)
turn[2, 1024](x, y)
assert (y.copy_to_host() == np.arange(2048)[::-1]).all()
tell(turn)
"""


@needs_compiler
def test_a_block_that_registers_do_not_suffice_for_has_code_of_its_own():
    best, *loads, most, few, turn = run(PROGRAM).splitlines()
    # A larger block would have the code that keeps in memory what does not fit.
    assert best == "256"
    bounded = [f"['.maxntid {threads}', '.minnctapersm 1'" for threads in (1024, 512)]
    told = [load.rpartition("]")[0] for load in loads[:5]]
    assert told == ["[", "[", bounded[0], bounded[0], bounded[1]]
    counts = [int(load.rpartition(" ")[2]) for load in loads]
    assert [count - counts[0] for count in counts] == [0, 0, 1, 1, 2, 2, 2]
    # What the kernel says is of the code that takes as many registers as it likes.
    assert most == "384"
    # Registers that were asked for give way.
    assert few.startswith(bounded[0] + ", '.maxnreg 128']")
    # A grid that waits is one of large blocks, too.
    assert turn.startswith(bounded[0])


@cuda.jit
def hungry(x, out):
    own = cuda.local.array(64, np.float64)
    i = cuda.grid(1)
    for k in range(64):
        own[k] = x[(i + k) % x.size] * k
    for _ in range(4):
        total = 0.0
        for k in range(64):
            total += own[k] * own[63 - k]
        for k in range(64):
            own[k] = own[k] * 0.5 + total * k
    for k in range(64):
        out[i] += own[k]


@pytest.mark.skipif(ptxas.program() is None, reason="needs NVIDIA's assembler")
def test_the_assembler_keeps_to_what_a_large_block_leaves():
    architecture = "sm_90"
    keys = keys_of("void(float64[::1], float64[::1])")
    target = PLATFORMS["nvidia"].new_target(architecture, 32)
    body = body_for(hungry.py_func, keys, target, Options())
    registers = {
        threads: body.code((threads, 1, 1), "threads").resources["registers"]
        for threads in (512, 1024)
    }
    free = haulage.compile(hungry, "void(float64[::1], float64[::1])", architecture)
    assert free.resources["registers"] > REGISTERS // 512
    assert registers[512] <= REGISTERS // 512
    assert registers[1024] <= REGISTERS // 1024
