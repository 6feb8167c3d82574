"""Memory that other libraries and the program have on devices, and the baseline that is kept."""

import numpy as np
import pytest

from haulage.errors import CoherenceError
from haulage.runtime.coherence.exports import Baseline, Exports
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process import call_sites

NBYTES = 64
WHOLE = Ranges.of(0, NBYTES)


@pytest.fixture
def host():
    return np.arange(NBYTES, dtype=np.uint8)


@pytest.fixture
def exports():
    return Exports("a", 4)


def add(exports, device, part=WHOLE, writable=True):
    return exports.add(device, part, writable, call_sites.current())


def test_a_baseline_tells_which_elements_changed_as_a_whole(host):
    baseline = Baseline(4)
    baseline.take("device", Ranges.of(0, 32), host)
    host[[5, 6, 13, 40]] += 1
    assert baseline.changed(Ranges.of(0, 32), host) == Ranges(((4, 8), (12, 16)))
    assert baseline.changed(Ranges.of(6, 32), host) == Ranges(((6, 8), (12, 16)))


def test_a_baseline_keeps_what_was_alike_first(host):
    baseline = Baseline(1)
    baseline.take("device", Ranges.of(0, 8), host)
    host[2] += 1
    baseline.take("device", Ranges.of(0, 16), host)
    host[10] += 1
    assert baseline.changed(Ranges.of(0, 16), host) == Ranges(((2, 3), (10, 11)))
    baseline.forget(Ranges.of(0, 4))
    assert baseline.of("device") == baseline.of_all() == Ranges.of(4, 16)
    baseline.take("device", Ranges(), host)
    assert not baseline.of_all()


def test_only_one_device_may_have_bytes_to_write_to_them(exports):
    first = add(exports, "one", Ranges.of(0, 8))
    with pytest.raises(CoherenceError, match=r"a: another library has it on one, to write to it"):
        add(exports, "two", Ranges.of(4, 12))
    others = [add(exports, "two", Ranges.of(8, 16)), add(exports, "two", writable=False)]
    assert exports.of("two") == WHOLE
    del first, others


def test_an_export_counts_where_another_place_needs_it_and_at_last_with_all(exports):
    hold = add(exports, "one", Ranges.of(0, 32))
    assert exports.written("one", WHOLE) == []
    ((export, part),) = exports.written(None, Ranges.of(16, 64))
    assert (export.is_alive, part) == (True, Ranges.of(16, 32))
    assert not exports.not_counted(None)
    del hold
    assert exports.not_counted(None) == Ranges.of(0, 32)
    assert not exports.not_counted("one")
    ((export, part),) = exports.written(None, Ranges.of(60, 64))
    assert (export.is_alive, part) == (False, Ranges.of(0, 32))
    assert exports.written(None, WHOLE) == exports.records == []


@pytest.mark.parametrize(
    ("writable", "writing", "viewed", "of_one", "of_two"),
    [
        (True, False, False, [], ["one"]),
        (True, False, True, ["one"], ["one"]),
        (False, False, False, [], []),
        (False, True, False, [], ["one"]),
    ],
)
def test_devices_are_waited_for_where_others_may_conflict(
    exports, writable, writing, viewed, of_one, of_two
):
    hold = add(exports, "one", writable=writable)
    assert list(exports.devices_in_use("one", writing, viewed)) == of_one
    assert list(exports.devices_in_use("two", writing, viewed)) == of_two
    del hold


def test_exports_that_are_gone_do_not_pile_up(exports):
    for _ in range(5):
        add(exports, "one")
    assert len(exports.records) == 1
