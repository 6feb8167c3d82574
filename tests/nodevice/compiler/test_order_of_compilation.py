"""What a kernel means does not depend on what the process did before: which kernels it compiled in
which order, and what else it used Numba for."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import cuda

EXPRESSIONS = [
    *(
        "a.sum()",
        "a.argmin()",
        "a.sum",
        "np.sum(a)",
        "np.mean(a)",
        "np.interp(x, a, a)",
        "np.isclose(x, y)",
    ),
    *(
        "np.real(x)",
        "np.linalg.norm(a)",
        "np.random.random()",
        "random.random()",
        "max(i, x)",
        "min(t)",
    ),
    *(
        "max(days, days)",
        "sum(t)",
        "sorted(t)",
        "set(t)",
        "numba.typed.List()",
        "numba.literally(3)",
    ),
    *("heapq.heappop(a)", "a[1:][0]", "a.item(2)", "i in t", "np.sign(x)"),
]

# Loads Numba's modules for the host, and compiles some of what they have.
BEFORE = """
import numba, numba.cuda, numba.typed, numba.experimental
import numpy as np
numba.njit(lambda x: x.sum())(np.ones(3))
numba.vectorize(lambda x: x + 1)(np.ones(3))
"""

PROGRAM = """
import heapq, json, math, random, sys
import numba
import numpy as np
from haulage import cuda

expressions = json.loads(sys.argv[1])
days = np.timedelta64(3, "D")
results = {}
for text in expressions:
    known = dict(globals())
    exec("def kernel(out, a, x, y, i, t):\\n    out[0] = " + text, known)
    out = np.zeros(1)
    try:
        cuda.jit(known["kernel"])[1, 1](out, np.arange(6.0) + 1, 2.5, -0.0, 2, (3, 2, 1))
        results[text] = out[0]
    except Exception as error:
        results[text] = type(error).__name__ + ": " + str(error)
print(json.dumps(results))
"""


def outcomes(before: str, expressions: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", before + PROGRAM, json.dumps(expressions)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="starts processes of the CPU device")
def test_kernels_mean_the_same_whatever_came_before() -> None:
    started = [outcomes("", EXPRESSIONS), outcomes(BEFORE, EXPRESSIONS[::-1])]
    told = []
    for process in started:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        told.append(json.loads(out))
    fresh, later = told
    assert {text: later[text] for text in fresh} == fresh
    assert "CompileError" in fresh["a.sum()"]
    assert "NumPy's arrays have it on the host only" in fresh["a.sum()"]
    assert "numpy.sum is a function of the host" in fresh["np.sum(a)"]
    assert (fresh["max(i, x)"], fresh["sum(t)"], fresh["a[1:][0]"]) == (2.5, 6, 2)


def test_a_kernel_has_its_own_flags_after_another_with_fast_mathematics() -> None:
    def kernel(x):
        x[0] = np.log1p(x[0]) + np.power(x[1], x[2])

    def lowered(**options: bool) -> str:
        made = haulage.compile(cuda.jit(**options)(kernel), "void(complex128[::1])")
        return made.stages["lowered"]

    assert " fast " in lowered(fastmath=True)
    assert " fast " not in lowered()
    assert lowered(fastmath=True).count(" fast ") > 20


# Kernels that share a function of the user's, words of mathematics, libdevice's functions that
# round in a direction, and NumPy's functions: with fast mathematics, and without.
FAST_AND_EXACT = """
import json, math, re, sys
import numpy as np
from haulage import cuda
from haulage.cuda import libdevice

@cuda.jit(device=True)
def shared(x, y):
    return math.sqrt(x) * y + math.exp(x - y) / x

@cuda.vectorize(["float64(float64, float64)"])
def ratio(x, y):
    return x * y / (x + y)

def words(x, c):
    x[0] = shared(x[0], x[1]) + math.pow(x[1], x[2]) + x[2] % x[0]
    x[1] = libdevice.fma_ru(x[0], x[1], x[2]) + libdevice.dsqrt_rd(x[1])
    x[2] = libdevice.ddiv_ru(x[2], x[1]) + np.hypot(x[1], x[2]) + np.floor_divide(x[0], x[1])
    c[0] = np.log1p(c[0])
    for i in range(3, x.size):
        x[i] = libdevice.fma_ru(x[i], 1 / 3.0, 0.1)

texts, results = {}, {}
for fast in json.loads(sys.argv[1]):
    kernel = cuda.jit(fastmath=fast)(words)
    x, c = np.array([0.3, 1.7, 2.9, *(np.arange(1, 9) / 7)]), np.array([0.2 + 0.7j])
    kernel[1, 1](x, c)
    (text,) = kernel.inspect_llvm().values()
    # The number of a function is how many Numba has compiled.
    texts[fast] = re.sub(r"B[0-9]+v[0-9]+", "", text)
    results[fast] = [each.view(np.int64).tolist() for each in (x, c, ratio(x, x + 1))]
print(json.dumps([texts, results]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="starts processes of the CPU device")
def test_fast_and_exact_kernels_are_the_same_in_either_order() -> None:
    # Numba goes over sets of names, whose order is that of their hashes.
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", FAST_AND_EXACT, json.dumps(order)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for order in ([True, False], [False, True])
    ]
    told = []
    for process in started:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        told.append(json.loads(out))
    (fast_first, results), (exact_first, others) = told
    assert results == others
    # What rounds in a direction does so with fast mathematics, too.
    assert results["true"][0][3:] == results["false"][0][3:]
    for fast in ("true", "false"):
        assert fast_first[fast] == exact_first[fast]
    assert " fast " in fast_first["true"]
    assert " fast " not in fast_first["false"]
