"""Random kernels with a mistake: it is found, and the same kernels without it are silent."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from device.checking import random_mistakes
from haulage import cuda
from support.checked.marks import findings, lines_of

CHECKS = ("race", "barrier", "bounds", "init")
# `make random-kernels N=500` tries more of them.
EXAMPLES = int(os.environ.get("HAULAGE_RANDOM_KERNELS", "2"))

_numbers = itertools.count()


def as_often_as_wanted(test):
    """Run `test` on so many programs, the same ones each time unless more are wanted."""
    chosen = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="HAULAGE_RANDOM_KERNELS" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    return pytest.mark.timeout(300 + 60 * EXAMPLES)(chosen(test))


def found(text, blocks=2):
    """(kind, line) of all that is found in one launch of a kernel."""
    namespace = {"cuda": cuda, "np": np}
    exec(compile(text, f"random kernel {next(_numbers)}", "exec"), namespace)
    kernel = cuda.jit(namespace["kernel"])
    n = blocks * random_mistakes.THREADS
    arguments = np.zeros(n), np.zeros(n), np.zeros(3, np.int64)
    return lines_of(findings(lambda: kernel[blocks, random_mistakes.THREADS](*arguments), CHECKS))


@as_often_as_wanted
@given(program=random_mistakes.steps)
def test_kernels_without_a_mistake_are_silent(program):
    text, _ = random_mistakes.source(program)
    assert found(text) == set(), text


@as_often_as_wanted
@given(program=random_mistakes.steps, choice=st.integers(0, 10))
def test_a_barrier_that_is_left_out_is_a_race(program, choice):
    candidates = [
        number
        for number in random_mistakes.conflicting(program)
        if not program[number].turns and not program[number + 1].turns
    ]
    assume(candidates)
    at = candidates[choice % len(candidates)]
    text, lines = random_mistakes.source(program, "race", at)
    assert found(text) == {("race", line) for line in lines}, text


@as_often_as_wanted
@given(program=random_mistakes.steps, choice=st.integers(0, 10))
def test_an_index_that_is_out_of_bounds(program, choice):
    text, lines = random_mistakes.source(program, "bounds", choice % len(program))
    assert found(text) == {("bounds", line) for line in lines}, text


@as_often_as_wanted
@given(program=random_mistakes.steps)
def test_shared_memory_that_nobody_wrote(program):
    text, lines = random_mistakes.source(program, "uninitialized")
    (line,) = lines
    names = found(text)
    assert ("uninitialized", line) in names, text
    assert {kind for kind, _ in names} == {"uninitialized"}, text


@as_often_as_wanted
@given(program=random_mistakes.steps, choice=st.integers(0, 10))
def test_a_barrier_that_some_threads_miss(program, choice):
    text, lines = random_mistakes.source(program, "barrier", choice % len(program))
    (line,) = lines
    assert ("barrier", line) in found(text), text
