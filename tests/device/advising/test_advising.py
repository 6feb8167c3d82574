"""What `haulage advise` finds in copies, on each device: counts and bytes, and what to change."""

import gc
import inspect
import threading

import numpy as np
import pytest

from haulage import SmartArray, cuda, memory
from haulage.advising import watcher as watching
from haulage.advising.advice import advice_of, as_data
from haulage.advising.watcher import Watcher
from haulage.advising.words import as_text
from haulage.runtime.process import runtime

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

N = 1000
BYTES = 8 * N


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


@cuda.jit
def add_pair(pair, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = pair[0][i] + pair[1][i]


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


_total = cuda.reduce(lambda a, b: a + b)

GRID = 8, 128


@pytest.fixture
def advised(monkeypatch):
    """A function that gives the findings so far, as data; copies are watched."""
    watcher = Watcher()
    monkeypatch.setattr(runtime.current, "watchers", (watcher,))
    monkeypatch.setattr(runtime.current, "apart", True)

    def found():
        watcher._settle()
        advice = advice_of(watcher, "test")
        data = as_data(advice)
        data["text"] = as_text(advice)
        return data

    yield found
    watcher.close()


def numbers(first=0):
    return np.arange(first, first + N, dtype=np.float64)


def amounts(finding):
    """(copies, repeated ones) to the device, and to the host."""
    return [
        (finding[way]["all"]["count"], finding[way]["repeated"]["count"])
        for way in ("to_device", "to_host")
    ]


def test_unchanged_uploads_of_one_line(advised):
    x = numbers()
    for _ in range(10):
        cuda.to_device(x)
    line = inspect.currentframe().f_lineno - 1
    data = advised()
    (finding,) = data["findings"]
    assert amounts(finding) == [(10, 9), (0, 0)]
    assert finding["repeated"]["nbytes"] == data["repeated"]["nbytes"] == 9 * BYTES
    assert data["transfers"]["count"] == 10
    assert finding["repeated"]["seconds"] > 0
    assert finding["array"] == "x (1000,) float64"
    assert finding["line"] == f"{__file__}:{line}"
    assert finding["change"][0] == (
        "make `x` a device array once, before it is repeated: d_x = cuda.to_device(x)"
    )
    assert "haulage.SmartArray" in finding["change"][1]
    assert "10 times to the device, 9 of them unchanged: 70.31 KiB of 78.12 KiB" in data["text"]


def test_arrays_that_other_calls_copy(advised):
    x = numbers()
    for _ in range(3):
        assert _total(x) == x.sum()
    (finding,) = advised()["findings"]
    assert amounts(finding)[0] == (3, 2)
    assert finding["change"][0] == (
        "make `x` a device array once, before it is repeated: d_x = cuda.to_device(x); give that "
        "instead of `x`"
    )


def test_what_smart_arrays_copy_is_not_looked_at(advised):
    x = SmartArray(numbers())
    for _ in range(3):
        scale[GRID](x, 2.0)
        x[...] = 1
    data = advised()
    assert (data["transfers"]["count"], data["findings"]) == (0, [])
    assert data["not_looked_at"] == {"count": 3, "nbytes": 3 * BYTES}
    assert data["text"] == (
        "haulage advise: test: nothing was copied but by SmartArrays or between devices: "
        "3 copies, 23.44 KiB"
    )


def test_what_changed_on_the_host_is_copied_for_a_reason(advised):
    x = numbers()
    for n in range(5):
        x[0] = n
        cuda.to_device(x)
    data = advised()
    assert data["findings"] == []
    assert "5 copies, 39.06 KiB, " in data["text"]
    assert data["text"].endswith("none of them repeated unchanged data")


@pytest.mark.parametrize("close", [False, True])
def test_what_a_kernel_changed_on_the_device_is_copied_for_a_reason(advised, close):
    x = numbers()
    for _ in range(5):
        there = cuda.to_device(x)
        scale[GRID](there, 2.0)
        if close:
            there.close()
    assert advised()["findings"] == []


def test_an_array_that_was_closed_unchanged_is_copied_in_vain(advised):
    x = numbers()
    for _ in range(5):
        cuda.to_device(x).close()
    (finding,) = advised()["findings"]
    assert amounts(finding) == [(5, 4), (0, 0)]
    assert finding["to_device"]["unsure"] == 0


def test_what_cannot_be_looked_at_any_more_is_told_as_unsure(advised):
    x = numbers()
    for _ in range(3):
        cuda.to_device(x)
        with memory.leaks():
            pass
    (finding,) = advised()["findings"]
    assert finding["to_device"]["unsure"] == 2
    assert any("if no kernel had changed them" in line for line in advised()["text"].splitlines())


def test_watching_leaks_nothing(advised):
    x = numbers()
    with memory.leaks():
        for _ in range(3):
            cuda.to_device(x)
            scale[GRID](x, 1.0)
    assert advised()["findings"]


def test_bytes_that_came_from_the_device_and_go_back_to_it(advised):
    x = numbers()
    for n in range(4):
        there = cuda.to_device(x)
        scale[GRID](there, 2.0 + n)
        x = there.copy_to_host()
    (finding,) = advised()["findings"]
    assert finding["called"] == "to_device"
    assert finding["to_device"]["returned"] == finding["to_device"]["repeated"]["count"] == 3
    assert "has them still: go on with the device array that they came from" in finding["change"][0]


def test_a_second_array_of_the_same_elements_may_be_copied_on_the_device(advised):
    x = numbers()
    one = cuda.to_device(x)
    two = cuda.to_device(x)
    (finding,) = advised()["findings"]
    assert amounts(finding) == [(1, 1), (0, 0)]
    assert "or copy it on the device by copy_to_device" in finding["change"][0]
    del one, two


def test_downloads_of_what_has_not_changed(advised):
    there, host = cuda.device_array(N), np.empty(N)
    scale[GRID](there, 0.0)
    there.copy_to_host()
    for _ in range(3):
        there.copy_to_host()
    there.copy_to_host(host)
    there.copy_to_host(host)
    findings = advised()["findings"]
    assert [amounts(each) for each in findings] == [[(0, 0), (3, 3)], [(0, 0), (1, 1)]]
    assert findings[0]["array"] == "there (1000,) float64"
    assert "nothing has changed `there` since" in findings[0]["change"][0]


def test_a_host_array_that_was_changed_is_copied_to_for_a_reason(advised):
    there, host = cuda.to_device(numbers()), numbers(5)
    there.copy_to_host(host)
    host[:] = 0
    there.copy_to_host(host)
    assert advised()["findings"] == []


def test_host_arrays_that_kernels_are_given_in_a_loop(advised):
    x, y, out = numbers(), numbers(), np.zeros(N)
    for n in range(5):
        y[0] = n
        add[GRID](x, y, cuda.Out(out))
    findings = {each["array"].split()[0]: each for each in advised()["findings"]}
    assert amounts(findings["x"]) == [(5, 4), (5, 5)]
    assert amounts(findings["y"]) == [(5, 0), (5, 5)]
    assert findings["x"]["called"] == "kernel add, argument 'x'"
    assert findings["x"]["change"][0] == (
        "make `x` a device array once, before the first launch: d_x = cuda.to_device(x); give the "
        "kernel d_x"
    )
    assert findings["x"]["change"][1].startswith("or x = haulage.SmartArray(x) there, which is cop")
    assert findings["x"]["change"][2] == (
        "if it stays a host array: the kernel only reads `x`: give it cuda.In(x), which is not "
        "copied back"
    )
    assert findings["y"]["change"] == [
        "the kernel only reads `y`: give it cuda.In(y), which is not copied back"
    ]
    assert "out" not in findings
    np.testing.assert_array_equal(out[1:], 2 * x[1:])


def test_arrays_in_tuples_are_told_apart(advised):
    x, y, out = numbers(), numbers(5), np.zeros(N)
    pair = x, y
    for _ in range(2):
        add_pair[GRID]((x, cuda.In(y)), cuda.Out(out))
    for _ in range(2):
        add_pair[GRID](pair, cuda.Out(out))
    findings = {
        (each["array"].split()[0], each["called"]): each["change"] for each in advised()["findings"]
    }
    x, y, first, second = (
        findings[name, f"kernel add_pair, argument 'pair[{entry}]'"]
        for name, entry in (("x", 0), ("y", 1), ("pair[0]", 0), ("pair[1]", 1))
    )
    assert x[-1].endswith("the kernel only reads `x`: give it cuda.In(x), which is not copied back")
    assert "d_y = cuda.to_device(y); give the kernel d_y, also at " in y[0]
    assert "d_array = cuda.to_device(pair[0]); give the kernel d_array" in first[0]
    assert "give it cuda.In(pair[1])" in second[-1]


def test_a_result_that_stays_the_same_is_no_input(advised):
    x, out = numbers(), 2 * numbers()
    for _ in range(2):
        add[GRID](cuda.In(x), cuda.In(x), cuda.Out(out))
    data = advised()
    (finding,) = [each for each in data["findings"] if each["array"].startswith("out")]
    assert amounts(finding) == [(0, 0), (2, 2)]
    # The kernel has written it anew each time.
    assert finding["repeated"]["count"] == 0
    assert data["repeated"]["count"] == sum(each["repeated"]["count"] for each in data["findings"])
    assert finding["change"] == [
        "2 of 2 launches changed nothing of `out`: make it a haulage.SmartArray, which is copied "
        "only when it changed and someone looks"
    ]


def by_name(data):
    """What to change first, by what the line calls the array and the kernel."""
    return {
        (each["array"].split()[0], each["called"]): each["change"][0] for each in data["findings"]
    }


def test_lines_that_are_given_the_same_array_are_to_be_changed_together(advised):
    x, y = numbers() + 1, numbers()
    for _ in range(3):
        scale[GRID](x, 2.0)
        scaled = inspect.currentframe().f_lineno - 1
        add[GRID](x, y, y)
    change = by_name(advised())
    assert change["x", "kernel add, argument 'x'"] == (
        "make `x` a device array once, before the first launch: d_x = cuda.to_device(x); give the "
        f"kernel d_x, also at {__file__}:{scaled}, and d_x.copy_to_host(x) when the host needs it"
    )
    assert change["y", "kernel add, argument 'y'"].endswith(
        "give the kernel d_y, also as argument 'out', and d_y.copy_to_host(y) when the host needs "
        "it"
    )


def test_arrays_that_take_turns_are_to_do_so_on_the_device(advised):
    x, y, zero = numbers() + 1, np.zeros(N), np.zeros(N)
    for _ in range(4):
        add[GRID](x, zero, y)
        x, y = y, x
    change = by_name(advised())
    told = change["x", "kernel add, argument 'x'"]
    assert told == (
        "`x` and `y` take turns: make device arrays of them once, before the first launch: "
        "d_x = cuda.to_device(x), d_y = cuda.to_device(y); let these take turns, and give the "
        "kernel them, and d_x.copy_to_host(x) when the host needs it"
    )
    assert "take turns" not in change["zero", "kernel add, argument 'y'"]


def test_what_the_host_changes_now_and_then_has_to_be_copied_then(advised):
    x, y, out = numbers(), numbers(), np.zeros(N)
    for n in range(6):
        x[0] = n // 3
        add[GRID](x, y, cuda.Out(out))
        cuda.to_device(x)
    change = by_name(advised())
    copied = "d_x.copy_to_device(x) when the host"
    assert change["x", "kernel add, argument 'x'"].endswith(f"d_x, and {copied} has changed it")
    assert "copy_to_device" not in change["y", "kernel add, argument 'y'"]


def test_several_arrays_of_one_line_are_each_to_be_made_device_arrays(advised):
    out = np.zeros(N)
    kept = [numbers(1), numbers(2)]
    for part in kept * 2:
        add[GRID](part, part, cuda.Out(out))
    rest = [numbers(3), numbers(4)]
    for other in rest * 2:
        cuda.to_device(other)
    cuda.to_device(kept[0])
    change = by_name(advised())
    assert change["part", "kernel add, argument 'x'"].startswith(
        "`part` is one of several arrays here: make a device array of each once: "
        "d_part = cuda.to_device(part); give the kernel d_part"
    )
    assert change["other", "to_device"].startswith(
        "make each array that is `other` a device array once, before it is repeated: d_other = "
    )
    assert "; give the kernel that, too, at " in change["kept[0]", "to_device"]


def test_a_flag_that_says_the_same_again_has_to_be_copied_to_know_it(advised):
    there = cuda.to_device(np.ones(1))
    for _ in range(4):
        scale[1, 32](there, 1.0)
        there.copy_to_host()
    (finding,) = advised()["findings"]
    assert amounts(finding) == [(0, 0), (4, 4)]
    assert finding["change"][0].endswith(
        "only after a kernel has written to it (one that wrote the same again was not told from "
        "one that wrote nothing)"
    )


def test_arrays_of_records_are_named_by_their_fields(advised):
    x = np.zeros(N, [("at", "f8"), ("size", "u1"), ("more", "f4", 3)])
    for _ in range(2):
        cuda.to_device(x)
    (finding,) = advised()["findings"]
    assert finding["array"] == "x (1000,) records (at, size, more)"


def test_arrays_that_the_line_does_not_name(advised):
    given = [numbers()]
    for _ in range(2):
        cuda.to_device(*given)
    (finding,) = advised()["findings"]
    assert finding["change"][0] == (
        "the device has these elements already: copy them only when something changed"
    )


def test_threads_that_copy_at_once(advised, monkeypatch):
    monkeypatch.setattr(watching, "_OFTEN", 1)
    x, failed = np.zeros(100_000), []

    def copy():
        try:
            for _ in range(50):
                cuda.to_device(x).copy_to_host(x)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=copy) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    data = advised()
    assert data["transfers"]["count"] == 400
    assert data["repeated"]["seconds"] > 0


def test_a_host_array_that_the_kernel_overwrites_need_not_be_sent(advised):
    x, out = numbers(), np.zeros(N)
    add[GRID](cuda.In(x), cuda.In(x), out)
    data = advised()
    (finding,) = [each for each in data["findings"] if each["array"].startswith("out")]
    assert amounts(finding) == [(1, 0), (1, 0)]
    (change,) = finding["change"]
    assert change == (
        "the kernel reads nothing of `out`, and writes all of it if the grid has at least out.size "
        "threads: then give it cuda.Out(out), which is not copied to the device"
    )


def test_a_result_that_is_sent_back_unchanged_was_needed_only_if_the_host_looked(advised):
    x = numbers() + 1
    for _ in range(5):
        scale[GRID](x, 2.0)
    data = advised()
    (finding,) = data["findings"]
    assert amounts(finding) == [(5, 4), (5, 0)]
    assert finding["to_host"]["only_if_the_host_looks"] == {"count": 4, "nbytes": 4 * BYTES}
    assert "and d_x.copy_to_host(x) when the host needs it" in finding["change"][0]
    assert "4 more of these (31.25 KiB) were needed only if the host looked" in data["text"]
    np.testing.assert_array_equal(x, (numbers() + 1) * 32)


def test_on_devices_that_share_the_hosts_memory_it_says_so(advised, device):
    x = numbers()
    for _ in range(2):
        scale[GRID](x, 1.0)
    data = advised()
    shared = device.properties.host_memory_is_device_memory
    assert data["in_place"] == ([str(device)] if shared else [])
    assert ("kernels use host arrays in place" in data["text"]) == shared


def test_pinned_copies_that_are_under_way_are_not_compared(advised, hold_up):
    stream, pinned = cuda.stream(), cuda.pinned_array(N)
    pinned[:] = 0
    there = cuda.to_device(numbers())
    with hold_up(stream):
        there.copy_to_host(pinned, stream=stream)
    stream.synchronize()
    data = advised()
    assert data["not_compared"] == {"count": 1, "nbytes": BYTES}
    assert data["findings"] == []


def test_memory_that_is_held_to_be_compared_gives_way(advised, device):
    kept = cuda.device_array(1, np.uint8)
    x = np.zeros(1 << 20, np.uint8)
    gc.collect()  # what tests before have left would go in between
    before = memory.stats(device).in_use
    for n in range(4):
        x[0] = n
        cuda.to_device(x.copy())
    held = memory.stats(device).in_use - before
    assert held >= x.nbytes
    memory.limit(before + x.nbytes, device)
    try:
        there = cuda.device_array(x.nbytes, np.uint8)
    finally:
        memory.limit(None, device)
    assert (there.nbytes, kept.nbytes) == (x.nbytes, 1)
