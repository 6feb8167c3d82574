"""Code for OpenCL devices: what instructions the words of the kernel language become."""

# mypy: allow-untyped-defs

import re
from typing import Any

import numpy as np
import pytest
from numba import float32, int32

import haulage
from doubles.spirv import needs_validator, validate
from haulage import cuda, roc
from haulage.cuda import libdevice
from haulage.errors import CompileError, Unsupported

FLOATS = "void(float32[::1])"
TWO = "void(float32[::1], float32[::1])"
INTS = "void(int32[::1])"
MATRICES = "void(float32[:, ::1], float32[:, ::1], float32[:, ::1])"
TILE = 16

pytestmark = needs_validator


def compiled(kernel: Any, signature: str) -> Any:
    """The code of a kernel, which the validator has found to be right."""
    code = haulage.compile(kernel, signature, "spirv64")
    validate(code.code)
    return code


def count(asm: str, pattern: str) -> int:
    """How many instructions of SPIR-V match."""
    return len(re.findall(rf"(?m)^\s*(?:%\d+ = )?(?:{pattern})\b", asm))


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def product(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for first in range(0, a.shape[1], TILE):
        a_tile[row, column] = a[y, first + column]
        b_tile[row, column] = b[first + row, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[row, k] * b_tile[k, column]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def add_up(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


@cuda.jit
def add_up_in_warps(x, out):
    value = x[cuda.grid(1)]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def test_arrays_of_the_arguments_are_in_global_memory_and_sums_of_products_fused() -> None:
    code = compiled(saxpy, "void(float32, float32[::1], float32[::1])")
    assert code.code[:4] == bytes.fromhex("03022307")
    assert count(code.asm, "OpEntryPoint Kernel") == 1
    # The device's compiler fuses them, if it has an instruction for that.
    assert count(code.asm, "OpFMul") == count(code.asm, "OpFAdd") == 1
    assert "ContractionOff" not in code.asm
    assert "GenericPointer" not in code.asm
    assert count(code.asm, "OpLoad %\\d+ %\\d+ Aligned 4") == 2
    assert code.metadata["hidden"] == ()


def test_operations_of_which_some_stay_apart_are_fused_here() -> None:
    @cuda.jit
    def mixed(a, x, y):
        y[0] = a * x[0] + y[0]
        y[1] = libdevice.fadd_rn(libdevice.fmul_rn(a, x[1]), y[1])

    code = compiled(mixed, "void(float32, float32[::1], float32[::1])")
    assert count(code.asm, r"OpExtInst %\d+ %\d+ fma") == 1
    assert count(code.asm, "OpFMul") == count(code.asm, "OpFAdd") == 1
    assert "ContractionOff" in code.asm


def test_shared_arrays_are_of_the_work_group_and_barriers_wait_for_it() -> None:
    code = compiled(product, MATRICES)
    assert count(code.asm, r"OpVariable %\d+ Workgroup") == 2
    assert count(code.asm, "OpControlBarrier") == 2
    assert "GenericPointer" not in code.asm
    assert code.metadata["shared_bytes"] == 2 * 4 * TILE * TILE


def test_atomic_sums_of_ints_are_an_instruction_and_those_of_floats_a_loop() -> None:
    of_ints = compiled(add_up, "void(int32[::1], int32[::1])").asm
    assert count(of_ints, "OpAtomicIAdd") == 1
    of_floats = compiled(add_up, TWO).asm
    assert count(of_floats, "OpAtomicCompareExchange") == 1
    assert count(of_floats, "OpAtomicIAdd") == 0


def test_a_warp_is_a_sub_group_of_threads_in_a_row() -> None:
    code = compiled(add_up_in_warps, "void(int32[::1], int32[::1])")
    assert count(code.asm, r"OpExecutionMode %\d+ SubgroupSize 32") == 1
    # Values go by way of the work-group's memory, between barriers of the sub-group; the kernel is
    # there twice, as blocks with one axis need no divisions to tell threads' places.
    assert count(code.asm, r"OpVariable %\d+ Workgroup") == 1
    assert count(code.asm, "OpControlBarrier") == 2 * 2
    assert count(code.asm, "OpUMod") == 1
    assert code.metadata["hidden"] == ("block_x",)
    assert '"haulage_block_x"' in code.asm


def test_a_wavefront_is_a_sub_group_of_64() -> None:
    @roc.jit
    def wave(x):
        i = roc.get_global_id(0)
        x[i] = x[i ^ 1]
        roc.wavebarrier()
        x[i] += 1

    code = compiled(wave, INTS)
    assert count(code.asm, r"OpExecutionMode %\d+ SubgroupSize 64") == 1


def test_dynamic_shared_memory_is_the_last_parameter() -> None:
    @cuda.jit
    def turned(x):
        room = cuda.shared.array(0, int32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        x[t] = room[cuda.blockDim.x - 1 - t]

    code = compiled(turned, INTS)
    assert code.metadata["hidden"][-1] == "dynamic_shared"
    assert code.metadata["uses_dynamic_shared"]
    names = re.findall(r'OpName %\d+ "(haulage_\w+)"', code.asm)
    assert names[-1] == "haulage_dynamic_shared"


def test_a_sum_that_llvm_works_out_in_65_bits_has_ints_of_64() -> None:
    @cuda.jit
    def triangle(out, n):
        total = 0
        for i in range(n):
            total += i
        out[0] = total

    code = compiled(triangle, "void(int64[::1], int64)")
    assert "i65" not in code.llvm
    assert count(code.asm, r"OpExtInst %\d+ %\d+ u_mul_hi") == 1
    # No loop is left.
    assert count(code.asm, "OpPhi") <= 1


@pytest.mark.parametrize("kind", ["u4", "i8"])
def test_bits_are_reversed_without_an_instruction_for_that(kind: str) -> None:
    @cuda.jit
    def turned(x):
        x[0] = cuda.brev(x[0])

    code = compiled(turned, f"void({np.dtype(kind).name}[::1])")
    bits = 8 * np.dtype(kind).itemsize
    assert count(code.asm, "OpBitwiseOr") >= bits.bit_length() - 1
    assert "OpBitReverse" not in code.asm


def test_what_was_compared_and_swapped_in_a_loop_is_a_phi_of_ints() -> None:
    @cuda.jit
    def multiply(x, factor):
        old = x[0]
        while True:
            found = cuda.atomic.cas(x, 0, old, old * factor)
            if found == old:
                break
            old = found

    code = compiled(multiply, "void(int64[::1], int64)")
    assert count(code.asm, "OpAtomicCompareExchange") >= 1


def test_pointers_in_structures_are_numbers() -> None:
    @cuda.jit(debug=True)
    def inverse(x):
        x[0] = 1 // x[0]

    assert compiled(inverse, INTS).metadata["hidden"] == ("channel", "module")


def test_functions_that_call_themselves_are_refused() -> None:
    @cuda.jit(device=True)
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    @cuda.jit
    def kernel(x):
        x[0] = factorial(x[0])

    with pytest.raises(CompileError, match="calls itself, which SPIR-V kernels cannot"):
        haulage.compile(kernel, INTS, "spirv64")


def test_what_a_thread_takes_is_for_the_driver_to_say() -> None:
    code = compiled(saxpy, "void(float32, float32[::1], float32[::1])")
    with pytest.raises(Unsupported, match=r"saxpy: what a thread takes is decided by the driver"):
        _ = code.resources


def test_another_architecture_of_spirv_is_refused() -> None:
    with pytest.raises(ValueError, match="target 'spirv32': expected 'spirv64'"):
        haulage.compile(saxpy, TWO, "spirv32")
