"""Launches with SmartArrays like an earlier one, which are short: they do what that one does."""

import threading

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage.errors import CaptureError, LaunchError
from haulage.runtime.coherence import eviction
from haulage.runtime.devices import registry

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

UP, DOWN = "host to device", "device to host"


@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b[i]


@cuda.jit
def add_number(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += number


@cuda.jit
def overwrite(a, number):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = number


@cuda.jit
def copy(out, of):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = of[i]


def ones(n=32):
    return SmartArray(np.ones(n))


def ways(t):
    return [(one.direction, one.nbytes) for one in t]


def test_what_was_written_between_them_is_moved_each_time_and_nothing_else():
    a, b, launch = ones(), ones(), add[1, 32]
    launch(a, b)
    expected = 2.0
    for step in range(6):
        with haulage.transfers() as t:
            launch(a, b)
            launch(a, b)
        assert ways(t) == ([(UP, 256)] if step and step % 3 == 0 else [])
        expected += 2 * b[0]
        if step % 3 == 2:
            assert a[5] == expected
            a[:] = expected = float(step)
    assert np.all(np.asarray(a) == expected)


def test_each_counts_as_a_use_that_found_the_bytes_there():
    a, b, launch = ones(), ones(), cuda.jit(add.py_func)[1, 32]
    for _ in range(7):
        launch(a, b)
    for array in (a, b):
        data = haulage.explain(array).data
        assert (data["uses"], data["found"], data["launches"]) == (7, 6, 7)
        assert data["found_bytes"] == 6 * 256
        assert data["as_host_arrays"] == 2 * 7 * 256


def test_a_transfer_after_them_names_the_line_of_the_last_one():
    a, launch = ones(), add_number[1, 32]
    for _ in range(3):
        launch(a, 1.0)
    launch(a, 1.0)  # the last one
    a.sum()
    with open(__file__, encoding="utf-8") as file:
        lines = file.readlines()
    last = list(a.coherence.transfers)[-1]
    assert "# the last one" in lines[last.wrote.line - 1]


def test_what_only_reads_leaves_the_host_current():
    a, b, launch = ones(), ones(), copy[1, 32]
    for _ in range(3):
        launch(b, a)
    with haulage.assert_no_transfers():
        assert np.asarray(a).sum() == 32
    assert np.asarray(b).sum() == 32


def test_what_is_overwritten_is_not_brought_to_the_device():
    a, launch = ones(), overwrite[1, 32]
    for number in (2.0, 3.0):
        launch(a, number)
    a[:] = 5
    with haulage.assert_no_transfers():
        launch(a, 4.0)
        launch(a, 7.0)
    assert np.all(np.asarray(a) == 7)
    # Of two arguments of one storage, one may read what the other one overwrites.
    launch = copy[1, 16]
    for _ in range(2):
        launch(a[:16], a[16:])
    a[16:] = np.arange(16)
    launch(a[:16], a[16:])
    assert np.array_equal(a[:16], np.arange(16))


def test_views_that_are_written_through_are_brought_each_time():
    a, b, launch = ones(), ones(), add[1, 32]
    launch(a, b)
    launch(a, b)
    view = b.get()
    for number in (10.0, 20.0):
        view[:] = number
        launch(a, b)
    assert np.all(np.asarray(a) == 33)


def test_views_of_other_kinds_have_code_of_their_own():
    a, launch = SmartArray(np.arange(24.0)), add_number[1, 32]
    expected = np.arange(24.0)
    for _ in range(3):
        for part in (slice(None), slice(3, 9), slice(None, None, 2), slice(20, 2, -3)):
            launch(a[part], 1)
            expected[part] += 1
    assert np.array_equal(a, expected)


def test_beside_arrays_of_the_device_and_of_the_host():
    a, d, h = ones(), cuda.to_device(np.ones(32)), np.ones(32)
    launch = add[1, 32]
    for _ in range(3):
        launch(a, d)
        launch(d, a)
        launch(h, a)
        launch(a, h)
    x, y, z = 1.0, 1.0, 1.0
    for _ in range(3):
        x += y
        y += x
        z += x
        x += z
    assert (a[3], d.copy_to_host()[3], h[3]) == (x, y, z)


def test_numbers_that_do_not_fit_are_refused_each_time_and_nothing_counts_twice():
    launch = cuda.jit("void(float64[:], int32)")(add_number.py_func)[1, 32]
    a = ones()
    for _ in range(3):
        launch(a, 1)
    before = haulage.explain(a).data["uses"]
    for _ in range(2):
        with pytest.raises(LaunchError, match="does not fit"):
            launch(a, 2**40)
    launch(a, 1)
    assert haulage.explain(a).data["uses"] == before + 3
    assert np.all(np.asarray(a) == 5)


def test_in_streams_they_wait_for_each_other(device, hold_up):
    first, second = cuda.stream(), cuda.stream()
    a, b = ones(), ones()
    for stream in (first, second) * 2:
        add[1, 32, stream](a, b)
    cuda.synchronize()
    with hold_up(first):
        add_number[1, 32, first](a, 10.0)
        add[1, 32, second](b, a)
    assert b[0] == 1 + 15


def test_they_run_on_the_device_that_is_current(device):
    others = [each for each in haulage.devices() if each is not device]
    if not others:
        pytest.skip("there is one device")
    a, launch = ones(), add_number[1, 32]
    for _ in range(2):
        for each in (device, device, *others):
            with haulage.use(each):
                launch(a, 1.0)
                assert a.coherence.current() == [each]
    assert a[0] == 1 + 2 * (2 + len(others))


def test_memory_that_was_closed_is_found_in_them():
    a, launch = ones(), add_number[1, 32]
    launch(a, 1.0)
    launch(a, 1.0)
    a.sum()
    a.get("gpu").close()
    launch(a, 1.0)
    assert np.all(np.asarray(a) == 4)


def test_graphs_refuse_them():
    a, launch = ones(), add_number[1, 32]
    launch(a, 1.0)
    launch(a, 1.0)
    refused = pytest.raises(CaptureError, match="a SmartArray is made current by each launch")
    with refused, cuda.graph():
        launch(a, 1.0)
    launch(a, 1.0)
    assert a[0] == 4


def test_a_launch_that_fails_leaves_nothing_acquired(monkeypatch):
    a, launch = ones(), cuda.jit(add_number.py_func)[1, 32]
    launch(a, 1.0)
    launch(a, 1.0)

    def refuse(*launched):
        raise LaunchError("not today")

    (plan,) = set(launch.plans.values())
    start = plan._start
    monkeypatch.setattr(plan, "_start", refuse)
    with pytest.raises(LaunchError, match="not today"):
        launch(a, 1.0)
    monkeypatch.setattr(plan, "_start", start)
    # Nobody is at work with it, so its memory can be given to others.
    assert eviction.evict(a.coherence.state, registry.current_device(), True, "a test") == 256
    launch(a, 1.0)
    assert np.all(np.asarray(a) == 4)


def test_threads_that_launch_with_one_array_at_one_time(device):
    a, launch = ones(), add_number[1, 32]
    launch(a, 1.0)
    errors = []

    def work():
        try:
            with haulage.use(device):
                for _ in range(50):
                    launch(a, 1.0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    cuda.synchronize()
    assert np.all(np.asarray(a) == 202)
    data = haulage.explain(a).data
    assert (data["uses"], data["found"], data["launches"]) == (201, 200, 201)
