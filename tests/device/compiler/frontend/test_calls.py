"""Calls of functions in kernels: each argument goes to the parameter that Python gives it to."""

import math
import random
import re

import numba
import numpy as np
import pytest
from numba.extending import intrinsic, overload, overload_method

from device.compiler.frontend.random_calls import call, expected, function, kernel
from haulage import cuda
from haulage.errors import CompileError

pytestmark = pytest.mark.usefixtures("device")

MAKERS = [cuda.jit(device=True), lambda function: function, numba.njit(inline="always")]


def results(program, count):
    out = np.zeros(count, np.int64)
    program[1, 1](out)
    return out.tolist()


@pytest.mark.parametrize("inner", [False, True])
def test_arguments_go_where_python_gives_them(inner):
    draw = random.Random(3 + inner)
    functions = [function(draw, f"f{number}", inner=inner) for number in range(4)]
    texts = [each.text for each in functions]
    calls = sorted({call(draw, each) for each in functions for _ in range(8)})
    wanted = dict(zip(calls, expected(texts, calls), strict=True))
    right = {each: value for each, value in wanted.items() if isinstance(value, int)}
    wrong = sorted(wanted.keys() - right.keys())
    makers = None if inner else MAKERS
    program = kernel(texts, list(right), makers)
    assert dict(zip(right, results(program, len(right)), strict=True)) == right
    for each in draw.sample(wrong, 4):
        with pytest.raises(CompileError, match=re.escape(str(wanted[each]))):
            results(kernel(texts, [each], makers), 1)


@cuda.jit(device=True)
def digits(a, b=10, *, c=100):
    return a + 1000 * b + 1000000 * c


@cuda.jit("int32(int32, int32, float64)", device=True)
def declared(a, b=7, *, c=0.5):
    return a + 10 * b + 1000 * c


@cuda.jit(device=True)
def sum_to(n, *, so_far=0, step):
    if n <= 0:
        return so_far
    return sum_to(n - step, step=step, so_far=so_far + n)


def rests(*rest):
    return len(rest) + 10 * length(rest) + 100 * length(*rest) + 1000 * length(1, *rest)


def length(*rest):
    return len(rest)


def overloaded(a, b=10, *, c=100):
    raise NotImplementedError


@overload(overloaded, target="cuda")
def _overloaded(a, b=10, *, c=100):
    return lambda a, b=10, *, c=100: a + 1000 * b + 1000000 * c


@intrinsic(target="cuda")
def difference(context, a, *, b):
    return numba.int64(a, b), lambda context, builder, sig, args: builder.sub(*args)


def test_functions_of_every_making():
    @cuda.jit
    def kernel(out):
        out[0] = digits(1, 2, c=3)
        out[1] = digits(b=2, a=1)
        out[2] = declared(2.7) + 100000 * declared(c=3, a=1)
        out[3] = sum_to(6, step=2) + 100 * sum_to(step=1, so_far=5, n=3)
        out[4] = rests(4, 5, 6)
        out[5] = overloaded(1, c=3)
        out[6] = difference(b=3, a=5)

    assert results(kernel, 7) == [
        *(3002001, 100002001, 307100572, 1112, 4313, 3010001, 2),
    ]


def test_functions_of_ufuncs():
    @cuda.vectorize
    def scaled(x, /, *, by=3):
        return by * x + digits(x, c=1)

    @cuda.guvectorize(["void(int64[:], int64[:])"], "(n)->()")
    def first(x, out, *, by=3):
        out[0] = by * x[0] + digits(b=1, a=x[1], c=0)

    assert scaled(np.array([2])).tolist() == [1010008]
    assert first(np.array([[2, 5]])).tolist() == [1011]
    with pytest.raises(TypeError, match="no others without a default"):
        cuda.vectorize(lambda x, *, by: by * x)
    with pytest.raises(CompileError, match="missing 1 required keyword-only argument: 'by'"):
        cuda.guvectorize(["void(int64[:], int64[:])"], "(n)->()")(lambda x, out, *, by: None)


def test_kernels_bind_their_arguments():
    @cuda.jit
    def kernel(out, a, /, b=2, *rest, c=None, d):
        out[0] = a + 10 * b + 100 * len(rest) + 1000 * (0 if c is None else c) + 10000 * d

    out = np.zeros(1, np.int64)
    for args, named in [
        ((1,), {"d": 4}),
        ((1, 3, 5, 5), {"d": 4, "c": 7}),
        ((1,), {"d": 4, "b": 6}),
    ]:
        kernel[1, 1](out, *args, **named)
        plain = np.zeros(1, np.int64)
        kernel.py_func(plain, *args, **named)
        assert out == plain
    for args, named in [((1,), {}), ((), {"a": 1, "d": 2}), ((1, 2), {"b": 3, "d": 4})]:
        with pytest.raises(TypeError):
            kernel[1, 1](out, *args, **named)


def test_equal_defaults_that_differ():
    functions = [
        cuda.jit(device=True)(lambda x=0.0: math.copysign(1, x)),
        cuda.jit(device=True)(lambda x=-0.0: math.copysign(1, x)),
        cuda.jit(device=True)(lambda x=(3, 0.0): x[0] / 2 + math.copysign(1, x[1])),
        cuda.jit(device=True)(lambda x=(3.0, -0.0): x[0] / 2 + math.copysign(1, x[1])),
    ]
    a, b, c, d = functions

    @cuda.jit
    def kernel(out):
        out[0], out[1], out[2], out[3] = a(), b(), c(), d()

    out = np.zeros(4)
    kernel[1, 1](out)
    assert out.tolist() == [each.py_func() for each in functions] == [1, -1, 2.5, 0.5]


def test_inner_functions_call_one_another():
    @cuda.jit
    def kernel(out):
        count = by = 0

        def one(a, b=3, *, c):
            nonlocal count
            count += 1
            return a + 10 * b + 100 * c + by

        def other(q, *rest):
            return one(q, c=len(rest)) + 1000 * one(c=1, a=q, b=2)

        by = 5000
        out[0] = other(1, 2, 3)
        out[1] = count

    assert results(kernel, 2) == [5126231, 2]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("keywords(1)", r"\(\): a kernel's function cannot take \*\*keywords"),
        ("digits(*t, 2, c=3)", "cannot call with .arguments and keywords together"),
        ("inner(*t)", r"inner\(\): .* inside it with \*arguments; write them out"),
        ("out.of(1)", "a method made by overload_method cannot have keyword-only"),
    ],
)
def test_what_cannot_be_bound_is_refused(line, why):
    known = {**globals(), "keywords": lambda a, **others: a}
    text = f"def kernel(out):\n t = (1,) if out[0] else (2,)\n def inner(a): return a\n {line}\n"
    exec(text, known)
    with pytest.raises(CompileError, match=why):
        results(cuda.jit(known["kernel"]), 1)


@overload_method(numba.types.Array, "of", target="cuda")
def _of(array, a, *, b=1):
    return lambda array, a, *, b=1: a + b


def test_inner_functions_have_no_defaults_of_keyword_only_parameters():
    @cuda.jit
    def kernel(out):
        def inner(*, a=1):
            return a

        out[0] = inner()

    with pytest.raises(CompileError, match="cannot have defaults for keyword-only parameters"):
        results(kernel, 1)
