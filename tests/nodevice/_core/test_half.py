"""Halves on processors without instructions for them."""

import ctypes
import subprocess
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.backends.cpu_driver import elf
from haulage.backends.cpu_driver.loader import Loader
from haulage.compiler.llvm import assembly
from nodevice.backends.cpu_driver.cpu_objects import host_object

ALL = np.arange(65536, dtype=np.uint16).view(np.float16)

CONVERT = """
define i64 @convert(ptr %from, ptr %to, i64 %count) {{
start:
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %each ]
  %from.at = getelementptr {source}, ptr %from, i64 %i
  %value = load {source}, ptr %from.at
  %made = {operation} {source} %value to {target}
  %to.at = getelementptr {target}, ptr %to, i64 %i
  store {target} %made, ptr %to.at
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %each, label %end
end:
  ret i64 0
}}
"""

is_x86 = pytest.mark.skipif(
    not llvm.get_default_triple().startswith("x86_64"),
    reason="only on x86-64 are there processors that convert halves by calls",
)


def converted(values, operation, source, target, dtype, name):
    code = host_object(CONVERT.format(operation=operation, source=source, target=target))
    assert elf.symbols(code)[1] == [name]
    loader = Loader()
    module = loader.load(code)
    result = np.empty(values.size, dtype)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        loader.function(module, "convert")
    )
    function(values.ctypes.data, result.ctypes.data, values.size)
    loader.unload(module)
    return result


@is_x86
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize(
    ("source", "dtype", "name"),
    [("float", np.float32, "__truncsfhf2"), ("double", np.float64, "__truncdfhf2")],
)
def test_wider_floats_are_rounded_to_halves_once(source, dtype, name):
    bits = f"u{np.dtype(dtype).itemsize}"
    random = np.random.default_rng(1)
    wide = random.integers(0, np.iinfo(bits).max, 1 << 16, bits, endpoint=True).view(dtype)
    exponents = np.ldexp(random.uniform(-2, 2, 1 << 18), random.integers(-27, 17, 1 << 18))
    exact = ALL[:31745].astype(dtype)
    middles = (exact[:-2] + exact[1:-1]) / 2
    values = np.concatenate(
        [wide, exponents.astype(dtype), ALL.astype(dtype)]
        + [np.nextafter(middles, dtype(to)) for to in (-1, np.inf)]
        + [middles, -middles, np.array([65519.99, 65520, -65520, 0.0, -0.0], dtype)]
    )
    result = converted(values, "fptrunc", source, "half", np.float16, name)
    expected = values.astype(np.float16)
    nan = np.isnan(values)
    assert np.isnan(result[nan]).all()
    assert (result[~nan].view("u2") == expected[~nan].view("u2")).all()
    assert (np.signbit(result) == np.signbit(values)).all()


@is_x86
def test_halves_are_widened_exactly():
    result = converted(ALL, "fpext", "half", "float", np.float32, "__extendhfsf2")
    np.testing.assert_array_equal(result, ALL.astype(np.float32))
    assert (np.signbit(result) == np.signbit(ALL)).all()


@is_x86
def test_processors_with_arithmetic_on_halves_round_each_operation():
    def kernel(x, y):
        i = cuda.grid(1)
        x[i] = x[i] * y[i] + x[i]

    signature = "void(float16[::1], float16[::1])"
    for fastmath, is_fused in ((False, False), (True, True)):
        code = haulage.compile(kernel, signature, fastmath=fastmath)
        asm = assembly(code.llvm, replace(code.target, cpu="sapphirerapids", features=""))
        assert ("vmulph" in asm) is not is_fused
        assert ("vfmadd" in asm) is is_fused


KERNELS = """
import llvmlite.binding as llvm
import numpy as np

# An x86-64 processor of the first years has no instruction for halves.
llvm.get_host_cpu_name = lambda: "x86-64"
llvm.get_host_cpu_features = lambda: llvm.FeatureMap()

import haulage
from haulage import cuda

@cuda.jit
def kernel(x, y, out):
    i = cuda.grid(1)
    out[0, i] = x[i] * y[i] + x[i]
    out[1, i] = cuda.fp16.hexp(x[i])
    out[2, i] = cuda.fp16.hmax(x[i], y[i])

haulage.use("cpu")
code = haulage.compile(kernel, "void(float16[::1], float16[::1], float16[:, ::1])")
assert "__extendhfsf2" in code.asm and "__truncdfhf2" in code.asm and "ph2ps" not in code.asm
x = np.arange(65536, dtype=np.uint16).view(np.float16)
y = np.random.default_rng(1).permutation(x)
out = cuda.device_array((3, x.size), np.float16)
kernel[256, 256](cuda.to_device(x), cuda.to_device(y), out)
with np.errstate(all="ignore"):
    expected = [x * y + x, np.exp(x.astype(np.float64)).astype(np.float16), np.fmax(x, y)]
np.testing.assert_array_equal(out.copy_to_host(), expected)
"""


@is_x86
@pytest.mark.parametrize("way", ["regions", "coroutines"])
def test_kernels_with_halves_need_no_such_instructions(way, monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", way)
    subprocess.run([sys.executable, "-c", KERNELS], check=True, timeout=100)
