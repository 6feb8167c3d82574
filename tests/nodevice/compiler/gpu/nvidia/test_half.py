"""Halves are native numbers on NVIDIA's GPUs."""

import pytest

from doubles.nvidia_code import count, words
from haulage import cuda

_OPERATIONS = (
    ("a + b", "add.rn.f16"),
    ("a - b", "sub.rn.f16"),
    ("a * b", "mul.rn.f16"),
    ("h.hfma(a, b, c)", "fma.rn.f16"),
    ("-a", "neg.f16"),
    ("abs(a)", "abs.f16"),
    ("h.hmax(a, b)", "max.f16"),
    ("h.hmin(a, b)", "min.f16"),
)


def kernel(*lines: str):
    scope = {"cuda": cuda, "h": cuda.fp16}
    body = "\n".join(f"    {line}" for line in ("a, b, c = x[0], x[1], x[2]", *lines))
    exec(f"def kernel(x, out):\n{body}\n", scope)
    return scope["kernel"]


def test_operations_are_single_instructions() -> None:
    lines = [f"out[{n}] = {what}" for n, (what, _) in enumerate(_OPERATIONS)]
    found = words(kernel(*lines), "void(float16[::1], float16[::1])", "sm_80")
    assert [each for each in found if each.endswith("f16")] == [name for _, name in _OPERATIONS]
    assert not [each for each in found if "f32" in each or "f64" in each]


def test_a_product_and_a_sum_are_rounded_each() -> None:
    found = words(kernel("out[0] = a * b + c"), "void(float16[::1], float16[::1])")
    assert "mul.rn.f16" in found
    assert "add.rn.f16" in found


def test_comparisons_and_conversions_are_single_instructions() -> None:
    lines = ["if a < b:", "    out[0] = 1", "out[1] = a", "out[2] = int(b)"]
    found = words(kernel(*lines), "void(float16[::1], float64[::1])", "sm_75")
    assert {each for each in found if "f16" in each} == {
        "cvt.f64.f16",
        "setp.geu.f16",
        "cvt.rzi.s64.f16",
    }


def test_a_quotient_goes_by_way_of_float32() -> None:
    found = words(kernel("out[0] = a / b"), "void(float16[::1], float16[::1])")
    assert "div.rn.f32" in found
    assert not [each for each in found if "f64" in each]


@pytest.mark.parametrize("name", ["hlog", "hexp", "hlog2", "hexp10", "hrsqrt"])
def test_functions_are_worked_out_in_float32_first(name: str) -> None:
    made = kernel(f"out[0] = h.{name}(a)")
    found = words(made, "void(float16[::1], float16[::1])")
    first = next(n for n, each in enumerate(found) if each == "cvt.rn.f16.f32")
    assert not [each for each in found[:first] if "f64" in each]
    is_exact = count(made, "void(float16[::1], float16[::1])", "cvt.rn.f16.f64") == 0
    assert is_exact == (name == "hrsqrt")
