"""Divisions of 128-bit integers, which LLVM leaves to functions."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage.backends.cpu_driver import elf
from haulage.backends.cpu_driver.loader import Loader
from nodevice.backends.cpu_driver.cpu_objects import host_object

DIVIDE = """
define i64 @divide(ptr %at) {{
  %n = load i128, ptr %at
  %d.at = getelementptr i128, ptr %at, i64 1
  %d = load i128, ptr %d.at
  %found = {operation} i128 %n, %d
  store i128 %found, ptr %at
  ret i64 0
}}
"""

NAMES = {"udiv": "__udivti3", "urem": "__umodti3", "sdiv": "__divti3", "srem": "__modti3"}
WIDE = st.one_of(st.integers(0, 2**128 - 1), st.integers(0, 2**64 + 1), st.integers(0, 9)).map(
    lambda n: n % 2**128
)


@pytest.fixture(scope="module")
def functions():
    loader, made, modules = Loader(), {}, []
    for operation, name in NAMES.items():
        code = host_object(DIVIDE.format(operation=operation))
        assert elf.symbols(code)[1] == [name]
        modules.append(loader.load(code))
        address = loader.function(modules[-1], "divide")
        made[operation] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
    yield made
    for module in modules:
        loader.unload(module)


def signed(n):
    return n - 2**128 if n >> 127 else n


def truncated(n, d):
    quotient = abs(n) // abs(d)
    return quotient if (n < 0) == (d < 0) else -quotient


@given(n=WIDE, d=WIDE.filter(bool), negative=st.tuples(st.booleans(), st.booleans()))
def test_each_is_exact(functions, n, d, negative):
    n, d = (
        -x % 2**128 if is_negative else x for x, is_negative in zip((n, d), negative, strict=True)
    )
    expected = {"udiv": n // d, "urem": n % d}
    if (signed(n), signed(d)) != (-(2**127), -1):
        quotient = truncated(signed(n), signed(d))
        expected |= {"sdiv": quotient, "srem": signed(n) - quotient * signed(d)}
    for operation, found in expected.items():
        room = ctypes.create_string_buffer(48)
        at = -(-ctypes.addressof(room) // 16) * 16
        ctypes.memmove(at, n.to_bytes(16, "little") + d.to_bytes(16, "little"), 32)
        functions[operation](at)
        assert int.from_bytes(ctypes.string_at(at, 16), "little") == found % 2**128
