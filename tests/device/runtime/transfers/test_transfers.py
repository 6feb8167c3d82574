"""`haulage.transfers`, `max_transfers`, `assert_no_transfers` and `explain` on each device."""

import asyncio
import inspect
import json
import threading
from collections import deque

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage.errors import TransferError
from haulage.runtime.process import runtime
from haulage.runtime.transfers import account
from haulage.tracing.recorder import Recorder

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device", "numbered_anew")

UP, DOWN = "host to device", "device to host"


@pytest.fixture
def numbered_anew(monkeypatch):
    """The lines of this file have made nothing yet."""
    monkeypatch.setattr(account, "_places", {})
    monkeypatch.setattr(account, "_lines", {})


@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b[i]


def numbers(n=100):
    return np.arange(n, dtype=np.float64)


def line():
    """The number of the line that calls this."""
    return inspect.currentframe().f_back.f_lineno


def ways(t):
    return [(one.direction, one.nbytes) for one in t]


# ---- what is recorded ----------------------------------------------------------------------------


def test_a_smart_array_is_moved_once_each_way_and_each_transfer_names_both_lines(device):
    a, b = SmartArray(numbers()), SmartArray(numbers())
    made = line() - 1
    with haulage.transfers() as t:
        for _ in range(10):
            add[1, 128](a, b)
        launched = line() - 1
        for _ in range(3):
            a.sum()
        looked = line() - 1
    assert ways(t) == [(UP, 800), (UP, 800), (DOWN, 800)]
    assert t.nbytes == 2400
    up, _, down = t
    assert (up.source, up.target, up.why) == ("host", str(device), "kernel add")
    assert (down.source, down.target, down.why) == (str(device), "host", "a.sum()")
    assert up.array == f"SmartArray (100,) float64 made at test_transfers.py:{made}"
    assert (up.wrote.line, up.looked.line) == (made, launched)
    assert (down.wrote.line, down.looked.line) == (launched, looked)
    assert down.looked.filename == __file__
    text = str(down)
    assert text.startswith(f"800 bytes from {device} to host: {up.array}, for a.sum() at ")
    assert f"test_transfers.py:{looked} in " in text
    assert "; written last at " in text


def test_all_other_copies_between_host_and_device_are_recorded(device):
    host = numbers(10)
    with haulage.transfers() as t:
        array = cuda.to_device(host)
        array.copy_to_device(host)
        array[2:4] = [1, 2]
        array.copy_to_host()
        array.copy_to_host(host)
        assert array[2] == 1
        assert np.asarray(array)[3] == 2
    assert [(one.direction, one.nbytes, one.why) for one in t] == [
        (UP, 80, "to_device"),
        (UP, 80, "copy_to_device"),
        (UP, 16, "a[...] = values"),
        (DOWN, 80, "copy_to_host"),
        (DOWN, 80, "copy_to_host"),
        (DOWN, 8, "a[...]"),
        (DOWN, 80, "NumPy (__array__)"),
    ]
    assert [one.looked.line for one in t] == [t[0].looked.line + n for n in range(7)]
    assert {one.wrote for one in t} == {None}
    assert t[0].array == "array (10,) float64"
    assert t[0].target == str(device)


def test_fills_and_copies_within_a_device_and_numbers_are_no_transfers():
    array, record = cuda.to_device(numbers(10)), np.dtype([("x", "u1"), ("y", "f8")])
    records = cuda.device_array(4, record)
    scratch = cuda.device_array(10)
    add[1, 32](array, scratch)
    with haulage.assert_no_transfers():
        array.fill(2)
        array[3] = 7
        array[2:5] = 1.5
        records[:] = (1, 2.0)
        scratch.copy_to_device(array)
        array[:5] = scratch[5:]
        add[1, 32](array, scratch)
        cuda.synchronize()


def test_host_arrays_given_to_kernels_are_recorded_where_they_are_copied(by_copies):
    host, other = numbers(10), numbers(10)
    with by_copies(), haulage.transfers() as t:
        add[1, 32](host, cuda.In(other))
    assert [(one.direction, one.nbytes, one.why) for one in t] == [
        (UP, 80, "kernel add, argument 'a'"),
        (UP, 80, "kernel add, argument 'b'"),
        (DOWN, 80, "kernel add, argument 'a'"),
    ]
    assert len({one.looked for one in t}) == 1


def test_lines_are_the_programs_also_behind_numpys_functions_and_with():
    a, array = SmartArray(numbers()), cuda.to_device(numbers(10))
    lines = []
    with haulage.transfers() as t:
        add[1, 128](a, a)
        a + 1
        lines.append(line() - 1)
        add[1, 128](a, a)
        np.stack([a, a])
        lines.append(line() - 1)
        np.stack([array])
        lines.append(line() - 1)
        with a.host("w") as host:
            host[:] = 1
        written = line() - 2
        add[1, 128](a, a)
    assert [one.looked.line for one in t.where(DOWN)] == lines
    assert {one.looked.filename for one in t} == {__file__}
    assert t[-2].why == "numpy.stack"
    assert t[-1].direction == UP
    assert t[-1].wrote.filename == __file__
    assert written <= t[-1].wrote.line <= written + 1


def test_a_transfer_of_a_part_names_the_line_that_wrote_this_part():
    a = SmartArray(numbers())
    add[1, 128](a, a)
    a[:10] = 1
    first = line() - 1
    a[50:60] = 2
    second = line() - 1
    with haulage.transfers() as t:
        add[1, 128](a, a)
    assert [(one.nbytes, one.wrote.line) for one in t] == [(80, first), (80, second)]
    add[1, 128](a, a)
    with haulage.transfers() as t:
        a[:3].sum()
    assert {one.wrote.line for one in t} == {line() - 3}


def test_a_copy_that_fails_is_none():
    array = cuda.device_array(4)
    with haulage.transfers() as t:
        with pytest.raises(ValueError, match="incompatible shape"):
            array.copy_to_host(np.empty(5))
        cuda.to_device(np.empty(0))
    assert len(t) == 0


def test_what_a_graph_records_is_not_copied_then():
    array, pinned, stream = cuda.device_array(100), cuda.pinned_array(100), cuda.stream()
    with haulage.transfers() as t, cuda.graph(stream):
        array.copy_to_device(pinned, stream)
    assert len(t) == 0


# ---- the sequence --------------------------------------------------------------------------------


def test_it_is_a_sequence_inside_and_afterwards():
    a = cuda.to_device(numbers(10))
    with haulage.transfers() as t:
        a.copy_to_host()
        assert len(t) == 1
        a.copy_to_device(numbers(10))
    assert len(t) == t.count() == 2
    assert (t.count(UP), t.count(DOWN), t.count("device to device")) == (1, 1, 0)
    assert t[-1] is list(t)[1]
    assert len(t[1:]) == 1
    assert t[1:].nbytes == t.where(UP).nbytes == 80
    a.copy_to_host()
    assert len(t) == 2
    with pytest.raises(ValueError, match="direction 'up': expected 'host to device', 'device to"):
        t.count("up")
    with pytest.raises(IndexError):
        t[2]


def test_those_of_one_array():
    a, b, plain, other = SmartArray(numbers()), SmartArray(numbers()), numbers(), numbers()
    with haulage.transfers() as t:
        add[1, 128](a, b)
        there = cuda.to_device(plain)
        cuda.to_device(other)
        there[:10].copy_to_host()
        a.sum()
    assert ways(t.of(a)) == [(UP, 800), (DOWN, 800)]
    assert ways(t.of(b)) == [(UP, 800)]
    assert ways(t.of(plain)) == [(UP, 800)]
    assert ways(t.of(plain[5:7])) == [(UP, 800)]
    assert ways(t.of(there)) == [(UP, 800), (DOWN, 80)]
    assert ways(t.of(there[50:])) == [(UP, 800)]
    with haulage.transfers() as t:
        there[::2].copy_to_host()
        there[::-1].copy_to_host()
    assert ways(t.of(there[90:])) == ways(t.of(there[:1])) == [(DOWN, 400), (DOWN, 800)]
    with pytest.raises(TypeError, match="transfers of a list: expected a SmartArray, a NumPy arr"):
        t.of([1])


def test_it_is_shown_in_lines_and_as_a_table():
    with haulage.transfers() as t:
        for _ in range(3):
            cuda.to_device(numbers(10))
    lines = repr(t).splitlines()
    assert lines[0] == "3 transfers, 240 bytes"
    assert lines[1:] == [f"  {one}" for one in t]
    html = t._repr_html_()
    assert html.count("<tr>") == 4
    assert ">to_device</td>" in html
    assert 'text-align: right">80</td>' in html
    with haulage.transfers() as t:
        pass
    assert repr(t) == "0 transfers, 0 bytes"
    assert t._repr_html_() == "<p>0 transfers, 0 bytes</p>"
    b = SmartArray(numbers())
    x = b.get()
    for _ in range(2):
        x[0] = 2
        add[1, 128](b, b)
        cuda.synchronize()
    html = haulage.explain(b)._repr_html_()
    assert html.startswith(f"<p>transfers of {b.coherence.name} since the process began: ")
    assert "bytes were avoided</p>" in html
    assert ": 2 uploads, 1,600 bytes, as the NumPy array of get(&#x27;host&#x27;) at " in html
    assert ">may be written through the view of get(&#x27;host&#x27;) held since " in html


def test_of_many_the_first_and_the_last_are_shown():
    host, array = numbers(1), cuda.device_array(1)
    with haulage.transfers() as t:
        for _ in range(100):
            array.copy_to_device(host)
    lines = repr(t).splitlines()
    assert lines[0] == "100 transfers, 800 bytes"
    assert lines[21] == "  ... 60 more ..."
    assert len(lines) == 42
    assert "60 more" in t._repr_html_()


# ---- several at once -----------------------------------------------------------------------------


def test_recorders_are_nested_and_each_has_what_was_within_it():
    host = numbers(10)
    with haulage.transfers() as outer:
        cuda.to_device(host)
        with haulage.transfers() as inner:
            array = cuda.to_device(host)
        array.copy_to_host()
    assert (outer.count(UP), outer.count(DOWN), len(inner)) == (2, 1, 1)
    assert runtime.current.watchers == ()


def test_one_object_records_once_at_a_time():
    t = haulage.transfers()
    with t:
        with pytest.raises(RuntimeError, match="records already; make one for each block"):
            t.__enter__()
        cuda.to_device(numbers(10))
    with t:
        cuda.to_device(numbers(10))
    assert len(t) == 2


def test_what_other_threads_copy_is_recorded_too():
    host, failed = numbers(10), []

    def copy():
        try:
            for _ in range(50):
                cuda.to_device(host)
        except Exception as error:
            failed.append(error)

    with haulage.transfers() as t:
        threads = [threading.Thread(target=copy) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not failed
    assert (len(t), t.nbytes) == (200, 200 * 80)


def test_trace_and_transfers_see_the_same_copies_at_once(monkeypatch):
    traced = Recorder(10_000, compare=False)
    monkeypatch.setattr(runtime.current, "observer", traced)
    a = SmartArray(numbers(10))
    with haulage.transfers() as t:
        array = cuda.to_device(numbers(10))
        add[1, 32](a, array)
        array.copy_to_host()
    monkeypatch.undo()
    traced.sort_in()
    seen = [each.nbytes for each in traced.operations.kept if each.kind in ("upload", "download")]
    assert sorted(seen) == sorted(one.nbytes for one in t) == [80] * 3


# ---- allowing some -------------------------------------------------------------------------------


def test_nothing_copied_is_nothing_wrong():
    array = cuda.to_device(numbers(10))
    with haulage.assert_no_transfers() as t:
        array.fill(1)
    assert len(t) == 0
    with haulage.max_transfers(1, bytes=80):
        array.copy_to_host()


def test_more_than_allowed_fails_and_lists_each_transfer_with_its_cause():
    a, b = SmartArray(numbers()), SmartArray(numbers())
    made = f"SmartArray (100,) float64 made at test_transfers.py:{line() - 1}"
    with pytest.raises(TransferError) as caught, haulage.assert_no_transfers():
        add[1, 128](a, b)
    assert isinstance(caught.value, AssertionError)
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 transfers, 1,600 bytes; none is allowed:"
    assert len(lines) == 3
    assert f": {made}, for kernel add at" in lines[1]
    assert f": {made} (no. 2), for kernel add at" in lines[2]
    assert all("; written last at" in line for line in lines[1:])
    assert ways(caught.value.transfers) == [(UP, 800)] * 2


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"n": 1}, "at most 1 allowed"),
        ({"bytes": 159}, "at most 159 bytes allowed"),
        ({"n": 5, "bytes": 100}, "at most 5 and 100 bytes allowed"),
    ],
)
def test_each_limit_alone_and_both(given, allowed):
    host = numbers(10)

    @haulage.max_transfers(**given)
    def twice():
        cuda.to_device(host)
        cuda.to_device(host)

    with pytest.raises(AssertionError, match=f"2 transfers, 160 bytes; {allowed}:"):
        twice()
    with haulage.max_transfers(n=2, bytes=160):
        cuda.to_device(host)
        cuda.to_device(host)


def test_what_the_body_raises_goes_through():
    @haulage.assert_no_transfers()
    def fail():
        cuda.to_device(numbers(10))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert runtime.current.watchers == ()


def test_a_decorated_function_is_checked_at_each_call_also_within_itself():
    host = numbers(10)

    @haulage.max_transfers(2)
    def copy(depth):
        cuda.to_device(host)
        return copy(depth - 1) if depth else "done"

    for _ in range(3):
        assert copy(1) == "done"
    with pytest.raises(AssertionError, match="3 transfers, 240 bytes; at most 2 allowed"):
        copy(2)

    @haulage.assert_no_transfers()
    def nothing():
        cuda.to_device(host)

    with pytest.raises(AssertionError, match="1 transfer, 80 bytes; none is allowed"):
        nothing()


def test_wrong_limits_and_functions_whose_body_does_not_run_are_refused():
    with pytest.raises(TypeError, match="give n, bytes or both"):
        haulage.max_transfers()
    with pytest.raises(TypeError, match=r"n='2'.*expected a whole number"):
        haulage.max_transfers("2")
    with pytest.raises(ValueError, match=r"bytes=-1.*expected 0 or more"):
        haulage.max_transfers(bytes=-1)

    def later():
        yield

    async def much_later():
        yield

    for function in (later, much_later):
        with pytest.raises(TypeError, match="does not run its body; put a `with` into the body"):
            haulage.assert_no_transfers()(function)

    class Several:
        pass

    with pytest.raises(TypeError, match="Several: is a class; decorate its functions"):
        haulage.max_transfers(1)(Several)
    with pytest.raises(TypeError, match=r"write .* or as a decorator @haulage.assert_no_transfers"):

        @haulage.assert_no_transfers
        def without_brackets():
            pass


def test_a_coroutine_is_checked_until_it_ends():
    host = numbers(10)

    @haulage.max_transfers(1)
    async def copy(times):
        for _ in range(times):
            await asyncio.sleep(0)
            cuda.to_device(host)
        return "done"

    assert inspect.iscoroutinefunction(copy)
    assert asyncio.run(copy(1)) == "done"
    with pytest.raises(AssertionError, match="2 transfers, 160 bytes; at most 1 allowed"):
        asyncio.run(copy(2))
    assert runtime.current.watchers == ()


def test_what_is_decorated_keeps_its_parameters_by_which_pytest_finds_fixtures():
    @haulage.max_transfers(1)
    def copies(array, times=1):
        return array, times

    @haulage.assert_no_transfers()
    async def waits(array):
        return array

    assert list(inspect.signature(copies).parameters) == ["array", "times"]
    assert list(inspect.signature(waits).parameters) == ["array"]
    assert copies(3, times=2) == (3, 2)


def test_one_object_checks_one_block_at_a_time():
    limit = haulage.max_transfers(1)
    with limit, pytest.raises(RuntimeError, match="records already; make one for each block"):
        limit.__enter__()
    host = np.zeros((2, 3))
    with pytest.raises(TransferError), limit:
        cuda.to_device(host), cuda.to_device(host)
    with limit:
        cuda.to_device(numbers(10))


# ---- explain -------------------------------------------------------------------------------------


def test_explain_tells_what_was_moved_and_what_was_avoided(device):
    a, b = SmartArray(numbers()), SmartArray(numbers())
    made = line() - 1
    for _ in range(10):
        add[1, 128](a, b)
    launched = line() - 1
    a.sum()
    told = haulage.explain(a)
    data = told.data
    assert data["transfers"] == {UP: 1, DOWN: 1, "device to device": 0}
    assert data["nbytes"] == {UP: 800, DOWN: 800, "device to device": 0}
    assert (data["uses"], data["found"], data["found_bytes"]) == (10, 9, 7200)
    assert (data["launches"], data["as_host_arrays"], data["avoided"]) == (10, 16000, 14400)
    (entry,) = data["arrays"]
    name = f"SmartArray (100,) float64 made at test_transfers.py:{made}"
    assert entry["array"] == name
    assert entry["made"].startswith(f"{__file__}:{made} in test_explain_tells")
    assert (entry["views"], entry["advice"]) == ([], [])
    up, down = entry["causes"]
    assert (up["count"], up["nbytes"], up["target"], up["why"]) == (
        *(1, 800, str(device), "kernel add"),
    )
    assert f"test_transfers.py:{launched} in" in up["looked"]
    assert f"test_transfers.py:{launched} in" in down["wrote"]
    assert json.loads(json.dumps(data)) == data
    lines = str(told).splitlines()
    assert lines[0] == (
        f"transfers of {name} since the process began: 1 transfer, 800 bytes host to device; "
        "1 transfer, 800 bytes device to host"
    )
    assert lines[1] == "9 of 10 uses on a device found the bytes there: 7,200 bytes were not copied"
    assert "14,400 bytes were avoided" in lines[2]
    assert f"800 bytes in 1 transfer from host to {device}, for kernel add at" in lines[3]
    assert repr(told) == str(told)
    assert told._repr_html_().count("<tr>") == 3


def test_explain_without_an_array_sums_all_of_them():
    before = haulage.explain().data
    a, b = SmartArray(numbers()), SmartArray(numbers())
    add[1, 128](a, b)
    after = haulage.explain().data
    assert after["transfers"][UP] - before["transfers"][UP] == 2
    assert after["nbytes"][UP] - before["nbytes"][UP] == 1600
    assert after["uses"] - before["uses"] == 2
    assert str(haulage.explain()).startswith("transfers of SmartArrays since the process began: ")


def test_what_explain_keeps_is_bounded_and_its_sums_are_exact(monkeypatch):
    monkeypatch.setattr(account, "_MOST_STORAGES", 3)
    monkeypatch.setattr(account, "_MOST_CAUSES", 2)
    before = haulage.explain().data
    arrays = [SmartArray(numbers(10)) for _ in range(6)]
    for each in arrays:
        each.get("gpu")
        for n in range(4):
            each[...] = n
            exec(f"{'pass;' * n}each.get('gpu')")
    data = haulage.explain().data
    assert data["transfers"][UP] - before["transfers"][UP] == 6 * 5
    assert data["nbytes"][UP] - before["nbytes"][UP] == 6 * 5 * 80
    assert len(data["arrays"]) <= 4
    assert data["arrays"][0]["array"] == "SmartArrays of before"
    assert any(
        cause["why"] == "other lines" for entry in data["arrays"] for cause in entry["causes"]
    )
    assert haulage.explain(arrays[-1]).data["transfers"][UP] == 5


def test_lines_that_are_summed_stay_so_where_storages_are_summed(monkeypatch):
    monkeypatch.setattr(account, "_kept", deque())
    monkeypatch.setattr(account, "_older", account.Sums())
    monkeypatch.setattr(account, "_MOST_STORAGES", 1)
    monkeypatch.setattr(account, "_MOST_CAUSES", 1)
    a, b = SmartArray(numbers(10)), SmartArray(numbers(10))
    for n in range(4):
        a[...] = n
        exec(f"{'pass;' * n}a.get('gpu')")
    monkeypatch.setattr(account, "_MOST_CAUSES", 64)
    b.get("gpu")
    before, _ = haulage.explain().data["arrays"]
    assert before["array"] == "SmartArrays of before"
    assert [(each["why"], each["count"]) for each in before["causes"]] == [
        ("other lines", 3),
        ("get('gpu')", 1),
    ]


def test_explain_of_an_array_that_is_too_old_goes_on_with_it(monkeypatch):
    monkeypatch.setattr(account, "_MOST_STORAGES", 1)
    a, b = SmartArray(numbers(10)), SmartArray(numbers(10))
    before = haulage.explain().data["transfers"][UP]
    for each in (a, b, a, b):
        each[...] = 1
        each.get("gpu")
    assert haulage.explain().data["transfers"][UP] - before == 4


@cuda.jit
def copy_over(a, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i]


_total = cuda.reduce(lambda x, y: x + y)


@pytest.mark.parametrize(
    ("use", "of_input", "of_output"),
    [
        (lambda a, out: copy_over[1, 128](a, out), (1, 1600), (1, 1600)),
        (lambda a, out: copy_over[1, 128](cuda.In(a), cuda.Out(out)), (1, 800), (1, 800)),
        (lambda a, out: copy_over[1, 128](a[::10], out[:10]), (1, 160), (1, 160)),
        (lambda a, out: _total(a), (1, 800), (0, 0)),
        (lambda a, out: cuda.to_device(a), (1, 800), (0, 0)),
        (lambda a, out: a.get("gpu"), (0, 0), (0, 0)),
        (lambda a, out: np.add(a, 1, out=out), (0, 0), (0, 0)),
    ],
)
def test_what_host_arrays_would_have_moved_is_counted_as_they_would_be_used(
    use, of_input, of_output
):
    a, out = SmartArray(numbers()), SmartArray(np.zeros(100))
    use(a, out)
    for array, counted in ((a, of_input), (out, of_output)):
        data = haulage.explain(array).data
        assert (data["launches"], data["as_host_arrays"]) == counted
        assert data["avoided"] == max(0, counted[1] - sum(data["nbytes"].values()))


def test_arrays_of_one_line_are_numbered():
    arrays = [SmartArray(numbers(n)) for n in (1, 2)] + [SmartArray(numbers(3))]
    made = f"made at test_transfers.py:{line() - 1}"
    again = SmartArray(numbers(3))
    at = line() - 1
    names = [str(each.coherence.name) for each in (*arrays, again)]
    assert names[:3] == [
        f"SmartArray (1,) float64 {made}",
        f"SmartArray (2,) float64 {made} (no. 2)",
        f"SmartArray (3,) float64 {made} (no. 3)",
    ]
    assert names[3].endswith(f"made at test_transfers.py:{at}")
    records = SmartArray(np.zeros(3, [("x", "f8"), ("y", "f8")]))
    assert str(records.coherence.name).startswith("SmartArray (3,) records (x, y) made at ")


def test_a_view_that_is_held_is_told_with_its_line_where_uploads_repeat_for_it():
    a, b = SmartArray(numbers()), SmartArray(numbers())
    with b.host("w") as x:
        x[...] = 1
    taken = line() - 2
    for _ in range(4):
        add[1, 128](a, b)
    (entry,) = haulage.explain(b).data["arrays"]
    (view,) = entry["views"]
    assert view["view"] == "host('w')"
    assert (view["is_held"], view["count"], view["nbytes"]) == (True, 4, 3200)
    assert view["line"].startswith(f"{__file__}:{taken} in ")
    (advice,) = entry["advice"]
    assert advice == (
        f"4 uploads, 3,200 bytes, as the NumPy array of host('w') at {view['line']} can be written "
        "and is held, so that its elements count as changed at each launch: let go of it and of "
        "its views (del)"
    )
    assert f"            -> {advice}" in str(haulage.explain(b)).splitlines()
    last = b.coherence.transfers[-1]
    assert (last.view, last.is_held, last.wrote.line) == ("host('w')", True, taken)
    assert str(last).endswith(
        f"; may be written through the view of host('w') held since {last.wrote}"
    )
    # As it says.
    del x
    add[1, 128](a, b)
    with haulage.assert_no_transfers():
        add[1, 128](a, b)
    assert haulage.explain(a).data["arrays"][0]["views"] == []


@pytest.mark.parametrize(
    ("look", "instead", "said"),
    [
        (
            lambda a: a.get()[0],
            lambda a: a.get("host", "r")[0],
            "if it only reads, take get('host', 'r') or np.asarray(a)",
        ),
        (
            lambda a: with_host(a, "rw"),
            lambda a: with_host(a, "r"),
            "if it only reads, take host('r')",
        ),
    ],
)
def test_a_look_that_counts_as_writing_is_told(look, instead, said):
    a, b = SmartArray(numbers()), SmartArray(numbers())
    for _ in range(3):
        add[1, 128](b, a)
        look(a)
    (entry,) = haulage.explain(a).data["arrays"]
    (view,) = entry["views"]
    assert (view["is_held"], view["count"]) == (False, 2)
    (advice,) = entry["advice"]
    assert advice.endswith(f"counts as writing: {said}")
    assert a.coherence.transfers[-1].view == view["view"]
    add[1, 128](b, a)
    with haulage.assert_no_transfers():
        instead(a)
        add[1, 128](b, a)


class OnlyDLPack:
    """An array of a library of which Haulage knows nothing."""

    def __init__(self, exporter):
        self.exporter = exporter

    def __dlpack__(self, **options):
        return self.exporter.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.exporter.__dlpack_device__()


def test_memory_that_another_library_has_is_told_where_copies_repeat_for_it(device):
    a = SmartArray(numbers())
    theirs = cuda.from_dlpack(OnlyDLPack(a.get("gpu")))
    for _ in range(3):
        a.sum()
    (entry,) = haulage.explain(a).data["arrays"]
    (view,) = entry["views"]
    assert (view["view"], view["is_held"]) == ("another library", True)
    assert (view["count"], view["nbytes"]) == (3, 2400)
    (advice,) = entry["advice"]
    assert advice.startswith(
        "3 copies, 2,400 bytes from the device, as another library has the memory there since "
        f"{view['line']} and may write to it at any time: let go of what it has (del); or, "
    )
    del theirs
    a.sum()
    last = a.coherence.transfers[-1]
    assert "may have been written by another library that had the memory since " in str(last)
    with haulage.assert_no_transfers():
        a.sum()


def with_host(a, mode):
    with a.host(mode) as x:
        return x[0]


def test_what_is_overwritten_need_not_come_to_the_host():
    a, b = SmartArray(numbers()), SmartArray(numbers())
    for _ in range(2):
        add[1, 128](a, b)
        with a.host("rw") as x:
            x[...] = 1
        looked = line() - 2
        del x
    (advice,) = [one for one in haulage.explain(a).data["arrays"][0]["advice"] if "down" in one]
    assert advice.startswith(f"2 downloads, 1,600 bytes, for host('rw') at {__file__}:{looked} in ")
    assert advice.endswith(": host('w') needs none, if all elements are overwritten there")


def test_memory_that_is_not_pinned_is_told_where_the_device_has_its_own(device):
    a, b = SmartArray(shape=1 << 17), SmartArray(shape=1 << 17, where="pinned")
    for each in (a, b):
        each[...] = 1
        each.get("gpu")
    told = {name: haulage.explain(each).data for name, each in (("pageable", a), ("pinned", b))}
    far = not device.properties.host_memory_is_device_memory
    assert told["pageable"]["pageable_bytes"] == (a.nbytes if far else 0)
    assert told["pinned"]["pageable_bytes"] == 0
    advice = told["pageable"]["arrays"][0]["advice"]
    assert any("SmartArray(..., where='pinned')" in one for one in advice) == far
    assert told["pinned"]["arrays"][0]["advice"] == []


def test_explain_of_other_things_says_where_to_look():
    with pytest.raises(TypeError, match=r"explain\(ndarray\): expected a SmartArray; .*transfers"):
        haulage.explain(numbers())
