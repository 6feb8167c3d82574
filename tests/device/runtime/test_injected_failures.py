"""Every call of the driver fails once: nothing leaks, nothing is given back twice, the array that
failed does not exist, and the others are intact.

`python scripts/inject_failures.py` does the same with more kinds of failures, and counts.
"""

import numpy as np
import pytest

from doubles.injection import WAITS, Injection
from doubles.programs import PROGRAMS
from doubles.watched import SHORTAGES, interrupt, shortage_or_error, watched_device
from haulage import cuda
from haulage.runtime.process import runtime
from haulage.tracing.recorder import Recorder


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


def test_a_trace_whose_own_calls_fail_leaves_the_program_alone(monkeypatch):
    """Copies went round in a circle for ever."""
    with watched_device("far") as device:
        recorder = Recorder(1000, compare=False)
        monkeypatch.setattr(runtime.current, "observer", recorder)
        array = cuda.to_device(np.arange(10.0))
        device.backend.count_from_here(0, lambda name: shortage_or_error(name, "lost"))
        recorder.sort_in()
        assert device.backend.stop_counting() == ["event_query"]
        assert recorder.failed == {str(device): "Injected: lost"}
        other = cuda.device_array_like(array)
        other.copy_to_device(array)
        other[:3] = 7
        assert other.copy_to_host().tolist() == [7, 7, 7, 3, 4, 5, 6, 7, 8, 9]
