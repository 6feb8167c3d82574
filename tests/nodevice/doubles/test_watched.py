"""The back end that finds faults in others' use of it finds them."""

import threading

import pytest

from doubles.watched import Injected, InjectedShortage, Watched, shortage_or_error
from haulage.backends.cpu import CPUBackend
from haulage.errors import DeviceError, OutOfMemory


def told(name):
    return shortage_or_error(name, f"{name} failed")


@pytest.fixture
def driver():
    return Watched(CPUBackend())


def test_what_is_given_and_taken_back_is_no_violation(driver):
    memory, event, stream = (
        driver.alloc(100, "device"),
        driver.event_create(),
        driver.stream_create(),
    )
    driver.event_record(event, stream)
    assert driver.held() == {"memory": 1, "event": 1, "stream": 1}
    driver.free(*memory, "device")
    driver.event_destroy(event)
    driver.stream_destroy(stream)
    assert not driver.held()
    assert driver.violations == []


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("free", (256, 256, "device")),
        ("event_destroy", (77,)),
        ("stream_destroy", (77,)),
        ("event_query", (77,)),
        ("unregister", (4096,)),
    ],
)
def test_what_was_never_given_cannot_be_given_back_or_used(driver, method, args):
    with pytest.raises(DeviceError):
        getattr(driver, method)(*args)
    assert len(driver.violations) == 1
    assert method in driver.violations[0]


def test_memory_is_not_freed_as_another_kind(driver):
    memory = driver.alloc(100, "pinned")
    with pytest.raises(DeviceError):
        driver.free(*memory, "device")
    assert "it is (100," in driver.violations[0]


@pytest.mark.parametrize("use", ["copy", "copy_nd", "fill"])
def test_memory_that_work_may_still_use_is_not_freed(driver, use):
    stream, opened = driver.stream_create(), threading.Event()
    one, two = driver.alloc(4096, "device"), driver.alloc(4096, "device")
    driver.stream_callback(stream, lambda: opened.wait(30))
    given = {
        "copy": (one[0], two[0], 4096),
        "copy_nd": (one[0], (16,), two[0], (16,), (256,), 8),
        "fill": (one[0], b"1", 4096),
    }
    getattr(driver, use)(*given[use], stream)
    driver.free(*one, "device")
    opened.set()
    driver.stream_synchronize(stream)
    assert "may still use" in driver.violations[0]


def test_the_call_that_is_asked_for_fails_and_does_nothing(driver):
    driver.count_from_here(1, told)
    driver.alloc(100, "device")
    with pytest.raises(InjectedShortage, match="alloc"):
        driver.alloc(100, "device")
    driver.alloc(100, "device")
    assert driver.held() == {"memory": 2}
    driver.count_from_here(1, told)
    driver.stream_create()
    with pytest.raises(Injected) as found:
        driver.stream_create()
    assert not isinstance(found.value, OutOfMemory)
    assert driver.stop_counting() == ["stream_create"] * 2


def test_what_fails_to_be_given_back_is_given_back_all_the_same(driver):
    memory = driver.alloc(100, "device")
    driver.count_from_here(0, told)
    with pytest.raises(Injected):
        driver.free(*memory, "device")
    assert not driver.held()
