"""Mathematics on NVIDIA's GPUs: every function has a body in the code, mostly libdevice's."""

import cmath
import math
import operator
import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba.np import ufunc_db

import haulage
from doubles.nvidia_code import words
from doubles.ptxas import assemble
from haulage import cuda
from haulage.compiler.gpu.nvidia import libdevice as library
from haulage.lang.libdevice import words as libdevice_words
from haulage.lang.libdevice.function import Defined

_WORDS = [word for word in vars(libdevice_words).values() if isinstance(word, Defined)]
_LLVM_TYPES = {"h": "i16", "i": "i32", "l": "i64", "f": "float", "d": "double"}
_TYPES = {"h": "int16", "i": "int32", "l": "int64", "f": "float32", "d": "float64"}


def kernel(lines, parameters, **names):
    """A kernel of some lines of Python."""
    body = "\n".join(f"    {line}" for line in lines)
    scope = {"cuda": cuda, "math": math, "cmath": cmath, "np": np, "operator": operator, **names}
    exec(f"def kernel({parameters}):\n{body}\n", scope)
    return scope["kernel"]


def check_that_all_is_there(code):
    """Nothing is left that would have to be linked, and the assembler takes it."""
    assert ".extern .func" not in code.asm
    assemble(code.asm, "-O0")


@pytest.fixture(scope="module")
def declared():
    """The functions of libdevice."""
    module = llvm.parse_bitcode(library.find().read_bytes())
    return {each.name: each for each in module.functions if each.name.startswith("__nv_")}


def test_each_word_has_the_types_that_the_library_declares(declared) -> None:
    assert len(_WORDS) == 317
    for word in _WORDS:
        function = declared[word.library_name]
        given = [str(argument.type) for argument in function.arguments]
        pointers = ["ptr"] * len(word.pointers)
        assert given == [_LLVM_TYPES[letter] for letter in word.parameters] + pointers, word
        returned = str(function.global_value_type).partition(" (")[0]
        is_alone = len(word.results) > len(word.pointers)
        assert returned == (_LLVM_TYPES[word.results[0]] if is_alone else "void"), word


@pytest.mark.parametrize("part", range(4))
def test_each_function_of_libdevice_is_the_librarys_own(part: int) -> None:
    lines = []
    for place, word in enumerate(_WORDS[part::4]):
        values = ", ".join(f"{letter}[t]" for letter in word.parameters)
        if len(word.results) == 1:
            lines.append(f"{word.results}[t + {place}] = cuda.libdevice.{word.__name__}({values})")
        else:
            left = ", ".join(f"{letter}[t + {place}]" for letter in word.results)
            lines.append(f"{left} = cuda.libdevice.{word.__name__}({values})")
    made = kernel(["t = cuda.threadIdx.x", *lines], ", ".join(_TYPES))
    arrays = ", ".join(f"{kind}[::1]" for kind in _TYPES.values())
    code = haulage.compile(made, f"void({arrays})", "sm_90")
    called = set(re.findall(r"call [^@\n]*@(__nv_\w+)\(", code.stages["linked"]))
    assert called == {word.library_name for word in _WORDS[part::4]}
    check_that_all_is_there(code)


def test_fast_functions_are_the_hardwares() -> None:
    def fast(x):
        x[0] = cuda.libdevice.fast_sinf(x[1]) + cuda.libdevice.fast_log2f(x[2])
        x[1] = cuda.libdevice.rsqrtf(x[3])

    found = words(fast, "void(float32[::1])")
    assert "sin.approx.f32" in found
    assert "lg2.approx.f32" in found
    assert "rsqrt.approx.f32" in found


def names_of(module: str) -> list[str]:
    """The functions of a module that the page of mathematics has."""
    page = (Path(__file__).parents[5] / "docs" / "math.md").read_text()
    listed = re.search(rf"(?s)- `{module}`: (.*?)[;.]", page)
    assert listed is not None
    return [name for name in listed[1].split() if hasattr(globals()[module], name)]


_TWO = ("atan2", "copysign", "fmod", "hypot", "nextafter", "pow", "remainder")


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_functions_of_math_have_bodies(kind: str) -> None:
    lines = ["a, b = x[0], x[1]"]
    for place, name in enumerate(names_of("math")):
        call = f"math.{name}(a)"
        if name in _TWO:
            call = f"math.{name}(a, b)"
        elif name == "fma":
            call = "math.fma(a, b, a)"
        elif name == "ldexp":
            call = "math.ldexp(a, 3)"
        elif name == "gcd":
            call = "math.gcd(int(a), int(b))"
        elif name in ("frexp", "modf"):
            call = f"{call}[0] + {call}[1]"
        lines.append(f"out[{place}] = {call}")
    code = haulage.compile(kernel(lines, "x, out"), f"void({kind}[::1], float64[::1])", "sm_90")
    check_that_all_is_there(code)


def test_functions_of_cmath_and_operators_of_complex_numbers_have_bodies() -> None:
    lines = ["a, b = z[0], z[1]"]
    for place, name in enumerate(names_of("cmath")):
        if name == "rect":
            lines.append(f"z[{place}] = cmath.rect(a.real, b.real)")
        elif name == "polar":
            lines.append(f"z[{place}] = cmath.polar(a)[0] + cmath.polar(a)[1]")
        else:
            lines.append(f"z[{place}] = cmath.{name}(a)")
    for sign in ("+", "-", "*", "/", "**"):
        lines.append(f"z[2] = a {sign} b")
    lines.append("z[3] = abs(a) + a ** 3 + (a == b)")
    code = haulage.compile(kernel(lines, "z"), "void(complex128[::1])", "sm_90")
    check_that_all_is_there(code)


def ufuncs(kind: str) -> list[np.ufunc]:
    """NumPy's ufuncs of one or two numbers of a type that give real numbers and that Numba has."""
    found = []
    for each in sorted(ufunc_db.get_ufuncs(), key=lambda each: each.__name__):
        try:
            with np.errstate(all="ignore"):
                result = each(*(np.ones(1, kind),) * each.nin)
        except TypeError:
            continue
        parts = result if isinstance(result, tuple) else (result,)
        if all(part.dtype.kind in "biuf" for part in parts):
            found.append(each)
    return found


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_functions_of_numpy_have_bodies(kind: str) -> None:
    lines = ["a, b = x[0], x[1]"]
    for place, each in enumerate(ufuncs(kind)):
        arguments = ", ".join("ab"[: each.nin])
        call = f"np.{each.__name__}({arguments})"
        if each.nout == 2:
            call = f"{call}[0] + {call}[1]"
        lines.append(f"out[{place}] = {call}")
    assert len(lines) > 50
    code = haulage.compile(kernel(lines, "x, out"), f"void({kind}[::1], float64[::1])", "sm_90")
    check_that_all_is_there(code)
