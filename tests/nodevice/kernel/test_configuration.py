"""From what stands in `kernel[...]` and its kin to a configuration."""

import numpy as np
import pytest

from haulage._core.launches import has_plain_sizes
from haulage.backends.null import NullBackend
from haulage.errors import LaunchError, LaunchTypeError, LimitError
from haulage.kernel.configuration import (
    bound,
    carveout,
    check_bound,
    check_hints,
    for_tasks,
    in_blocks,
    in_work_items,
    key_in_stream,
)
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.launch.loaded import Configuration


class Foreign:
    def __cuda_stream__(self):
        return 0, 99


@pytest.fixture(scope="module")
def stream():
    return Stream.create(Device("null", NullBackend(), 0))


def test_sizes_have_three_axes():
    assert in_blocks(2, (3, 4)) == Configuration((2, 1, 1), (3, 4, 1), 0, 0)
    assert in_blocks(np.int64(2), [3], 0, np.int32(8)) == ((2, 1, 1), (3, 1, 1), 0, 8)


@pytest.mark.parametrize("wrong", [-1, True, 1.0, "8", None])
def test_shared_bytes_are_a_whole_number(wrong):
    with pytest.raises(LaunchError, match="dynamic shared bytes"):
        in_blocks(1, 1, 0, wrong)


def test_a_stream_is_one_of_ours_or_of_others_or_none(stream):
    assert in_blocks(1, 1, stream).stream is stream
    assert in_blocks(1, 1, None).stream is None
    assert in_blocks(1, 1, np.int8(0)).stream == 0
    taken = in_blocks(1, 1, Foreign()).stream
    assert taken.handle == 99
    assert in_blocks(1, 1, taken).stream is taken
    for wrong in (1, False, "s", 0.0):
        with pytest.raises(LaunchError, match="expected a stream made by stream"):
            in_blocks(1, 1, wrong)


def test_only_plain_ints_are_looked_up():
    for plain in ((1, 2), ((1, 2), (3, 4, 5)), (1, 2, None), (1, (2,), 0, 8)):
        assert has_plain_sizes(plain)
    for other in ((1,), [1, 2], (1.0, 2), (True, 2), ((np.int64(1),), 2), ([1], 2)):
        assert not has_plain_sizes(other)


def test_a_key_keeps_no_stream_and_tells_streams_apart(stream):
    other = Stream.create(stream.device)
    key, chosen = key_in_stream((1, 2, stream))
    assert chosen is stream
    assert not any(each is stream for each in key)
    assert key != key_in_stream((1, 2, other))[0]
    assert key == key_in_stream((1, 2, stream, 0))[0] != key_in_stream((1, 2, stream, 8))[0]
    assert key_in_stream((1, 2, 0)) == key_in_stream((1, 2, 0, 0)) == ((1, 2, 0), 0)
    assert key_in_stream((1, 2, Foreign()))[0] == (1, 2, 0, None, 99)
    assert key_in_stream((1, 2)) == ((1, 2), 0)
    for unknown in ((1, 2, None), (1.0, 2, stream), (1, 2, stream, True), [1, 2, stream]):
        assert key_in_stream(unknown) == (None, None)


def test_work_items_are_put_in_groups():
    assert in_work_items(128).grid == (2, 1, 1)
    assert in_work_items(60) == ((1, 1, 1), (60, 1, 1), None, 0)
    assert in_work_items(67).block == (1, 1, 1)
    assert in_work_items((6, 4), (3, 2)) == ((2, 2, 1), (3, 2, 1), None, 0)
    with pytest.raises(LaunchError, match="not a multiple of local size"):
        in_work_items(10, 4)


def test_tasks_are_rounded_up_to_blocks():
    assert for_tasks(256, 1000, 0, 0, 0) == ((4, 1, 1), (256, 1, 1), 0, 0)
    assert for_tasks(256, 1000, 128, 0, 4) == ((8, 1, 1), (128, 1, 1), 0, 4)
    assert for_tasks(256, 0, 0, 0, 0) is None
    with pytest.raises(LaunchError, match="negative task count"):
        for_tasks(256, -1, 0, 0, 0)
    with pytest.raises(LaunchError, match="threads a block: -2"):
        for_tasks(256, 1, -2, 0, 0)
    with pytest.raises(LaunchTypeError, match=r"tasks 1\.5: expected an int"):
        for_tasks(256, 1.5, 0, 0, 0)


@pytest.mark.parametrize(
    ("hints", "error", "message"),
    [
        ({"launch_bounds": (1, 2, 3, 4)}, ValueError, "Got 4 launch bounds"),
        ({"launch_bounds": ()}, ValueError, "Got 0 launch bounds"),
        ({"launch_bounds": -1}, ValueError, "launch_bounds -1: must not be negative"),
        ({"launch_bounds": (1, "2")}, TypeError, "launch_bounds"),
        ({"max_registers": -1}, ValueError, "max_registers -1"),
        ({"max_registers": 1.5}, TypeError, "max_registers"),
        ({"shared_memory_carveout": "most"}, ValueError, "Invalid carveout value: 'most'"),
        ({"shared_memory_carveout": 101}, ValueError, "between -1 and 100"),
    ],
)
def test_hints_that_no_device_takes_are_refused(hints, error, message):
    with pytest.raises(error, match=message):
        check_hints(hints)


def test_what_hints_say():
    check_hints({"launch_bounds": (128, None), "max_registers": 0, "shared_memory_carveout": -1})
    assert [bound({"launch_bounds": given}) for given in (None, 128, (64, 2), [32], ())] == [
        *(0, 128, 64, 32, 0)
    ]
    given = ("MaxShared", "maxl1", "Default", 30, None)
    said = [carveout({"shared_memory_carveout": each}) for each in given]
    assert said == [100, 0, -1, 30, None]
    check_bound(in_blocks(1, (8, 8)), 64)
    check_bound(in_blocks(1, 1024), 0)
    with pytest.raises(LimitError, match=r"has 65 threads; launch_bounds .* at most 64"):
        check_bound(in_blocks(1, 65), 64)
