"""The recorder of `haulage trace` sees what streams do, on devices with memory of their own too."""

import threading

import numpy as np
import pytest

from haulage import cuda
from haulage.runtime.process import runtime
from haulage.tracing.recorder import Recorder
from haulage.tracing.result import made_of

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def recorder(monkeypatch):
    made = Recorder(10_000, compare=True)
    monkeypatch.setattr(runtime.current, "observer", made)
    return made


def seen(recorder):
    """The result, and (kind, name, bytes) of its operations but waits, in order of their begin."""
    runtime.current.observer = None
    recorder.sort_in()
    result = made_of(recorder, "test")
    work = [(each.kind, each.name, each.nbytes) for each in result.drawn if each.kind != "wait"]
    return result, work


def test_each_way_of_copying_is_one_operation_of_its_bytes(recorder):
    large = np.arange(500_000.0)
    record = np.zeros(6, np.dtype([("a", "u1"), ("b", "f8")], align=True))
    array = cuda.to_device(large)  # by way of pinned buffers where that is faster
    array.copy_to_host(large)
    cuda.to_device(np.ones((8, 6)).T[::2])
    cuda.to_device(record)
    array[:100].copy_to_device(array[100:200])
    array[:50] = 7
    array.copy_to_host(large[::-1].copy())
    cuda.synchronize()
    _, work = seen(recorder)
    assert work == [
        ("upload", "", 4_000_000),
        ("download", "", 4_000_000),
        ("upload", "", 8 * 3 * 8),
        ("upload", "", 6 * 9),
        ("copy", "", 800),
        ("fill", "", 400),
        ("download", "", 4_000_000),
    ]


def test_work_of_streams_has_the_times_at_which_it_ran(recorder, hold_up):
    stream = cuda.stream()
    pinned = cuda.pinned_array(1000)
    pinned[:] = 1
    array = cuda.device_array(1000)
    with hold_up(stream):
        array.copy_to_device(pinned, stream=stream)
        handed_over = threading.Event()
        handed_over.wait(0.05)
    stream.synchronize()
    result, work = seen(recorder)
    assert work == [("upload", "", 8000)]
    upload = next(each for each in result.drawn if each.kind == "upload")
    allocated = min(at for held in result.memory for at, _, _ in held.changes)
    # It began only when the stream was let go.
    assert upload.begin - allocated >= 45_000_000
    assert upload.begin <= upload.end <= result.length


def test_memory_that_the_pools_hold_for_later_is_not_the_programs(recorder):
    before = cuda.device_array(10_000, np.uint8)
    before.close()
    again = cuda.device_array(10_000, np.uint8)
    result, _ = seen(recorder)
    (held,) = [each for each in result.memory if each.kind == "device"]
    assert [nbytes for _, _, nbytes in held.changes] == [10_000, -10_000, 10_000]
    assert (held.peak, held.left, held.allocations) == (10_000, 10_000, 2)
    assert again.size == 10_000


def test_a_copy_that_is_refused_is_no_operation(recorder):
    array = cuda.device_array(4)
    with pytest.raises(ValueError, match="incompatible shape"):
        array.copy_to_host(np.empty(5))
    array.close()
    with pytest.raises(ValueError, match="close"):
        array.copy_to_host()
    _, work = seen(recorder)
    assert work == []


def test_a_driver_that_fails_a_copy_loses_no_event(recorder, device, monkeypatch):
    array, host = cuda.device_array(4), np.ones(4)
    array.copy_to_device(host)
    made = []
    create = device.backend.event_create
    monkeypatch.setattr(
        device.backend, "event_create", lambda timing=True: made.append(timing) or create(timing)
    )

    def fail(*_):
        raise RuntimeError("no copy today")

    with monkeypatch.context() as broken:
        broken.setattr(device.backend, "copy", fail)
        for _ in range(5):
            with pytest.raises(RuntimeError, match="no copy today"):
                array.copy_to_device(host)
    array.copy_to_device(host)
    _, work = seen(recorder)
    assert work == [("upload", "", 32)] * 2
    # Two for the operation; what was taken for those that failed is used again.
    assert len([timing for timing in made if timing]) <= 2
