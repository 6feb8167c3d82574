"""What has begun comes to its end wherever Ctrl-C comes in between."""

import struct
import threading
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from doubles.interrupts import at_each_place
from haulage.backends.base import DEVICE, NON_BLOCKING
from haulage.backends.cpu import CPUBackend
from haulage.errors import DeviceError
from haulage.interruption import on_error
from nodevice.backends.cpu_driver.cpu_objects import host_object

HELPER = {"haulage.interruption", __name__}


class Door:
    def __init__(self):
        self.is_open = False
        self.steps = []

    def open(self):
        self.is_open = True

    def shut(self):
        self.steps.append("shut")
        self.is_open = False

    def knock(self):
        self.steps.append("knock")


def test_an_end_without_an_exception_calls_nothing():
    calls = []
    with on_error(calls.append, 1):
        pass
    assert calls == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit, GeneratorExit])
def test_any_exception_calls_the_action_and_goes_on(error):
    calls = []
    with pytest.raises(error, match="told"), on_error(calls.append, 1):
        raise error("told")
    assert calls == [1]


def test_the_action_is_done_once_where_it_only_undoes():
    door = Door()
    with pytest.raises(AttributeError), on_error(door.shut):
        door.missing()
    assert door.steps == ["shut"]


def test_after_ctrl_c_anywhere_what_was_begun_is_finished():
    doors = []

    def work():
        door = Door()
        doors.append(door)
        with on_error(door.shut):
            door.open()
            door.knock()
            door.shut()

    places = sum(1 for _ in at_each_place(work, HELPER))
    assert places > 8  # the helper's own functions, the door's, and those in C
    assert not any(door.is_open for door in doors)
    assert sum("knock" in door.steps for door in doors) > 3


# ---- the streams of the CPU's driver ---------------------------------------------------------

STREAMS = HELPER | {
    f"haulage.backends.cpu_driver.{name}"
    for name in ("streams", "tasks", "threads", "adversary", "graphs", "units")
}


@pytest.fixture(scope="module")
def backend():
    return CPUBackend()


@pytest.fixture
def streams(backend):
    return [0, backend.stream_create(0), backend.stream_create(NON_BLOCKING)]


def come_to_their_end(backend, streams):
    """Whether the streams take work from another thread, and do it."""
    done = []

    def look():
        for stream in streams:
            backend.stream_callback(stream, partial(done.append, stream))
        backend.synchronize()
        done.append(None)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(20)
    return len(done) == len(streams) + 1


def test_after_ctrl_c_anywhere_in_a_short_task_its_stream_goes_on(backend, streams):
    memory = np.zeros(16, np.uint8)

    def work():
        for stream in streams:
            backend.fill(memory.ctypes.data, b"7", memory.size, stream)

    for _ in at_each_place(work, STREAMS):
        assert come_to_their_end(backend, streams)


def test_after_ctrl_c_anywhere_in_a_launch_its_stream_goes_on(backend, streams):
    function = backend.function(backend.load(host_object()), "count")
    counters = np.zeros(4, np.int64)
    args = struct.pack("@P", counters.ctypes.data)

    def work():
        for stream in streams:
            backend.launch(function, (4, 1, 1), (32, 1, 1), 0, stream, args)

    for _ in at_each_place(work, STREAMS):
        assert come_to_their_end(backend, streams)


def test_after_ctrl_c_anywhere_in_a_launch_of_a_graph_its_stream_goes_on(backend, streams):
    stream, memory = streams[1], np.zeros(64, np.uint8)
    backend.capture_begin(stream)
    for start in range(0, 64, 16):
        backend.fill(memory.ctypes.data + start, b"7", 16, stream)
    graph, _ = backend.capture_end(stream)
    for _ in at_each_place(lambda: backend.graph_launch(graph, stream), STREAMS):
        assert come_to_their_end(backend, streams)


def test_after_ctrl_c_anywhere_while_memory_is_exported_all_streams_go_on(backend, streams):
    """No work may run while its pages become shared ones."""
    nbytes = 1 << 16

    def work():
        address, host = backend.alloc(nbytes, DEVICE, 0)
        try:
            with suppress(DeviceError):  # an interrupted one is refused afterwards
                backend.ipc_export(address, nbytes, address, nbytes)
        finally:
            backend.free(address, host, DEVICE)

    for _ in at_each_place(work, STREAMS | {"contextlib"}):
        assert come_to_their_end(backend, streams)


def test_after_ctrl_c_anywhere_in_leaving_the_adversarial_mode_all_streams_go_on(backend, streams):
    memory = np.zeros(16, np.uint8)

    def work():
        backend.adversary(1)
        try:
            for stream in streams:
                backend.fill(memory.ctypes.data, b"7", memory.size, stream)
        finally:
            backend.adversary(None)

    for _ in at_each_place(work, STREAMS):
        backend.adversary(None)
        assert come_to_their_end(backend, streams)
