"""Bessel's functions for AMD's GPUs, run here with the C library's of orders 0 and 1 in them."""

import ctypes
import ctypes.util
import math
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from haulage.compiler.gpu.amd.bessel import DEFINITIONS
from haulage.targets.cpu import target_machine

_LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))


def _known(name: str) -> Callable[[int, float], float]:
    function = getattr(_LIBRARY, name)
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_double]
    result: Callable[[int, float], float] = function
    return result


@pytest.mark.parametrize("name", ["jn", "yn"])
def test_they_are_those_of_the_c_library(name: str) -> None:
    text = DEFINITIONS[name].replace(f"internal double @{name}", "double @tried")
    for order in (0, 1):
        text = text.replace(f"@__ocml_{name[0]}{order}_f64", f"@{name[0]}{order}")
        address = ctypes.cast(getattr(_LIBRARY, f"{name[0]}{order}"), ctypes.c_void_p).value
        llvm.add_symbol(f"{name[0]}{order}", address)
    machine = target_machine("generic", "")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.c_double)
    tried, known = kind(engine.get_function_address("tried")), _known(name)
    for n in (0, 1, 2, 3, 7, 10, 31, 100):
        for x in (1e-200, 0.001, 0.5, 1.0, 2.5, 9.9, 10.0, 30.0, 99.0, 250.0, 1e5):
            wanted, got = known(n, x), tried(n, x)
            scale = max(abs(wanted), 1e-3 if abs(wanted) > 1e-250 and x > n else 0.0)
            assert got == wanted or abs(got - wanted) <= 1e-12 * scale + 1e-300, (n, x, got, wanted)
    assert tried(3, 0.0) == known(3, 0.0)
    assert math.isnan(tried(2, math.nan))
    if name == "jn":
        assert tried(3, -2.0) == -tried(3, 2.0)
        assert tried(2, -2.0) == tried(2, 2.0)
