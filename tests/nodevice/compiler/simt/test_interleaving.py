"""Where wide accesses of LLVM's would pass over others of the same thread, on small functions."""

import pytest

from haulage.compiler.simt.analysis.interleaving import Interleaving
from haulage.compiler.simt.analysis.manager import Analyses
from nodevice.compiler.simt.llvm_models import model_of

# x[2t], x[2t + 1] and z[t], in parameters of a kernel or its own %room.
ADDRESSES = """
  %wide = zext i32 %threadIdx.x to i64
  %n.wide = zext i32 %n to i64
  %b.wide = zext i32 %blockDim.x to i64
  %two = shl nuw nsw i64 %wide, 1
  %even = getelementptr i32, ptr %x, i64 %two
  %odd.index = or disjoint i64 %two, 1
  %odd = getelementptr i32, ptr %x, i64 %odd.index
  %k = load i64, ptr %keys
  %any = getelementptr i32, ptr %x, i64 %k
  %far = getelementptr i32, ptr %even, i64 2
  %unit = getelementptr i32, ptr %z, i64 %wide
  %unit.too = getelementptr i8, ptr %unit, i64 4
  %own = getelementptr i32, ptr %room, i64 %two
  %rows = mul i64 %wide, %n.wide
  %row = getelementptr i32, ptr %x, i64 %rows
  %row.next = getelementptr i8, ptr %row, i64 4
  %columns = mul i64 %wide, %b.wide
  %column = getelementptr i32, ptr %x, i64 %columns
  %column.next = getelementptr i8, ptr %column, i64 4
"""


def changes_order(lines):
    made = []
    for number, line in enumerate(lines):
        action, place = line.split()
        made.append(
            f"  %v{number} = load i32, ptr %{place}"
            if action == "load"
            else f"  store i32 {number}, ptr %{place}"
        )
    text = (
        "define i32 @kernel(i32 %threadIdx.x, i32 %blockDim.x, i32 %n, ptr %x, ptr %z, ptr %keys, "
        "ptr %room) {\nentry:\n" + ADDRESSES + "\n".join(made) + "\n  ret i32 0\n}"
    )
    function = model_of(text)
    varying = {"%threadIdx.x", "%wide", "%two", "%even", "%odd.index", "%odd", "%k", "%any"}
    varying |= {"%far", "%unit", "%unit.too", "%own", "%rows", "%row", "%row.next"}
    varying |= {"%columns", "%column", "%column.next"}
    found = Interleaving(Analyses(function), frozenset(("%room",)), varying)
    return found.changes_order(list(function.blocks))


@pytest.mark.parametrize(
    "lines",
    [
        ("store even", "load any", "store odd"),
        ("store even", "store any", "store odd"),
        ("load even", "store any", "load odd"),
        # Another array that the kernel was given may be the same one.
        ("store even", "load unit", "store odd"),
        ("load even", "store unit", "load odd"),
        # Once the block's size is known, so is this step.
        ("store column", "load any", "store column.next"),
    ],
)
def test_accesses_that_pass_over_others_are_found(lines):
    assert changes_order(lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("store even", "store odd", "load any"),
        ("load even", "load any", "load odd"),
        # Certainly other memory: the block's own, or other bytes of the same element.
        ("store even", "load own", "store odd"),
        ("store even", "load far", "store odd"),
        # One step after the other is no wide access of this kind.
        ("store unit", "load any", "store unit.too"),
        # LLVM does not know the step.
        ("store row", "load any", "store row.next"),
    ],
)
def test_others_are_left_alone(lines):
    assert not changes_order(lines)


# x[2t + j] = j and z[t] = x[keys[t]] in turn j, until END.
TURNS = """
define i32 @kernel(i32 %threadIdx.x, i64 %n, ptr %x, ptr %z, ptr %keys) {
entry:
  %t = zext i32 %threadIdx.x to i64
  %key.at = getelementptr i64, ptr %keys, i64 %t
  %unit = getelementptr i32, ptr %z, i64 %t
  %factor = mul nsw i64 %t, FACTOR
  br label %loop
loop:
  %j = phi i64 [ 0, %entry ], [ %j.next, %loop ]
  %index = add i64 %factor, %j
  %own = getelementptr i32, ptr %x, i64 %index
  store i32 1, ptr %own
  %key = load i64, ptr %key.at
  %any = getelementptr i32, ptr %x, i64 %key
  %value = load i32, ptr %any
  store i32 %value, ptr %unit
  %j.next = add i64 %j, 1
  %done = icmp eq i64 %j.next, END
  br i1 %done, label %end, label %loop
end:
  ret i32 0
}
"""


def turns_change_order(end, factor="2"):
    function = model_of(TURNS.replace("END", end).replace("FACTOR", factor))
    varying = {"%threadIdx.x", "%t", "%key.at", "%unit", "%factor", "%index", "%own"}
    varying |= {"%key", "%any", "%value"}
    return Interleaving(Analyses(function), frozenset(), varying).changes_order(
        list(function.blocks)
    )


@pytest.mark.parametrize("end", ["2", "8", "%n"])
def test_turns_of_a_loop_that_llvm_may_unroll_pass_over_others(end):
    assert turns_change_order(end)


def test_turns_of_neighbouring_accesses_do_not():
    assert not turns_change_order("2", factor="1")
    assert not turns_change_order("%n", factor="%n")
