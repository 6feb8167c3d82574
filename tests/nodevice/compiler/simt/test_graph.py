"""Dominance and loops, against their definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage.compiler.simt.analysis import control_flow


def ways_around(successors, entry, target, avoided):
    """Whether `target` can be reached from `entry` without `avoided`."""
    if avoided == entry:
        return False
    return target in control_flow.reachable_until(successors, [entry], avoided)


@st.composite
def graphs(draw):
    labels = [f"b{number}" for number in range(draw(st.integers(1, 9)))]
    return {
        label: tuple(draw(st.lists(st.sampled_from(labels), max_size=2, unique=True)))
        for label in labels
    }


@given(graphs())
def test_dominators_are_on_every_way(successors):
    closest = control_flow.Graph(successors, "b0").dominators
    for lower in closest:
        for upper in closest:
            on_every_way = upper == lower or not ways_around(successors, "b0", lower, upper)
            assert control_flow.dominates(closest, upper, lower) == on_every_way


@given(graphs())
def test_postdominators_are_on_every_way_to_an_end(successors):
    closest = control_flow.Graph(successors, "b0").postdominators
    ends = [label for label, targets in successors.items() if not targets]
    for label in successors:
        reaches_end = any(
            end in control_flow.reachable_until(successors, [label], control_flow.EXIT)
            for end in ends
        )
        assert (label in closest) == reaches_end
        if not reaches_end or closest[label] == control_flow.EXIT:
            continue
        meeting = closest[label]
        assert meeting != label
        past = control_flow.reachable_until(successors, [label], meeting)
        assert not any(end in past for end in ends)


@given(graphs())
def test_reverse_postorder_lists_what_can_be_reached_once(successors):
    order = control_flow.reverse_postorder(successors, "b0")
    assert order[0] == "b0"
    assert sorted(order) == sorted(
        control_flow.reachable_until(successors, ["b0"], control_flow.EXIT)
    )


def test_loops_come_inner_first_with_their_bodies():
    successors = {
        "start": ("outer",),
        "outer": ("inner", "end"),
        "inner": ("body", "latch"),
        "body": ("inner",),
        "latch": ("outer",),
        "end": (),
    }
    inner, outer = control_flow.Graph(successors, "start").loops
    assert (inner.header, inner.labels) == ("inner", {"inner", "body"})
    assert (outer.header, outer.labels) == ("outer", {"outer", "inner", "body", "latch"})


def test_a_graph_without_cycles_has_no_loops():
    successors = {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}
    assert control_flow.Graph(successors, "a").loops == []


@pytest.mark.parametrize("exit_first", [False, True])
def test_what_is_in_a_loop_comes_before_what_is_behind_it(exit_first):
    successors = {
        "start": ("outer",),
        "outer": ("inner", "end"),
        "inner": ("body", "latch"),
        "body": ("inner",),
        "latch": ("outer",),
        "end": (),
    }
    if exit_first:
        successors = {label: targets[::-1] for label, targets in successors.items()}
    order = control_flow.Graph(successors, "start").loops_before_exits()
    assert order == ["start", "outer", "inner", "body", "latch", "end"]


@given(graphs())
def test_loops_before_exits_lists_what_can_be_reached_once(successors):
    order = control_flow.Graph(successors, "b0").loops_before_exits()
    assert order[0] == "b0"
    assert sorted(order) == sorted(
        control_flow.reachable_until(successors, ["b0"], control_flow.EXIT)
    )
