"""What a kernel means does not depend on what the process did before: which kernels it compiled in
which order, and what else it used Numba for."""

import json
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
