"""How the answers of warp collectives are computed: permutations, loops over lanes, masks."""

import pytest

from haulage.compiler import llvm
from haulage.compiler.simt.emit import warp_collectives
from haulage.compiler.simt.emit.warp_collectives import Collective
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.writer import definition

SIZE = 32


def _shuffle(kind, *, uniform):
    return Collective(kind, 64, SIZE, None, uniform, uniform, False, None, False, ())


def _match(*, uniform):
    return Collective("match", 32, SIZE, None, uniform, uniform, True, None, uniform, (0, 1))


def _answered(collective):
    storage = [("ptr", name) for name in map(collective.storage, collective.needed)]
    b = Builder("answer", [*storage, ("i64", "%leader"), ("i32", "%there")])
    b.block("%start")
    warp_collectives.answer(b, collective, "%leader", "%there")
    b.ret()
    llvm.parse(definition(b.function))
    return b.function


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("up", [0, 1, 0, 1, 2, 3]),
        ("down", [2, 3, 4, 5, 6, 7]),
        ("xor", [2, 3, 0, 1, 6, 7]),
    ],
)
def test_a_shuffle_by_a_uniform_power_of_two_is_one_permutation(kind, places):
    answer = _answered(_shuffle(kind, uniform=True))
    item, _ = answer.blocks["%shuffle.by.2"].body
    assert item.opcode == "shufflevector"
    listed = ", ".join(f"i32 {place}" for place in places)
    assert item.operands[2].text.startswith(f"<{listed}, ")


@pytest.mark.parametrize("collective", [_shuffle("up", uniform=False), _match(uniform=False)])
def test_lanes_that_ask_for_different_things_are_answered_one_by_one(collective):
    answer = _answered(collective)
    assert [label for label, block in answer.blocks.items() if label in block.successors]


def test_a_uniform_match_is_one_comparison_for_all_lanes():
    answer = _answered(_match(uniform=True))
    assert len(answer.blocks) == 1
    compared = [item.operands[0].type for item in answer.instructions() if item.opcode == "icmp"]
    assert compared == [f"<{SIZE} x i32>"]
    stored = [item.operands[1].text for item in answer.instructions() if item.opcode == "store"]
    assert stored == [_match(uniform=True).storage(part) for part in ("answer", "here")]
