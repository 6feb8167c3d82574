"""The entry: loops over rows of blocks, and private copies of arrays that are only added to."""

from haulage.compiler import llvm
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit import entry
from haulage.compiler.simt.ir.model import Function, Parameter
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops.atomics import Array, Reduction
from haulage.compiler.simt.loops.block_coalescing import WideBlock
from haulage.targets.cpu import HIDDEN_NAMES

WORDS = {"dynamicShared": "ptr", "dynamicSharedBytes": "i64"}
HIDDEN = [Parameter(WORDS.get(name, "i32"), f"%{name}") for name in HIDDEN_NAMES]
ARRAY = Array("%items", "%itemsize", "%data", ("%items",), ("%itemsize",))
OTHER = Array("%n", "%size", "%x", ("%n",), ("%size",))


def _body(*user):
    parameters = (Parameter("ptr", "%ret"), *HIDDEN, *user)
    return Body("", Function(parameters, {}), (), (), False, False)


def _arrays(*arrays):
    for array in arrays:
        yield from (Parameter("i64", name) for name in (array.items, array.itemsize))
        yield Parameter("ptr", array.data)


def _checked(function):
    called = [item for item in function.instructions() if item.callee == "haulage.block"]
    (call,) = called
    kinds = ", ".join(operand.type for operand in call.operands)
    llvm.parse(f"declare i32 @haulage.block({kinds})\n\n{definition(function)}")
    return call


def test_blocks_of_a_row_follow_one_another_without_a_division():
    function = entry.write(_body(), 64, "zxy")
    call = _checked(function)
    (blocks,) = [block for block in function.blocks.values() if call in block.body]
    assert not {"udiv", "urem"} & {item.opcode for item in blocks.body}
    # The index along the innermost axis goes on from block to block.
    carried = {phi.result for phi in blocks.phis}
    x, y, z = (operand.text for operand in call.operands[:3])
    assert y in carried
    assert not {x, z} & carried


def test_a_wide_block_is_told_how_wide_it_is():
    function = entry.write(_body(), 64, "zyx", wide=WideBlock("x", 32, 128))
    call = _checked(function)
    assert function.items()[call.operands[-1].text].operands[1].number == 32


def test_copies_are_made_if_they_fit_and_nothing_overlaps_and_merged_at_the_end():
    user = [*_arrays(ARRAY, OTHER), Parameter("ptr", "%total.0")]
    total = Reduction(ARRAY, "i32", "add", "0", "%total.0", (OTHER,))
    function = entry.write(_body(*user), 64, "zyx", [total])
    _checked(function)
    items = function.items()
    chosen = items["%total.0"]
    assert (chosen.opcode, chosen.operands[2].text) == ("select", "null")
    (merge,) = [item for item in function.instructions() if item.opcode == "atomicrmw"]
    assert (merge.predicate, merge.operands[1].type) == ("add", "i32")
    # Of an array that nothing else can overlap, nobody asks.
    alone = entry.write(
        _body(*user), 64, "zyx", [Reduction(ARRAY, "i32", "add", "0", "%total.0", ())]
    )
    assert len(list(alone.instructions())) < len(list(function.instructions()))
