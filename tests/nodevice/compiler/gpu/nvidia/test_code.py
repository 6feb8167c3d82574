"""PTX of kernels: NVIDIA's assembler takes it, and it says what it should."""

import math
import re

import numpy as np
import pytest
from benchmarks.gpu import kernels
from numba import types

import haulage
from doubles.ptxas import ARCHITECTURES, assemble
from haulage import cuda
from haulage.cuda import libdevice
from haulage.targets import nvidia_architectures as architectures


def saxpy(x, y, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def total(x, out):
    part = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = math.sin(x[i]) ** 2.5 if i < x.size else 0
    cuda.syncthreads()
    k = 128
    while k:
        if t < k:
            part[t] += part[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])
    if x[i] < 0:
        print("negative", i, x[i])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_kernel_assembles_for_each_architecture(architecture: str) -> None:
    for kernel, signature in (
        (saxpy, "void(float32[::1], float32[::1], float32)"),
        (total, "void(float32[::1], float32[::1])"),
    ):
        code = haulage.compile(kernel, signature, architecture)
        assert code.metadata["entry"] == kernel.__name__
        assert assemble(code.asm)[:4] == b"\x7fELF"


def test_an_element_takes_one_comparison_and_no_wraparound() -> None:
    code = haulage.compile(saxpy, "void(float32[::1], float32[::1], float32)", "sm_90")
    lines = code.asm.splitlines()
    assert sum("setp" in line for line in lines) == 1
    assert sum("selp" in line for line in lines) == 0
    assert sum("fma.rn.f32" in line for line in lines) == 1


def test_the_code_says_how_much_memory_it_takes() -> None:
    code = haulage.compile(total, "void(float32[::1], float32[::1])", "sm_90")
    assert code.metadata["shared_bytes"] == 1024
    assert code.metadata["block"] is None


@pytest.mark.parametrize("name", ["sm_12", "sm_900", "gfx90", "gfx1234", "cuda", 90])
def test_an_unknown_target_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"target .*: expected"):
        haulage.compile(saxpy, "void(float32[::1], float32[::1], float32)", name)


def test_functions_of_the_c_library_are_those_of_libdevice() -> None:
    def kernel(x, out):
        out[0] = libdevice.j0(x[0]) + libdevice.jn(3, x[0]) + libdevice.yn(2, x[1])
        out[1] = libdevice.fmax(x[0], x[1]) + libdevice.fmin(x[0], x[2]) + libdevice.y1(x[0])

    code = haulage.compile(kernel, "void(float64[::1], float64[::1])", "sm_90")
    assert ".extern .func" not in code.asm
    assemble(code.asm)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_a_kernel_may_take_more_arguments_than_old_versions_of_ptx_let_it(
    architecture: str,
) -> None:
    def first_and_last(many, out):
        out[0] = many[0] + many[-1]

    kind = types.UniTuple(types.int64, 1000)
    code = haulage.compile(first_and_last, (kind, types.int64[::1]), architecture)
    assert code.metadata["argument_bytes"] > 8000
    assemble(code.asm)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_of_the_benchmarks_on_gpus_assemble(architecture: str) -> None:
    made = kernels.make(cuda)
    vector, plane = "float32[::1]", "float32[:, ::1]"
    for kernel, signature in (
        *((each, f"void({', '.join([vector] * count)})") for count, each in made.launches.items()),
        (made.saxpy, f"void(float32, {vector}, {vector}, {vector})"),
        (made.transpose, f"void({plane}, {plane})"),
        (made.reduction, f"void({vector}, {vector})"),
        (made.stencil, f"void({plane}, {plane})"),
        (made.matmul, f"void({plane}, {plane}, {plane})"),
    ):
        assemble(haulage.compile(kernel, signature, architecture).asm)


@pytest.mark.parametrize("architecture", architectures.ARCHITECTURES)
def test_the_code_generator_knows_every_architecture_that_is_named(architecture: str) -> None:
    code = haulage.compile(saxpy, "void(float32[::1], float32[::1], float32)", architecture)
    assert f".target {architecture}\n" in code.asm
    # CUDA 13's assembler has no Volta any more, and another name for sm_101.
    if not architecture.startswith(("sm_7", "sm_101")) or architecture == "sm_75":
        assemble(code.asm)


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((7, 5), "sm_75"), ((9, 0), "sm_90"), ((11, 0), "sm_110"), ((12, 3), "sm_121")],
)
def test_a_device_gets_the_newest_code_that_runs_on_it(
    capability: tuple[int, int], architecture: str
) -> None:
    assert architectures.for_capability(capability) == architecture


@pytest.mark.parametrize(
    "name", ["sin", "pow", "sqrt", "remainder", "floor", "WARP_SZ", "_", "é", "add"]
)
def test_a_kernel_may_have_the_name_of_something_else(name: str) -> None:
    def kernel(x):
        i = cuda.grid(1)
        x[i] = math.sin(x[i]) ** 2.5 + math.sqrt(x[i])

    kernel.__name__ = kernel.__qualname__ = name
    code = haulage.compile(kernel, "void(float64[::1])", "sm_90")
    assert code.metadata["entry"] in (name, f"kernel_{name}", "kernel__")
    assert f".visible .entry {code.metadata['entry']}(" in code.asm
    assemble(code.asm)


def test_a_function_of_cs_convention_may_have_the_name_of_something_else() -> None:
    def sin(x):
        return math.sin(x) + 1

    ptx, _ = cuda.compile_ptx(sin, (types.float64,), device=True, abi="c", cc=(9, 0))
    assert re.search(r"\.visible \.func .* sin\(", ptx)
    assert "haulage_c_function" not in ptx
    assemble(ptx, "-c")
