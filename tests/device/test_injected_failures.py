"""Every call of the driver fails once: nothing leaks, nothing is given back twice, the array that
failed does not exist, and the others are intact.

`python scripts/inject_failures.py` does the same with more kinds of failures, and counts.
"""

import pytest

from doubles.injection import WAITS, Injection
from doubles.programs import PROGRAMS
from doubles.watched import SHORTAGES, interrupt, watched_device


@pytest.fixture(scope="module", params=["cpu", "far"])
def injection(request):
    with watched_device(request.param) as device:
        yield Injection(device)


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_call_may_fail(injection, name):
    outcome = injection.run(PROGRAMS[name])
    assert outcome.tried
    assert outcome.faults == []


@pytest.mark.parametrize("name", ["streams", "launches_with_host_arrays", "large_arrays"])
def test_any_wait_may_be_interrupted(injection, name):
    outcome = injection.run(PROGRAMS[name], interrupt, WAITS)
    assert outcome.tried
    assert outcome.faults == []


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "a_kernel_that_is_loaded"])
def test_there_may_be_no_more_room(injection, name):
    outcome = injection.run(PROGRAMS[name], methods=SHORTAGES, for_good=True)
    assert outcome.faults == []
