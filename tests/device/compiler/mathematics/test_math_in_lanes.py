"""Mathematics in loops that threads leave at different times: the same bits as one by one."""

import math
import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.mathematics import definitions

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

OF_TWO = ("atan2", "hypot", "pow")
OF_NUMPY = ("cbrt", "exp2", "log2")
NAMES = sorted(set(definitions.FUNCTIONS) - {"exp10"})
EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 1e-30, 7e5, 2e6, -3e7, 1e30)


def looping(names, kind):
    """A kernel whose threads go round a loop i % 3 + 1 times: `out[n, i]` is what function n of
    `names` made of x[i], or of x[i + 1] in every second turn."""
    results = [f"r{n}" for n in range(len(names))]
    lines = [
        "def kernel(x, out):",
        "    i = cuda.grid(1)",
        "    if i < out.shape[1]:",
        "        k, a, b = 0, x[i], x[i + 1]",
        f"        {' = '.join(results)} = a",
        "        while k <= i % 3:",
    ]
    for result, name in zip(results, names, strict=True):
        module = "np" if name in OF_NUMPY else "math"
        lines.append(f"            {result} = {module}.{name}({'a, b' if name in OF_TWO else 'a'})")
    lines.append("            k, a, b = k + 1, b, a")
    lines += [f"        out[{n}, i] = {result}" for n, result in enumerate(results)]
    known = {"cuda": cuda, "math": math, "np": np}
    exec("\n".join(lines), known)
    return known["kernel"]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("part", range(3))
@pytest.mark.emitted
def test_functions_give_a_lane_the_bits_that_a_thread_alone_gets(monkeypatch, kind, part):
    names = NAMES[part::3]
    random = np.random.default_rng(part)
    x = np.concatenate([EDGES, random.standard_normal(60), 10 ** random.uniform(-8, 8, 60)])
    kernel, numbers = looping(names, kind), cuda.to_device(x.astype(kind))
    code = haulage.compile(kernel, f"void({kind}[::1], {kind}[:,::1])", block=48)
    vectors = set(re.findall(r"@haulage\.math\.(\w+)\.v\d+f\d\d\(", code.stages["blocks"]))
    assert vectors == set(names)
    results = []
    for way in ("regions", "scalar"):
        monkeypatch.setenv("HAULAGE_CPU_THREADS", way)
        out = cuda.to_device(np.zeros((len(names), 130), kind))
        cuda.jit(kernel)[3, 48](numbers, out)
        results.append(out.copy_to_host())
    together, alone = (each.view(f"u{each.itemsize}") for each in results)
    both_nan = np.isnan(results[0]) & np.isnan(results[1])
    different = (together != alone) & ~both_nan
    assert [names[n] for n in np.flatnonzero(different.any(axis=1))] == []
