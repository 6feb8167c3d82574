"""Affine forms of values, on a small function."""

import pytest

from haulage.compiler.simt.analysis.affine import THREAD, AffineForms, AvailableForms, forms
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Operand
from nodevice.compiler.simt.llvm_models import model_of

VALUES = """
define i32 @kernel(i32 range(i32 0, 1024) %threadIdx.x, i32 %threadIdx.y, i64 %n, i64 %m, ptr %p) {
entry:
  %x = zext i32 %threadIdx.x to i64
  %y = zext i32 %threadIdx.y to i64
  %twice = shl nsw i64 %x, 1
  %odd = or disjoint i64 %twice, 1
  %next = add nsw i64 %n, 1
  %after = add nsw i64 %next, %odd
  %wraps = add i64 %x, %n
  %rows = mul nsw i64 %odd, %m
  %square = mul nsw i64 %x, %x
  %minus = xor i64 %x, -1
  %at = getelementptr inbounds double, ptr %p, i64 %wraps
  %own = load i64, ptr %at
  %read = add nsw i64 %own, %x
  %c = icmp slt i64 %x, 0
  %length = select i1 %c, i64 %n, i64 0
  %index = add i64 %x, %length
  ret i32 0
}
"""


def terms(form):
    return {
        "*".join(each.value[1:] for each in key): value for key, value in form.monomials.items()
    }


@pytest.mark.parametrize(
    ("value", "expected", "exact"),
    [
        ("7", {"": 7}, True),
        ("%x", {"threadIdx.x": 1}, True),
        # Taken as signed the index may be another number.
        ("%y", {"threadIdx.y": 1}, False),
        ("%odd", {"threadIdx.x": 2, "": 1}, True),
        ("%after", {"n": 1, "threadIdx.x": 2, "": 2}, True),
        ("%wraps", {"threadIdx.x": 1, "n": 1}, False),
        ("%rows", {"m*threadIdx.x": 2, "m": 1}, True),
        ("%square", {"threadIdx.x*threadIdx.x": 1}, True),
        ("%minus", {"": -1, "threadIdx.x": -1}, True),
        ("%at", {"p": 1, "threadIdx.x": 8, "n": 8}, False),
        ("%read", {"own": 1, "threadIdx.x": 1}, True),
        ("%index", {"threadIdx.x": 1, "length": 1}, False),
    ],
)
def test_forms_are_sums_of_products_and_tell_whether_they_wrap(value, expected, exact):
    function = model_of(VALUES)
    form = AffineForms(function.items(), ranges=ValueRanges(Analyses(function))).of(
        Operand("i64", value)
    )
    assert (terms(form), form.exact) == (expected, exact)


def test_what_is_added_to_negative_indices_can_be_left_out():
    forms = AffineForms(model_of(VALUES).items(), wraparound=False)
    assert terms(forms.of(Operand("i64", "%index"))) == {"threadIdx.x": 1}


def available():
    function = model_of(VALUES)
    varying = {"%threadIdx.x", "%threadIdx.y", "%x", "%y", "%twice", "%odd", "%after", "%wraps"}
    varying |= {"%rows", "%square", "%minus", "%own", "%read", "%at"}
    parameters = {each.name for each in function.parameters}
    return AvailableForms(function.items(), varying, parameters, ValueRanges(Analyses(function)))


@pytest.mark.parametrize("value", ["%y", "%wraps", "%square", "%own", "%read"])
def test_a_region_begins_with_no_form_that_wraps_or_asks_for_what_it_makes(value):
    assert available().of(Operand("i64", value)) is None


def test_a_region_begins_with_forms_in_indices_and_uniform_values():
    forms = available()
    after = forms.of(Operand("i64", "%after"))
    # The uniform part is not looked into.
    assert [(term.value, factor) for term, factor in after.terms] == [("%next", 1)]
    assert (after.constant, after.steps, after.products) == (1, (2, 0, 0), ())
    ((factor, scaled),) = forms.of(Operand("i64", "%rows")).products
    assert factor.value == "%m"
    assert scaled.monomials == {(THREAD[0],): 2, (): 1}
    n, following = (forms.of(Operand("i64", name)) for name in ("%n", "%next"))
    assert forms.are_equal(n.plus(forms.of(Operand("i64", "1"))), following)
    assert not forms.are_equal(n, following)


CASTS = """
define i32 @kernel(i32 %a, i32 %b, i32 range(i32 0, 9) %few) {
entry:
  %product = mul i32 %a, %b
  %signed = sext i32 %product to i64
  %unsigned = zext i32 %a to i64
  %kept = zext i32 %few to i64
  %own = sext i32 %a to i64
  %low = trunc i64 %own to i8
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("value", "expected", "modular"),
    [
        ("%signed", {"a*b": 1}, {"signed": 1}),
        ("%unsigned", {"a": 1}, {"unsigned": 1}),
        ("%kept", {"few": 1}, {"few": 1}),
        ("%own", {"a": 1}, {"a": 1}),
        ("%low", {"a": 1}, {"a": 1}),
    ],
)
def test_modular_forms_do_not_look_through_casts_to_another_number(value, expected, modular):
    analyses = Analyses(model_of(CASTS))
    operand = Operand(analyses.items[value].type, value)
    ranges = analyses.get(ValueRanges)
    assert terms(AffineForms(analyses.items, ranges=ranges).of(operand)) == expected
    assert terms(analyses.get(forms).of(operand)) == modular
