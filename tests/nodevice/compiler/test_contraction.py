"""Which products and sums are fused, by the text of the clean body and by values."""

import re

import pytest

import haulage
from haulage import cuda
from haulage.compiler.contraction import contract
from haulage.targets import cpu

SIGNATURE = "void(float32[::1], float32[::1], float32[::1], float32[::1])"


def sums(a, b, c, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * b[i] + c[i]


def fused(text, words=r"call .*@llvm\.fma\."):
    return len(re.findall(words, text))


@pytest.mark.parametrize("options", [{}, {"fastmath": False}, {"fastmath": {"contract"}}])
def test_products_and_sums_are_one_operation_whatever_fastmath_says(options):
    clean = haulage.compile(sums, SIGNATURE, **options).stages["clean"]
    assert fused(clean) == 1
    assert "fmul" not in clean
    assert "contract" not in clean


def test_single_flags_of_fastmath_reach_the_code():
    code = haulage.compile(sums, SIGNATURE, fastmath={"nnan", "nsz"})
    assert "call nnan nsz float @llvm.fma.f32" in code.stages["clean"]
    everything = haulage.compile(sums, SIGNATURE, fastmath=True).stages["clean"]
    assert "fmul fast float" in everything
    assert "fadd fast float" in everything


FUNCTION = """define float @f(float %a, float %b, float %c) {{
entry:
{lines}
  ret float %r
}}
"""


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("%r = fadd contract float %p, %c", ["call float @llvm.fma.f32(float %a, float %b, "
                                             "float %c)"]),
        ("%r = fadd contract float 1.0, %p", ["(float %a, float %b, float 1.0)"]),
        ("%r = fsub contract float %p, %c", ["%r.negated = fneg float %c", "float %r.negated)"]),
        ("%r = fsub contract float %c, %p", ["%r.negated = fneg float %a", "float %c)"]),
    ],
)  # fmt: skip
def test_a_product_becomes_part_of_the_sum(line, made):
    lines = f"  %p = fmul contract float %a, %b\n  {line}"
    text = contract(FUNCTION.format(lines=lines), cpu.host())
    assert all(each in text for each in made)
    assert "fmul" not in text


@pytest.mark.parametrize(
    "lines",
    [
        # Used twice.
        "  %p = fmul contract float %a, %b\n  %q = fadd contract float %p, %c\n"
        "  %r = fdiv contract float %q, %p",
        # One of them may not be fused.
        "  %p = fmul float %a, %b\n  %r = fadd contract float %p, %c",
        "  %p = fmul contract float %a, %b\n  %r = fadd float %p, %c",
        # In another block, which may be another piece.
        "  %p = fmul contract float %a, %b\n  br label %next\nnext:\n"
        "  %r = fadd contract float %p, %c",
    ],
)
def test_other_products_stay_and_nothing_later_may_fuse_them(lines):
    text = contract(FUNCTION.format(lines=lines), cpu.host())
    assert text == FUNCTION.format(lines=lines).replace("contract ", "")
