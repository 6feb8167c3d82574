"""Thousands of calls of public names with arguments that make no sense, as in `bad_calls`.

With `HAULAGE_BAD_CALLS=100000` in the environment so many are made, other ones each time.
"""

import contextlib
import io
import os
import random
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import haulage
from device.api import bad_calls
from haulage import cuda, roc

pytestmark = pytest.mark.usefixtures("device")

CALLS = int(os.environ.get("HAULAGE_BAD_CALLS", "2000"))
# Of one example: each is drawn by hypothesis, which finds the smallest one that fails.
OF_AN_EXAMPLE = 25


@pytest.fixture
def unraised(monkeypatch):
    """What is raised where nobody can catch it."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: found.append(repr(told.exc_value)))
    monkeypatch.setenv("HAULAGE_FULL_TRACEBACKS", "1")
    return found


def test_no_call_ends_in_an_error_that_was_not_meant_for_its_caller(unraised):
    targets = bad_calls.targets()
    assert len(targets) > 500
    names = sorted(targets)
    start = random.SystemRandom().randrange(1 << 32) if "HAULAGE_BAD_CALLS" in os.environ else 22
    examples = max(1, CALLS // OF_AN_EXAMPLE)

    @seed(start)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def calls(chance):
        for _ in range(OF_AN_EXAMPLE):
            name = chance.choice(names)
            wrong = bad_calls.try_one(name, targets[name], chance)
            assert wrong is None, wrong
            assert not unraised, f"{name}: {unraised}"

    with contextlib.redirect_stdout(io.StringIO()):
        calls()


# What a judgement of the fuzzer's must and must not take for an answer.
def _inside(kind):
    def fail(*_):
        raise kind("not meant for users")

    return fail


def test_errors_of_our_own_making_are_told_from_others():
    with pytest.raises(TypeError) as meant:
        cuda.Event("x")
    assert bad_calls.judge(meant.value) is None
    with pytest.raises(AttributeError) as slipped:
        haulage.runtime.launch.occupancy._overload.__globals__["active_blocks"](None, None, 1, 0)
    assert "active_blocks: AttributeError" in bad_calls.judge(slipped.value)


NO_DEVICE = r"device .*: expected a Device"

ANSWERS = {
    "Event": (lambda: cuda.Event("x"), TypeError, f"Event: {NO_DEVICE}"),
    "Stream": (lambda: cuda.Stream(None, 5), TypeError, f"Stream: {NO_DEVICE}"),
    "Stream.create": (lambda: cuda.Stream.create("x"), TypeError, f"Stream.create: {NO_DEVICE}"),
    "flags": (
        lambda: cuda.Stream.create(cuda.get_current_device(), "x"),
        TypeError,
        "Stream.create: flags 'x': expected a whole number from 0",
    ),
    "priority": (lambda: cuda.stream(priority=1.5), TypeError, "priority 1.5: expected a whole"),
    "order": (lambda: cuda.zeros(3, order=np.ones(2)), ValueError, "order .*expected 'C' or 'F'"),
    "axis": (lambda: cuda.device_array(3).squeeze("x"), TypeError, "axis 'x': expected a whole"),
    "axes": (lambda: cuda.device_array(3).transpose(axes=len), TypeError, "axis .*: expected"),
    "slice": (lambda: cuda.device_array(3)["x":], IndexError, "slice has whole numbers or None"),
    "class": (lambda: cuda.device_array(3)[cuda.DeviceNDArray], IndexError, "expected whole num"),
    "huge index": (lambda: cuda.device_array(3)[1 << 63], IndexError, "is out of bounds for axis"),
    "bytes": (lambda: cuda.current_context().memalloc("x"), TypeError, "memalloc: bytes 'x'"),
    "memset": (
        lambda: cuda.device_array(3).gpu_data.memset("x"),
        TypeError,
        "memset: byte 'x': expected a whole number from 0",
    ),
    "pointer": (lambda: cuda.current_context().mempin(None, (), 4), TypeError, "an address or a"),
    "peer": (
        lambda: cuda.current_context().can_access_peer("x"),
        TypeError,
        "number of a device, or its Context: 'x'",
    ),
    "identity": (
        lambda: cuda.get_current_device().from_identity(5),
        TypeError,
        "expected what get_device_identity",
    ),
    "gpus": (lambda: cuda.gpus["x"], TypeError, "the number of a device 'x'"),
    "jit": (lambda: cuda.jit(debug=np.ones(2)), TypeError, "debug=.*expected True or False"),
    "fastmath": (lambda: cuda.jit(fastmath=5), TypeError, "fastmath=5: expected True, False or"),
    "roc": (lambda: roc.external_stream("x"), TypeError, "the driver's handle 'x'"),
    "dtype": (lambda: cuda.device_array(3, ",u2"), TypeError, "',u2'.*NumPy knows no such"),
    "where": (
        lambda: haulage.SmartArray(np.ones(2), where=np.ones(2)),
        ValueError,
        "expected 'host', 'gpu'",
    ),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_names_what_was_given(what):
    call, error, expected = ANSWERS[what]
    with pytest.raises(error, match=expected):
        call()
