"""Values that a region begins with and makes again: each use finds the one that was made last on
the way to it."""

from hypothesis import given
from hypothesis import strategies as st

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, RegionEnd
from haulage.compiler.simt.regions.ssa_updater import SSAUpdater


@st.composite
def paths(draw):
    """A graph that begins in "start", which nothing leads back to, and a way through it."""
    labels = [f"b{number}" for number in range(draw(st.integers(1, 7)))]
    successors = {"start": ("b0",)} | {
        label: tuple(draw(st.lists(st.sampled_from(labels), max_size=2, unique=True)))
        for label in labels
    }
    path = ["start"]
    while successors[path[-1]] and len(path) < 20:
        path.append(draw(st.sampled_from(successors[path[-1]])))
    reached = control_flow.reverse_postorder(successors, "start")
    return {label: successors[label] for label in reached}, path, draw(st.sampled_from(reached[1:]))


def use(label):
    return Builder.binary("add", "i32", "%v", "0", name=f"%used.{label}")


def block_of(label, targets, makes):
    """A block that uses the value before it perhaps makes it, behind that, and for a branch."""
    made = [Builder.binary("add", "i32", "0", "0", name="%v")] if makes else []
    body = [use(f"{label}.before"), *made, use(f"{label}.behind")]
    match targets:
        case ():
            end = RegionEnd("elsewhere", "barrier")
        case (only,):
            end = Builder.jump(only)
        case one, other:
            end = Builder.branch("%v", one, other)
    return Block(label, [], body, end)


@given(paths())
def test_each_use_finds_what_was_made_last(drawn):
    successors, path, maker = drawn
    blocks = {label: block_of(label, to, label == maker) for label, to in successors.items()}
    updater = SSAUpdater(blocks, "start", {"%v": ("i32", "%begun")})
    ends = {label: updater.at_end("%v", label) for label in successors}
    # What each name is, where the value is a number that grows each time that it is made.
    values, now, source = {"%begun": 0}, 0, ""
    for label in path:
        block = blocks[label]
        assert all({at for _, at in phi.incoming} <= successors.keys() for phi in block.phis)
        taken = {phi.result: phi.operands[phi.sources.index(source)].text for phi in block.phis}
        values |= {name: values[old] for name, old in taken.items()}
        for item in block.body:
            if item.result == "%v":
                now = values["%v"] = now + 1
            else:
                assert values[item.uses[0]] == now
        if block.condition:
            assert values[block.condition] == now
        assert values[ends[label]] == now
        source = label


def test_no_phi_is_made_where_nothing_meets_or_nobody_asks():
    # The value is made in one arm, and used in the other one and where it is made only.
    jumps = {"start": ("fork",), "fork": ("one", "other"), "one": ("end",), "other": ("end",)}
    blocks = {label: block_of(label, to, label == "one") for label, to in jumps.items()}
    blocks["end"] = Block("end", [], [], RegionEnd("elsewhere", "barrier"))
    SSAUpdater(blocks, "start", {"%v": ("i32", "%begun")})
    assert not any(block.phis for block in blocks.values())
    assert blocks["other"].body[0].uses == ("%begun",)


def test_a_phi_takes_what_was_made_at_the_end_of_each_of_its_sources():
    blocks = {
        "start": Block("start", [], [], Builder.jump("loop")),
        "loop": Block(
            "loop",
            [
                Builder.phi("i32", [("%v", "start"), ("%next", "loop")], "%v"),
                Builder.phi("i32", [("7", "start"), ("%v", "loop")], "%before"),
            ],
            [Builder.binary("add", "i32", "%v", "1", name="%next")],
            Builder.branch("%c", "loop", "end"),
        ),
        "end": Block("end", [], [use("end")], RegionEnd("elsewhere", "barrier")),
    }
    SSAUpdater(blocks, "start", {"%v": ("i32", "%begun")})
    value, before = blocks["loop"].phis
    assert value.incoming == (("%begun", "start"), ("%next", "loop"))
    assert before.incoming == (("7", "start"), ("%v", "loop"))
    assert blocks["end"].body[0].uses == ("%v",)
