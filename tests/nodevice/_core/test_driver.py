"""Calls of drivers by address; the drivers are functions of this file."""

import ctypes
import threading

import pytest

from haulage._core.driver import (
    ELSEWHERE,
    NOT_PERMITTED,
    RECORDED,
    WAITS_FOR_RECORDED,
    Current,
    DriverStart,
    Functions,
    Inside,
)

CUDA = {
    "CtxSynchronize": [],
    "MemcpyAsync": [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p],
    "StreamSynchronize": [ctypes.c_void_p],
    "StreamQuery": [ctypes.c_void_p],
    "StreamWaitEvent": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint],
    "StreamIsCapturing": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)],
    "ThreadExchangeStreamCaptureMode": [ctypes.POINTER(ctypes.c_int)],
    "EventRecord": [ctypes.c_void_p, ctypes.c_void_p],
    "EventSynchronize": [ctypes.c_void_p],
    "EventQuery": [ctypes.c_void_p],
}
HIP = {
    name.replace("Ctx", "Device"): types
    for name, types in CUDA.items()
    if name not in ("StreamIsCapturing", "ThreadExchangeStreamCaptureMode")
}
HIP["MemcpyAsync"] = [
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
]
FIVE = 5 << 40
SIX = 6 << 40
CALLS = {
    "CtxSynchronize": lambda functions: functions.synchronize(),
    "MemcpyAsync": lambda functions: functions.copy(FIVE, SIX, 7 << 32, 8),
    "StreamSynchronize": lambda functions: functions.stream_synchronize(FIVE),
    "StreamQuery": lambda functions: functions.stream_query(FIVE),
    "StreamWaitEvent": lambda functions: functions.stream_wait_event(FIVE, SIX),
    "EventRecord": lambda functions: functions.event_record(SIX, FIVE),
    "EventSynchronize": lambda functions: functions.event_synchronize(SIX),
    "EventQuery": lambda functions: functions.event_query(SIX),
}
EXCHANGED = {"StreamSynchronize", "StreamQuery", "EventSynchronize", "EventQuery"}


class Driver:
    """Functions that note what they are called with. `statuses` are given by their names;
    `capturing` is what streams are."""

    def __init__(self, prefix, types):
        self.seen = []
        self.statuses = {}
        self.capturing = 0
        self.mode = 1
        self.inside = Inside()
        self._kept = {
            prefix + name: ctypes.CFUNCTYPE(ctypes.c_int, *given)(self._called(name))
            for name, given in types.items()
        }
        addresses = {
            name: ctypes.cast(each, ctypes.c_void_p).value for name, each in self._kept.items()
        }
        self.functions = Functions(self.inside, prefix, addresses)

    def _called(self, name):
        def called(*args):
            if name == "StreamIsCapturing":
                args[1][0] = self.capturing
            elif name == "ThreadExchangeStreamCaptureMode":
                self.mode, args[0][0] = args[0][0], self.mode
            else:
                self.seen.append((name, self.mode, *args))
            return self.statuses.get(name, 0)

        return called


@pytest.mark.parametrize("name", sorted(CALLS))
def test_cudas_functions_get_what_was_asked_and_give_their_status(name):
    driver = Driver("cu", CUDA)
    given = {
        "CtxSynchronize": (),
        "MemcpyAsync": (FIVE, SIX, 7 << 32, 8),
        "StreamWaitEvent": (FIVE, SIX, 0),
        "EventRecord": (SIX, FIVE),
        "EventSynchronize": (SIX,),
        "EventQuery": (SIX,),
    }.get(name, (FIVE,))
    driver.statuses[name] = 719
    assert CALLS[name](driver.functions) == 719
    assert driver.seen == [(name, 2 if name in EXCHANGED else 1, *given)]
    assert driver.mode == 1


def test_hips_copies_are_told_to_find_the_direction():
    driver = Driver("hip", HIP)
    assert driver.functions.copy(FIVE, SIX, 7 << 32, 8) == 0
    assert driver.functions.synchronize() == 0
    assert driver.seen == [("MemcpyAsync", 1, FIVE, SIX, 7 << 32, 4, 8), ("DeviceSynchronize", 1)]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_nothing_is_called_in_a_callback_of_the_driver(name):
    driver, other = Driver("cu", CUDA), Driver("cu", CUDA)
    driver.inside.callback = True
    assert CALLS[name](driver.functions) == NOT_PERMITTED
    assert driver.seen == []
    assert not other.inside.callback
    assert CALLS[name](other.functions) == 0
    driver.inside.callback = False
    assert CALLS[name](driver.functions) == 0


def test_a_callback_is_of_one_thread():
    inside, seen = Inside(), []
    inside.callback = True
    thread = threading.Thread(target=lambda: seen.append(inside.callback))
    thread.start()
    thread.join()
    assert inside.callback
    assert seen == [False]
    inside.callback = False
    assert not inside.callback


def test_a_stream_that_is_recorded_is_not_asked():
    driver = Driver("cu", CUDA)
    driver.capturing = 1
    assert driver.functions.stream_query(FIVE) == RECORDED
    assert driver.functions.stream_synchronize(FIVE) == RECORDED
    assert driver.functions.event_record(SIX, 0) == RECORDED
    driver.statuses["StreamIsCapturing"] = WAITS_FOR_RECORDED
    assert driver.functions.stream_query(0) == WAITS_FOR_RECORDED
    assert driver.seen == []
    driver.statuses["StreamIsCapturing"] = 400
    assert driver.functions.stream_query(FIVE) == 0
    assert driver.functions.event_record(SIX, FIVE) == 0
    assert [seen[0] for seen in driver.seen] == ["StreamQuery", "EventRecord"]


# ---- what is current, and starts ----------------------------------------------------------------

ASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
LAUNCH = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7),
    *[ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)],
)


class Device:
    """One whose handle is current or not, and which notes what it starts."""

    def __init__(self):
        self.current, self.status, self.launch_status, self.started = FIVE, 0, 0, []
        self.ask, self.launch = ASK(self._ask), LAUNCH(self._launch)

    def addresses(self):
        return [ctypes.cast(each, ctypes.c_void_p).value for each in (self.ask, self.launch)]

    def _ask(self, into):
        into[0] = self.current
        return self.status

    def _launch(self, function, *rest):
        *dims, stream, addresses, extra = rest
        packed = ctypes.string_at(extra[1], self._size(extra)) if extra else None
        ends = (extra[0], extra[2], extra[4]) if extra else None
        self.started.append((function, dims, stream, addresses, packed, ends))
        return self.launch_status

    def _size(self, extra):
        return ctypes.c_size_t.from_address(extra[3]).value


def start_on(device, last, again):
    ask, launch = device.addresses()
    return DriverStart(1, FIVE, ask, launch, 3, SIX, (1, 2, 3), (4, 5, 6), 7, last, again)


def test_a_start_hands_over_all_of_a_launch():
    device, last = Device(), {}
    start = start_on(device, last, None)
    start(8, b"arguments")
    start(9, b"")
    dims = [1, 2, 3, 4, 5, 6, 7]
    assert device.started == [
        (SIX, dims, 8, None, b"arguments", (1, 2, 3)),
        (SIX, dims, 9, None, None, None),
    ]
    assert last == {8: SIX, 9: SIX}


def test_a_start_that_fails_is_told_and_not_noted():
    device, last, told = Device(), {}, []

    def again(start, stream, launch, status):
        told.append((stream, launch, status))
        if status == 719:
            raise ValueError(status)

    start = start_on(device, last, again)
    device.current = SIX
    start(8, b"elsewhere")
    device.current, device.status = FIVE, 201
    start(9, b"not asked")
    assert device.started == []
    device.status, device.launch_status = 0, 719
    with pytest.raises(ValueError, match="719"):
        start(10, b"refused")
    assert told == [(8, b"elsewhere", ELSEWHERE), (9, b"not asked", 201), (10, b"refused", 719)]
    assert last == {8: SIX, 9: SIX}


def test_a_device_is_entered_where_it_is_not_current():
    device, inside, entered = Device(), Inside(), []

    class Noting(Current):
        def _enter(self, number):
            entered.append(number)

    current = Noting(inside, device.addresses()[0])
    current.activate(0)
    current.handles[0] = FIVE
    current.activate(0)
    assert (entered, current.current()) == ([0], FIVE)
    device.current = SIX
    current.activate(0)
    device.current, device.status = FIVE, 201
    current.activate(0)
    assert (entered, current.current()) == ([0, 0, 0], -1)
    device.status, inside.callback = 0, True
    try:
        current.activate(0)
    finally:
        inside.callback = False
    assert entered == [0] * 4
