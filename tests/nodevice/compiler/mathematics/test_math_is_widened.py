"""The code of mathematics in kernels: vectors, and no call for each number."""

import math
import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.mathematics import definitions


def code_of(name, kind):
    of_two = name in ("atan2", "hypot", "pow")
    module = "np" if name in ("cbrt", "exp2", "log2") else "math"
    known = {"cuda": cuda, "math": math, "np": np}
    exec(
        "def kernel(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n"
        f"        y[i] = {module}.{name}({'x[i], y[i]' if of_two else 'x[i]'})\n",
        known,
    )
    return haulage.compile(known["kernel"], f"void({kind}[::1], {kind}[::1])", block=64)


def functions_of(text):
    """{name: body} of the functions that a module's text defines."""
    return dict(re.findall(r"(?ms)^define [^@]*@([\w.]+)\(.*?\{(.*?)^\}", text))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(set(definitions.FUNCTIONS) - {"exp10"}))
def test_functions_are_widened_and_call_nothing_for_each_thread(name, kind):
    code = code_of(name, kind)
    scalar = "float" if kind == "float32" else "double"
    functions = functions_of(code.stages["llvm"])
    body = functions.pop("haulage.block")
    assert re.search(rf"(load |call )<\d+ x {scalar}>[^\n]*(load|ptr)", body)
    called = set(re.findall(r"call [^@\n]*@([\w.]+)\(", body))
    # What is left of a block beyond whole vectors goes one by one.
    far = rf"haulage\.far\.{name}\.f\d\d(\.\d+\.lanes)?"
    assert [each for each in called if not re.fullmatch(rf"llvm\..*|{far}", each)] == []
    assert any(each.endswith(".lanes") for each in called) == (name in ("sin", "cos", "tan"))


def test_the_vector_functions_for_large_arguments_that_nobody_calls_are_dropped():
    functions = functions_of(code_of("sin", "float32").stages["llvm"])
    assert len([name for name in functions if name.endswith(".lanes")]) <= 3


@pytest.mark.parametrize(("exponent", "products"), [(2, 1), (3, 2), (-2, 1), (7, 4), (0, 0)])
def test_powers_with_constant_exponents_are_products(exponent, products):
    known = {"cuda": cuda}
    exec(f"def kernel(x, y):\n    i = cuda.grid(1)\n    y[i] = x[i] ** {exponent}\n", known)
    code = haulage.compile(known["kernel"], "void(float32[::1], float32[::1])", block=64)
    clean = code.stages["clean"]
    assert clean.count("= fmul ") == products
    assert " = phi " not in clean


def test_a_complex_quotient_is_three_divisions_of_vectors_and_no_branch():
    def quotients(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = x[i] / y[i]

    code = haulage.compile(quotients, "void(complex128[::1], complex128[::1])", block=64)
    assert code.stages["clean"].count(" = fdiv double ") == 3
    assert re.search(r"fdiv <\d+ x double>", code.stages["llvm"])
