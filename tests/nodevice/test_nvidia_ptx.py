"""`cuda.compile_ptx` and its kin: PTX of kernels and functions, without a GPU or a driver."""

import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from numba import types

import haulage
from doubles.ptxas import assemble
from haulage import cuda


def add(x, y):
    return x + y


def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


def nothing(x):
    x[0] = 1


def both(x):
    return x, x + 1


def is_small(x):
    return abs(x) < 1


def declared(ptx: str) -> str:
    """The line of a module's one visible function."""
    (line,) = re.findall(r"(?m)^\.visible .*$", ptx)
    return line


@pytest.mark.parametrize("compile_to", [cuda.compile_ptx, cuda.compile_ptx_for_current_device])
def test_a_kernel_is_an_entry_that_returns_nothing(compile_to) -> None:
    ptx, result = compile_to(scale, (types.float32[::1], types.float32))
    assert declared(ptx) == ".visible .entry scale("
    assert "func_retval" not in ptx
    assert result == types.void
    assert assemble(ptx)


def test_a_function_in_numbas_convention_gives_a_status_and_writes_its_result() -> None:
    ptx, result = cuda.compile_ptx(add, (np.int32, np.int32), device=True)
    assert re.match(r"\.visible \.func +\(\.param \.b32 func_retval0\) \w*add\w*\(", declared(ptx))
    assert ptx.count("_param_2,") == 0
    assert len(set(re.findall(r"_param_(\d+)", ptx))) == 3
    assert result == types.int64
    assert assemble(ptx, "-c")


def test_a_function_in_cs_convention_gives_its_result() -> None:
    for signature, kind in (("int32(int32, int32)", "b32"), ("int64(int32, int32)", "b64")):
        ptx, result = cuda.compile(add, signature)
        assert re.match(
            rf"\.visible \.func +\(\.param \.{kind} func_retval0\) add\(", declared(ptx)
        )
        assert str(result) in signature
        assert assemble(ptx, "-c")
    ptx, _ = cuda.compile(add, (np.float32, np.float32), abi_info={"abi_name": "_Z3addff"})
    assert " _Z3addff(" in declared(ptx)


def test_results_of_every_kind() -> None:
    ptx, result = cuda.compile(nothing, (types.int32[::1],))
    assert re.match(r"\.visible \.func +nothing\(", declared(ptx))
    assert result == types.void
    ptx, result = cuda.compile(both, (types.int64,))
    assert "(.param .align 8 .b8 func_retval0[16]) both(" in declared(ptx)
    assert result == types.UniTuple(types.int64, 2)
    ptx, result = cuda.compile(is_small, (types.float64,))
    assert "(.param .b32 func_retval0) is_small(" in declared(ptx)
    assert result == types.boolean


def test_the_architecture_is_the_oldest_unless_one_is_named() -> None:
    assert ".target sm_75\n" in cuda.compile_ptx(scale, (types.float32[::1], types.float32))[0]
    for cc, architecture in (((7, 0), "sm_70"), ((9, 0), "sm_90"), ((8, 5), "sm_80")):
        ptx, _ = cuda.compile_ptx(scale, (types.float32[::1], types.float32), cc=cc)
        assert f".target {architecture}\n" in ptx
    here = cuda.get_current_device().compute_capability
    ptx, _ = cuda.compile_for_current_device(add, (np.int32, np.int32))
    assert f".target sm_{here[0]}{here[1]}\n" in ptx


def test_kernels_and_device_functions_are_taken_by_their_python_function() -> None:
    signature = (types.float32[::1], types.float32)
    assert cuda.compile_ptx(cuda.jit(scale), signature) == cuda.compile_ptx(scale, signature)
    listed, result = cuda.compile_all(cuda.jit(device=True)(add), "int32(int32, int32)")
    assert (listed, result) == ([cuda.compile(add, "int32(int32, int32)")[0]], types.int32)


def test_the_text_is_the_same_in_every_process() -> None:
    here, _ = cuda.compile(add, "int32(int32, int32)")
    program = (
        "from haulage import cuda\ndef add(x, y):\n    return x + y\n"
        "print(cuda.compile(add, 'int32(int32, int32)')[0], end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == here


def test_without_libdevice_only_what_needs_it_fails(tmp_path) -> None:
    program = f"""
import importlib.metadata, math
def files(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.files = files
import haulage
from haulage import cuda
from haulage.compiler.gpu import toolkit
toolkit.TOOLKITS = ({str(tmp_path)!r},)
def root(x):
    x[0] = math.sqrt(x[0])
def sine(x):
    x[0] = math.sin(x[0])
print(len(haulage.compile(root, "void(float64[::1])", "sm_90").code) > 0)
try:
    haulage.compile(sine, "void(float64[::1])", "sm_90")
except haulage.errors.CompileError as error:
    print(error)
"""
    found = {name: value for name, value in os.environ.items() if not name.startswith("CUDA")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=found,
    )
    worked, error = done.stdout.splitlines()
    assert worked == "True"
    assert "pip install 'haulage[nvidia]'" in error
    assert str(tmp_path) in error


def test_mathematics_is_in_the_text_itself() -> None:
    def wave(x):
        x[0] = math.sin(x[0])

    code = haulage.compile(wave, "void(float64[::1])", "sm_90")
    assert not re.search(r"(?m)^\.extern", code.asm)
