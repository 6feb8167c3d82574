"""Dominance and loops, against their definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage.compiler.simt import graph


def ways_around(successors, entry, target, avoided):
    """Whether `target` can be reached from `entry` without `avoided`."""
    if avoided == entry:
        return False
    return target in graph.reachable_until(successors, [entry], avoided)


@st.composite
def graphs(draw):
    labels = [f"b{number}" for number in range(draw(st.integers(1, 9)))]
    return {
        label: tuple(draw(st.lists(st.sampled_from(labels), max_size=2, unique=True)))
        for label in labels
    }


@given(graphs())
def test_dominators_are_on_every_way(successors):
    closest = graph.immediate_dominators(successors, "b0")
    for lower in closest:
        for upper in closest:
            on_every_way = upper == lower or not ways_around(successors, "b0", lower, upper)
            assert graph.dominates(closest, upper, lower) == on_every_way


@given(graphs())
def test_postdominators_are_on_every_way_to_an_end(successors):
    closest = graph.immediate_postdominators(successors)
    ends = [label for label, targets in successors.items() if not targets]
    for label in successors:
        reaches_end = any(
            end in graph.reachable_until(successors, [label], graph.EXIT) for end in ends
        )
        assert (label in closest) == reaches_end
        if not reaches_end or closest[label] == graph.EXIT:
            continue
        meeting = closest[label]
        assert meeting != label
        past = graph.reachable_until(successors, [label], meeting)
        assert not any(end in past for end in ends)


@given(graphs())
def test_reverse_postorder_lists_what_can_be_reached_once(successors):
    order = graph.reverse_postorder(successors, "b0")
    assert order[0] == "b0"
    assert sorted(order) == sorted(graph.reachable_until(successors, ["b0"], graph.EXIT))


def test_loops_come_inner_first_with_their_bodies():
    successors = {
        "start": ("outer",),
        "outer": ("inner", "end"),
        "inner": ("body", "latch"),
        "body": ("inner",),
        "latch": ("outer",),
        "end": (),
    }
    inner, outer = graph.natural_loops(successors, "start")
    assert (inner.header, inner.labels) == ("inner", {"inner", "body"})
    assert (outer.header, outer.labels) == ("outer", {"outer", "inner", "body", "latch"})


def test_a_graph_without_cycles_has_no_loops():
    successors = {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}
    assert graph.natural_loops(successors, "a") == []


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
    order = graph.loops_before_exits(successors, "start")
    assert order == ["start", "outer", "inner", "body", "latch", "end"]


@given(graphs())
def test_loops_before_exits_lists_what_can_be_reached_once(successors):
    order = graph.loops_before_exits(successors, "b0")
    assert order[0] == "b0"
    assert sorted(order) == sorted(graph.reachable_until(successors, ["b0"], graph.EXIT))
