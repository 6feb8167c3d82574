"""`cuda.compile_ptx` and its kin: PTX of kernels and functions, without a GPU or a driver."""

import math
import operator
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from numba import from_dtype, types
from numba.core import config

import haulage
from doubles.ptx import runtime, snippets
from doubles.ptx.loading import Loaded
from doubles.ptx.snippets import Snippet
from doubles.ptxas import assemble
from haulage import cuda
from haulage.compiler.gpu.nvidia import libdevice
from haulage.errors import CompileError


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


def test_a_function_without_a_name_has_the_one_that_numba_gives_it() -> None:
    ptx, _ = cuda.compile(lambda x: x, "float32(float32)")
    assert re.match(
        r"\.visible \.func +\(\.param \.b32 func_retval0\) _3clambda_3e\(", declared(ptx)
    )


def test_what_a_signature_says_is_returned_holds() -> None:
    assert cuda.compile(nothing, "void(int32[::1])")[1] == types.void
    for make in (
        cuda.compile,
        lambda function, signature: cuda.jit(signature, device=True)(function),
    ):
        with pytest.raises(CompileError, match="No conversion from float32 to none"):
            make(add, "void(float32, float32)")
    with pytest.raises(TypeError, match="None in it, which is no type"):
        cuda.compile(add, (types.float32, None))


CALL = """{ .param .b32 given; .param .b32 gotten; st.param.b32 [given], {i0};
  call.uni (gotten), negative, (given); ld.param.b32 {o0}, [gotten]; }"""


@pytest.mark.skipif(runtime.compiler() is None, reason="there is no C compiler to execute PTX with")
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.bool_])
def test_small_results_fill_the_register_that_c_reads(kind) -> None:
    """C++'s callers do not cut off what is above them."""

    function = operator.not_ if kind is np.bool_ else operator.neg

    def negative(x):
        return function(x)

    small = from_dtype(np.dtype(kind))
    ptx, _ = cuda.compile(negative, small(small))
    given = [0, 1] if kind is np.bool_ else [np.iinfo(kind).min, 0, 1, 2, np.iinfo(kind).max]
    with np.errstate(over="ignore"):
        rows = [(int(kind(x)), int(kind(negative(kind(x))))) for x in given]
    snippet = Snippet(CALL, "s32 -> s32", rows)
    whole = ptx + snippet.entry("s0")
    assert assemble(whole)
    found = Loaded(whole)
    assert snippets.outputs(found, "s0", snippet) == snippets.expected(snippet)
    found.close()


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
    for cc, architecture in (((9, 0, "a"), "sm_90a"), ((10, 0, "f"), "sm_100f")):
        assert f".target {architecture}\n" in cuda.compile(add, "int32(int32, int32)", cc=cc)[0]
        (asm,) = cuda.jit("void(float32[::1], float32)")(scale).inspect_asm(cc=cc).values()
        assert f".target {architecture}\n" in asm
    assert ".target sm_75\n" in cuda.compile_ptx(scale, (types.float32[::1], types.float32))[0]
    for cc, architecture in (((7, 0), "sm_70"), ((9, 0), "sm_90"), ((8, 5), "sm_80")):
        ptx, _ = cuda.compile_ptx(scale, (types.float32[::1], types.float32), cc=cc)
        assert f".target {architecture}\n" in ptx
    here = cuda.get_current_device().compute_capability
    ptx, _ = cuda.compile_for_current_device(add, (np.int32, np.int32))
    assert f".target sm_{here[0]}{here[1]}\n" in ptx


def test_numbas_setting_names_a_newer_standard(monkeypatch) -> None:
    for setting, architecture in (((5, 0), "sm_75"), ((8, 6), "sm_86")):
        monkeypatch.setattr(config, "CUDA_DEFAULT_PTX_CC", setting)
        assert f".target {architecture}\n" in cuda.compile(add, "int32(int32, int32)")[0]
        assert ".target sm_90\n" in cuda.compile(add, "int32(int32, int32)", cc=(9, 0))[0]


@pytest.mark.parametrize(
    "cc", [9, "9.0", (9,), (9, 0, 0), (9, 0, "b"), (9, 0, "af"), (9.0, 0), (True, 0), (9, 0, "f")]
)
def test_what_is_no_compute_capability_is_refused(cc) -> None:
    with pytest.raises(ValueError, match="expected"):
        cuda.compile(add, "int32(int32, int32)", cc=cc)
    with pytest.raises(ValueError, match="expected"):
        cuda.jit("void(float32[::1], float32)")(scale).inspect_asm(cc=cc)


def test_kernels_have_launch_bounds() -> None:
    signature = (types.float32[::1], types.float32)
    for bounds, said in ((128, [".maxntid 128"]), ((64, 2), [".maxntid 64", ".minnctapersm 2"])):
        for compile_to in (cuda.compile_ptx, cuda.compile_ptx_for_current_device):
            ptx, _ = compile_to(scale, signature, launch_bounds=bounds)
            assert re.findall(r"(?m)^\.m\w+ .*$", ptx) == said
            assert assemble(ptx)
    with pytest.raises(ValueError, match="Got 4 launch bounds:"):
        cuda.compile_ptx(scale, signature, launch_bounds=(128, 2, 4, 8))
    with pytest.raises(ValueError, match="a kernel; say device=False"):
        cuda.compile(add, "int32(int32, int32)", launch_bounds=128)


def test_no_option_goes_unheard() -> None:
    signature = "int32(int32, int32)"
    with pytest.raises(ValueError, match="Can only designate forced inlining in LTO-IR"):
        cuda.compile(add, signature, forceinline=True)
    for info, abi in (({"name": "f"}, "c"), ("f", "c"), ({"abi_name": "f"}, "numba")):
        with pytest.raises(ValueError, match="abi_info="):
            cuda.compile(add, signature, abi_info=info, abi=abi)
    assert cuda.compile(add, signature, abi_info={}, abi="numba")[0]


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


WITHOUT_WHEELS = """
import importlib.metadata, math
def files(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.files = files
import haulage
from haulage import cuda
from haulage.compiler.gpu.nvidia import libdevice, toolkit
toolkit.TOOLKITS = ({folder!r},)
"""


def test_without_libdevice_only_what_needs_it_fails(tmp_path) -> None:
    program = f"""{WITHOUT_WHEELS.format(folder=str(tmp_path))}
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
    found = without_toolkit()
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
    assert "pip install '.[nvidia]' in the checkout of Haulage" in error
    assert str(tmp_path) in error


def without_toolkit() -> dict[str, str]:
    """The environment without the variables that name one."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "CONDA"))
    }


@pytest.mark.skipif(sys.platform == "win32", reason="programs are found by their mode here")
def test_libdevice_of_the_toolkit_whose_compiler_is_on_the_path_is_found(tmp_path) -> None:
    home = tmp_path / "cuda-13.0"
    for name in ("bin/nvcc", "bin/ptxas", "nvvm/libdevice/libdevice.10.bc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch(0o755)
    links = tmp_path / "links"
    links.mkdir()
    (links / "nvcc").symlink_to(home / "bin" / "nvcc")
    program = f"""{WITHOUT_WHEELS.format(folder=str(tmp_path))}
print(libdevice.find(), toolkit.program("nvidia-cuda-nvcc", "ptxas"))
"""
    path = os.pathsep.join([str(links), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=without_toolkit() | {"PATH": path},
    )
    assert done.stdout.split() == [
        str(home / "nvvm/libdevice/libdevice.10.bc"),
        str(home / "bin/ptxas"),
    ]


def test_a_libdevice_that_cannot_be_read_is_named(tmp_path, monkeypatch) -> None:
    def wave(x):
        x[0] = math.sin(x[0])

    file = tmp_path / "libdevice.10.bc"
    file.write_bytes(b"no bitcode")
    monkeypatch.setattr(libdevice, "find", lambda: file)
    monkeypatch.setattr(libdevice, "_bitcode", file.read_bytes)
    with pytest.raises(CompileError, match=re.escape(str(file))):
        haulage.compile(wave, "void(float64[::1])", "sm_90")


def test_mathematics_is_in_the_text_itself() -> None:
    def wave(x):
        x[0] = math.sin(x[0])

    code = haulage.compile(wave, "void(float64[::1])", "sm_90")
    assert not re.search(r"(?m)^\.extern", code.asm)
