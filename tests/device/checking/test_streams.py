"""The check of streams: what is not ordered is found, whatever the run did, and nothing else is."""

import asyncio
import sys
import threading

import numpy as np
import pytest

import haulage
from doubles.random_stream_programs import SIZE, Program
from haulage import cuda
from haulage.backends.base import NON_BLOCKING
from haulage.checking.session import Session
from haulage.runtime.devices.stream import Stream

pytestmark = pytest.mark.usefixtures("device")

N = 1000
GRID = 4, 256
FILE = "<random program>"


@cuda.jit
def change(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 2


@cuda.jit
def copy(to, of):
    i = cuda.grid(1)
    if i < to.size:
        to[i] = of[i]


@pytest.fixture
def check():
    """A session that checks streams."""
    session = Session(("stream",))
    session.begin()
    yield session
    session.end()


def lines_of(session):
    """The pairs of lines that were found, of the random program."""
    assert all(each.kind == "stream" for each in session.findings)
    return {frozenset((each.access.place.line, each.other.place.line)) for each in session.findings}


def run(program, device):
    names = {
        **{"cuda": cuda, "change": change, "copy": copy},
        **{"default": cuda.default_stream(), "a": cuda.stream(), "b": cuda.stream()},
        **{"free": Stream.create(device, NON_BLOCKING), "e": cuda.event(), "f": cuda.event()},
        **{name: cuda.to_device(np.zeros(SIZE)) for name in ("x", "y")},
        **{name: cuda.pinned_zeros(SIZE) for name in ("p", "q")},
    }
    cuda.synchronize()
    exec(compile(program.text, FILE, "exec"), names)


@pytest.mark.parametrize("group", range(10))
def test_random_programs_are_told_what_is_not_ordered_in_them(device, check, group):
    for seed in range(50 * group, 50 * group + 50):
        program = Program(seed)
        check.findings.clear()
        run(program, device)
        found = lines_of(check)
        assert found <= program.conflicts, (seed, program.text)
        # One of what each piece of work is not ordered with is told, at least.
        late = {max(pair) for pair in program.conflicts}
        assert {max(pair) for pair in found} == late, (seed, program.text)


def test_the_findings_are_the_same_however_the_work_was_scheduled(device, check):
    if device.kind != "cpu":
        pytest.skip("only the CPU device has an adversarial mode")
    for seed in range(1000, 1030):
        program, found = Program(seed), []
        for adversary in (None, 1, 2):
            check.findings.clear()
            with haulage.adversary(adversary):
                run(program, device)
            found.append(lines_of(check))
        assert found[0] == found[1] == found[2], (seed, program.text)


# ---- what is told -------------------------------------------------------------------------------


def only(session):
    (found,) = session.findings
    return found


def here(offset=0):
    """The line of the caller, or one near it."""
    return sys._getframe(1).f_lineno + offset


def two():
    return cuda.stream(), cuda.stream()


def zeros(n=N):
    return cuda.to_device(np.zeros(n))


def test_a_finding_has_both_lines_the_kernels_the_array_and_where_that_was_allocated(check):
    one, other = two()
    x = cuda.device_array(N, stream=one)
    made = here(-1)
    change[(*GRID, one)](x)
    copy[(*GRID, other)](cuda.device_array(N), x)
    line = here(-1)
    found = only(check)
    assert (found.kind, found.array, found.index) == ("stream", "of", (0,))
    assert (found.access.place.line, found.other.place.line) == (line, line - 1)
    assert (found.access.kernel, found.other.kernel) == ("copy", "change")
    assert (found.access.what, found.other.what) == ("read", "write")
    assert (found.allocated.file, found.allocated.line) == (__file__, made)
    assert "kernel copy in stream 2 reads 'of'" in found.message
    assert "kernel change in stream 1 writes 'x'" in found.message
    assert f"{8 * N} bytes" in found.message
    assert "let stream 2 wait for an event that is recorded in stream 1" in found.message


def test_the_index_is_that_of_the_first_element_that_both_use(check):
    one, other = two()
    x = cuda.to_device(np.zeros((10, 20)))
    flat = x.reshape(200)
    change[(*GRID, one)](flat[150:])
    copy[(*GRID, other)](cuda.device_array(200), flat)
    assert only(check).index == (150,)


def test_work_that_is_found_again_is_counted(check):
    one, other = two()
    x = zeros()
    for _ in range(5):
        for stream in (one, other):
            change[(*GRID, stream)](x)
    assert only(check).count == 9  # each with the last one of the other stream


# ---- what is no finding -------------------------------------------------------------------------


def test_two_kernels_that_read_are_none(check):
    one, other = two()
    x = zeros()
    to, also = cuda.device_array(N), cuda.device_array(N)
    copy[(*GRID, one)](to, x)
    copy[(*GRID, other)](also, x)
    assert not len(check.findings)
    assert check.findings.launches == 2


@pytest.mark.parametrize(
    "parts",
    [
        (slice(0, N // 2), slice(N // 2, N)),
        (slice(0, N, 2), slice(1, N, 2)),
        (slice(None, None, -2), slice(N - 2, None, -2)),
    ],
    ids=["halves", "interleaved", "backwards"],
)
def test_parts_without_a_common_byte_are_none(check, parts):
    one, other = two()
    x = zeros()
    for stream, part in zip((one, other), parts, strict=True):
        change[(*GRID, stream)](x[part])
    assert not len(check.findings)


def test_rows_and_columns_meet_in_one_element(check):
    one, other = two()
    x = cuda.to_device(np.zeros((30, 40)))
    change[(*GRID, one)](x[:, 7])
    change[(*GRID, other)](x[5])
    assert "x" in only(check).array


@cuda.jit
def change_part(x, start, n):
    i = cuda.grid(1)
    if i < n:
        x[start + i] *= 2


@cuda.jit
def count(histogram, of):
    i = cuda.grid(1)
    if i < of.size:
        cuda.atomic.add(histogram, of[i], 1)


@pytest.fixture
def in_blocks(device):
    """Skips devices whose kernels are not looked at."""
    if not device.properties.code_per_block:
        pytest.skip("what a kernel touches is worked out on the CPU device")


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("over", [0, 1, 3])
def test_a_kernel_that_is_given_an_offset_uses_its_part_only(check, over):
    one, other = two()
    x = cuda.device_array(N)
    change_part[(*GRID, one)](x, 0, 333 + over)
    change_part[(*GRID, other)](x, 333, N - 333)
    if not over:
        assert not len(check.findings)
        return
    assert only(check).index == (333,)
    assert f" {8 * over} bytes" in only(check).message


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("over", [0, 1])
def test_a_copy_or_the_host_may_use_the_part_that_a_kernel_does_not(check, over):
    one, other = two()
    x, y = cuda.device_array(N), cuda.mapped_array(N)
    host = cuda.pinned_zeros(N)
    change_part[(*GRID, one)](x, 0, 500)
    x[500 - over :].copy_to_host(host[500 - over :], stream=other)
    change_part[(*GRID, one)](y, 500, 500)
    y[: 500 + over] = 1
    assert len(check.findings) == 2 * over


@pytest.mark.usefixtures("in_blocks")
def test_atomic_operations_need_no_order_among_them_but_with_others(check):
    one, other = two()
    histogram, of = cuda.device_array(10, np.int64), cuda.to_device(np.zeros(N, np.int64))
    cuda.synchronize()
    for stream in (one, other, one):
        count[(*GRID, stream)](histogram, of)
    assert not len(check.findings)
    copy[(*GRID, other)](cuda.device_array(10, np.int64), histogram)
    assert only(check).array == "of"


def test_copies_of_ordinary_memory_are_done_when_they_return(check):
    stream = cuda.stream()
    host = np.zeros(N)
    x = cuda.to_device(host, stream=stream)
    host[:] = 1
    change[(*GRID, stream)](x)
    x.copy_to_host(host, stream=stream)
    assert host[3] == 2
    change[GRID](host)
    assert not len(check.findings)


def test_memory_that_another_array_had_is_none(check):
    one, other = two()
    for stream in (one, other) * 10:
        x = cuda.device_array(N, stream=stream)
        change[(*GRID, stream)](x)
        del x
    assert not len(check.findings)


def test_who_asks_until_work_is_done_has_waited(check):
    stream, event = cuda.stream(), cuda.event()
    target = cuda.pinned_zeros(N)
    x = zeros()
    x.copy_to_host(target, stream=stream)
    while not stream.query():
        pass
    assert target[0] == 0
    x.copy_to_host(target, stream=stream)
    event.record(stream)
    while not event.query():
        pass
    assert target[0] == 0
    assert not len(check.findings)


def test_smart_arrays_order_themselves(check):
    one, other = two()
    x, y = haulage.SmartArray(np.zeros(N)), haulage.SmartArray(np.ones(N))
    for stream in (one, other, 0) * 3:
        copy[(*GRID, stream)](x, y)
        change[(*GRID, stream)](y)
        assert x[1] == y[0] or x[1] == 1
        y[5] = 3
    assert (np.asarray(x) + np.asarray(y)).shape == (N,)
    assert not len(check.findings)


def test_the_projects_own_library_is_silent(check):
    from haulage.cuda.random import create_xoroshiro128p_states

    stream = cuda.stream()
    total = cuda.reduce(lambda a, b: a + b)
    x = cuda.to_device(np.arange(float(N)), stream=stream)
    assert total(x, stream=stream) == N * (N - 1) / 2
    create_xoroshiro128p_states(64, seed=1, stream=stream)

    @cuda.vectorize
    def plus(a, b):
        return a + b

    assert plus(x, x, stream=stream).copy_to_host(stream=stream)[2] == 4
    assert not len(check.findings)


# ---- the host -----------------------------------------------------------------------------------


def read_element(array):
    array[3]


def read_slice(array):
    array[2:8].tolist()


def read_by_ufunc(array):
    np.add(array, 1)


def read_by_function(array):
    np.concatenate([array, np.zeros(3)])


def read_by_sum(array):
    array.sum()


def read_by_iteration(array):
    list(array)


def read_by_mask(array):
    array[array > 0]


@pytest.mark.parametrize(
    "read",
    [
        *(read_element, read_slice, read_by_ufunc, read_by_function, read_by_sum),
        *(read_by_iteration, read_by_mask, np.max, np.sort, repr, np.dot),
    ],
)
def test_a_target_that_is_read_before_the_wait_is_found(check, read):
    stream = cuda.stream()
    target = cuda.pinned_zeros(64)
    zeros(64).copy_to_host(target, stream=stream)
    read(target, target) if read is np.dot else read(target)
    assert only(check).access.what == "read by the host"
    assert only(check).other.what == "write by a copy to the host"
    check.findings.clear()
    stream.synchronize()
    read(target, target) if read is np.dot else read(target)
    assert not len(check.findings)


def write_element(array):
    array[3] = 1


def write_slice(array):
    array[:5] = 1


def write_in_place(array):
    array += 1


def write_out(array):
    np.multiply(np.ones(64), 2, out=array)


def write_by_copyto(array):
    np.copyto(array, 5)


def write_by_method(array):
    array.fill(5)


@pytest.mark.parametrize(
    "write",
    [
        *(write_element, write_slice, write_in_place, write_out),
        *(write_by_copyto, write_by_method),
    ],
)
def test_a_source_that_is_changed_before_the_copy_is_done_is_found(check, write):
    stream = cuda.stream()
    source = cuda.pinned_zeros(64)
    cuda.to_device(source, stream=stream)
    source.sum()  # it is only read
    assert not len(check.findings)
    write(source)
    assert only(check).access.what == "write by the host"


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_arrays_that_host_and_device_both_address(check, make):
    stream = cuda.stream()
    x = make(64)
    x[:] = 1
    change[(*GRID, stream)](x)
    view = x[10:20]  # that is no access
    assert view[0] in (1, 2)
    line = here(-1)
    assert only(check).access.place.line == line
    assert only(check).other.kernel == "change"
    check.findings.clear()
    stream.synchronize()
    assert view[0] == 2
    view.fill(3)
    assert (x.reshape(8, 8)[1, 2:] == 3).all()
    assert not len(check.findings)


def test_elements_that_no_work_uses_are_the_hosts(check):
    stream = cuda.stream()
    x = cuda.mapped_array(64)
    x[:] = 1
    change[(*GRID, stream)](x[:32])
    x[32:] = 5
    assert x[40] == 5
    assert not len(check.findings)


def test_arrays_are_numpys_own_once_the_check_is_over(device):
    session = Session(("stream",))
    session.begin()
    x = cuda.pinned_zeros(4)
    session.end()
    assert x[2] == 0
    assert type(cuda.pinned_array(4)) is np.ndarray
    assert "sum" not in vars(type(x))
    assert repr(cuda.pinned_zeros(2)) == "array([0., 0.])"


def test_memory_that_is_registered_is_pinned_too(check):
    one, other = two()
    host = np.zeros(N)
    x = zeros()
    with cuda.pinned(host):
        x.copy_to_host(host, stream=one)
        y = cuda.to_device(host, stream=other)
        found = only(check)
    assert found.other.what == "write by a copy to the host"
    assert found.access.what == "read by a copy from the host"
    check.findings.clear()
    x.copy_to_host(host, stream=one)
    assert y.copy_to_host()[0] == 0
    assert not len(check.findings)


# ---- callbacks ----------------------------------------------------------------------------------


def test_a_callback_comes_after_earlier_work_and_before_later_work(check):
    stream = cuda.stream()
    host = cuda.pinned_zeros(N)
    x = zeros()
    change[(*GRID, stream)](x)
    x.copy_to_host(host, stream=stream)
    seen = []

    def called(*_):
        seen.append(host[1])
        host[:] = 7

    stream.add_callback(called)
    x.copy_to_device(host, stream=stream)
    stream.synchronize()
    assert seen == [2]
    assert x.copy_to_host()[3] == 7
    assert not len(check.findings)


def test_a_callback_is_not_ordered_with_another_stream(check):
    one, other = two()
    host = cuda.pinned_zeros(N)
    x = zeros()
    x.copy_to_host(host, stream=one)
    called = threading.Event()

    def read(*_):
        host.sum()
        called.set()

    other.add_callback(read)
    assert called.wait(60)
    assert only(check).access.what == "read by the host"
    one.synchronize()
    other.synchronize()


def test_who_waits_for_a_callback_by_means_of_pythons_has_waited(check):
    stream = cuda.stream()
    host = cuda.pinned_zeros(N)
    zeros().copy_to_host(host, stream=stream)
    called = threading.Event()
    stream.add_callback(lambda *_: called.set())
    assert called.wait(60)
    stream.add_callback(lambda *_: None)
    assert host[1] == 0
    assert not len(check.findings)


def test_an_awaited_stream_is_waited_for(check):
    stream = cuda.stream()
    host = cuda.pinned_zeros(N)

    async def main():
        zeros().copy_to_host(host, stream=stream)
        await stream.async_done()
        return host[1]

    assert asyncio.run(main()) == 0
    assert not len(check.findings)


# ---- graphs -------------------------------------------------------------------------------------


def test_a_graph_is_work_of_the_stream_that_it_is_launched_in(check):
    one, other = two()
    x = zeros()
    with cuda.graph() as graph:
        change[GRID](x)
        line = here(-1)
    graph.launch(one)
    graph.launch(other)  # launches of one graph are in order
    assert not len(check.findings)
    copy[(*GRID, one)](cuda.device_array(N), x)
    found = only(check)
    assert (found.other.place.line, found.other.kernel) == (line, "change")
    assert "in a graph in stream" in found.message
    graph.close()


def test_work_within_a_graph_is_not_ordered_without_an_event(check):
    one, other = two()
    x = zeros()
    for waits in (True, False):
        begun, done = cuda.event(), cuda.event()
        with cuda.graph(one):
            begun.record(one)
            begun.wait(other)
            change[(*GRID, one)](x)
            if waits:
                begun.record(one)
                begun.wait(other)
            change[(*GRID, other)](x)
            done.record(other)
            done.wait(one)
        assert len(check.findings) == (not waits)


# ---- begin and end ------------------------------------------------------------------------------


def test_kernels_and_streams_of_before_are_checked_and_nothing_is_afterwards(device):
    one, other = two()
    x = zeros()
    for stream in (one, other):
        change[(*GRID, stream)](x)
    cuda.synchronize()
    for _ in range(2):
        session = Session(("stream",))
        session.begin()
        for stream in (one, other):
            change[(*GRID, stream)](x)
        session.end()
        assert only(session).array == "x"
        for stream in (one, other):
            change[(*GRID, stream)](x)
        assert only(session).count == 1


def test_other_checks_alone_leave_streams_alone(device):
    session = Session(("memory",))
    session.begin()
    one, other = two()
    x = zeros()
    for stream in (one, other):
        change[(*GRID, stream)](x)
    session.end()
    assert not len(session.findings)
