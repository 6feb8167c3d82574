"""Code for other processors than this one: its text, and for levels of x86-64 its results."""

import math
import os
import re
import subprocess
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from haulage import cuda
from haulage.compiler.emit import CPUBody
from haulage.compiler.frontend import parse_signature
from haulage.compiler.options import Options
from haulage.errors import Unsupported
from haulage.targets import cpu, cpu_levels

X86 = pytest.mark.skipif(
    not llvm.get_default_triple().startswith("x86_64"), reason="levels are x86-64's"
)
ARM_LAYOUT = (
    "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32"
)


def level(name):
    return replace(cpu.host(), cpu=name, features=cpu_levels.features(name))


def arm():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return replace(
        cpu.host(),
        architecture="aarch64",
        triple="aarch64-unknown-linux-gnu",
        cpu="generic",
        features="+neon",
        data_layout=ARM_LAYOUT,
    )


def texts(function, signature, target):
    """(IR, assembly) for blocks of 64 threads."""
    code = CPUBody(function, parse_signature(signature), target, Options()).code((64, 1, 1), "auto")
    return code.llvm, code.asm


def saxpy(a, x, y):
    i = cuda.grid(1)
    y[i] = a * x[i] + y[i]


def functions(a, x, y):
    i = cuda.grid(1)
    y[i] = math.exp(x[i]) + math.log(x[i]) * math.erf(a) - math.tanh(x[i])


SIGNATURE = "void(float32, float32[::1], float32[::1])"


@pytest.mark.parametrize(
    ("target", "lanes"),
    [("x86-64", 4), ("x86-64-v2", 4), ("x86-64-v3", 8), ("x86-64-v4", 16), ("aarch64", 4)],
)
def test_loops_over_threads_are_as_wide_as_the_registers(target, lanes):
    chosen = arm() if target == "aarch64" else level(target)
    ir, assembly = texts(saxpy, SIGNATURE, chosen)
    assert f"<{lanes} x float>" in ir
    assert ("llvm.fma" in ir) == chosen.has_fused
    fused = {"x86-64-v3": "vfm", "x86-64-v4": "vfm", "aarch64": "fmla"}
    assert fused.get(target, "mulps") in assembly


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "aarch64"])
def test_mathematics_is_widened_and_calls_nothing(target):
    ir, assembly = texts(functions, SIGNATURE, arm() if target == "aarch64" else level(target))
    assert re.search(r"<\d+ x double>", ir)
    calls = re.findall(r"(?m)^\s+(?:callq?|bl)\s+(\S+)", assembly)
    assert [name for name in calls if "haulage" not in name] == []


def escapes(x, limit, turns):
    i = cuda.grid(1)
    c = x[i]
    z = c
    k = 0
    while z * z < 4 and k < limit:
        z = z * z + c
        k += 1
    turns[i] = k


@pytest.mark.parametrize(
    ("target", "lanes"), [("x86-64", 16), ("x86-64-v3", 32), ("x86-64-v4", 64), ("aarch64", 16)]
)
def test_loops_that_threads_leave_at_different_times_run_on_registers(target, lanes):
    chosen = arm() if target == "aarch64" else level(target)
    ir, assembly = texts(escapes, "void(float32[::1], int32, int32[::1])", chosen)
    assert f"fmul <{lanes} x float>" in ir
    register = {"x86-64": "mulps", "aarch64": r"fmul\s+v\d+\.4s"}.get(target, "vmulps")
    assert re.search(register, assembly)
    assert not re.search(r"mulss|fmul\s+s\d", assembly)


RUN = """
import math
import numpy as np
import haulage
from haulage import cuda

@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = math.exp(x[i]) * x[i] + math.sin(x[i])
        out[1, i] = math.pow(abs(x[i]), 1.5) - math.tan(x[i])
        out[2, i] = math.erfc(x[i]) / math.cosh(x[i]) + math.atan(x[i])
        out[3, i] = math.log(abs(x[i])) + np.cbrt(x[i]) - math.sin(x[i] * 1e8)
        root = x[i] * x[i] + 1
        while abs(root * root - x[i] * x[i] - 1) > 1e-4:
            root -= (root * root - x[i] * x[i] - 1) / (2 * root)
        out[4, i] = root

for kind in (np.float32, np.float64):
    x = np.linspace(-9, 9, 1000).astype(kind)
    out = np.zeros((5, 1000), kind)
    kernel[4, 256](x, out)
    print(out.tobytes().hex())
"""


def outcomes(chosen):
    environment = {**os.environ, "HAULAGE_CPU": chosen}
    ran = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True
    )
    single, double = (bytes.fromhex(line) for line in ran.stdout.split())
    return np.frombuffer(single, np.float32), np.frombuffer(double, np.float64)


@X86
def test_lower_levels_compute_the_same_and_levels_with_fused_products_the_same_bits():
    usual = outcomes("")
    present = llvm.get_host_cpu_features()
    for name in cpu_levels.LEVELS:
        if cpu_levels.missing(name, present):
            continue
        for mine, other in zip(outcomes(name), usual, strict=True):
            fused = "fma" in cpu_levels.LEVELS[name] or not present.get("fma")
            if fused:
                np.testing.assert_array_equal(mine, other)
            else:
                unit = np.finfo(mine.dtype).eps
                np.testing.assert_allclose(mine, other, rtol=64 * unit, atol=64 * unit)


def test_what_is_no_level_is_refused(monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU", "x86-64-v5")
    with pytest.raises(ValueError, match="HAULAGE_CPU='x86-64-v5': expected one of x86-64, "):
        cpu.host()


@X86
def test_a_level_that_the_processor_has_not_is_refused(monkeypatch):
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"avx": True})
    with pytest.raises(Unsupported, match=r"x86-64-v3: this processor has no cx16, .*avx2"):
        cpu._check_level("x86-64-v3", "x86_64-unknown-linux-gnu")
