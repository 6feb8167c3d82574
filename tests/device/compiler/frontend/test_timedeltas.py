"""Quotients and remainders of timedeltas, rounded as NumPy's."""

import operator

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


OPERATORS = (operator.floordiv, operator.imod, operator.mod)
UNITS = [("s", "s"), ("D", "s"), ("M", "Y"), ("generic", "generic")]


@pytest.mark.parametrize(
    ("of", "units"),
    [
        *((of, units) for of in OPERATORS for units in UNITS),
        *((of, ("s", "s")) for of in (np.floor_divide, np.remainder)),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide|invalid):RuntimeWarning")
def test_timedeltas_are_divided_as_in_numpy(of, units):
    def kernel(out, a, b):
        for i in range(a.size):
            for j in range(b.size):
                out[i, j] = of(a[i], b[j])

    values = ([7, -7, 2, -2, 6, 0, "NaT"], [3, -3, 2, -2, 0, "NaT"])
    a, b = (np.array(v, f"m8[{unit}]") for v, unit in zip(values, units, strict=True))
    wanted = of(a[:, None].copy(), b) if of is not operator.imod else a[:, None] % b
    out = np.empty_like(wanted)
    cuda.jit(kernel)[1, 1](out, a, b)
    np.testing.assert_array_equal(out.view("i8"), wanted.view("i8"))
