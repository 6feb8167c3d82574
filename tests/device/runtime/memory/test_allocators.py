"""Allocators of programs: two methods, and what hands calls on to them."""

import ctypes
import gc
import io
import logging
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda
from haulage.errors import DeviceError, OutOfMemory
from haulage.memory import (
    Counts,
    Driver,
    Failing,
    Limit,
    Log,
    Pool,
    Statistics,
    get_allocator,
    set_allocator,
    using_allocator,
)
from haulage.runtime import memory
from haulage.runtime.memory.allocators import AddressRanges

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True


@pytest.fixture(autouse=True)
def none_afterwards(device):
    yield
    set_allocator(None)
    assert get_allocator() is None


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


class Recorded:
    """The least that an allocator can be; memory of the driver's, written down."""

    def __init__(self):
        self.live, self.freed, self.driver = {}, [], Driver()

    def allocate(self, nbytes):
        address = self.driver.allocate(nbytes)
        self.live[address] = nbytes
        return address

    def deallocate(self, address, nbytes):
        assert self.live.pop(address) == nbytes
        self.freed.append(nbytes)
        self.driver.deallocate(address, nbytes)


class Bump:
    """Cuts memory off one buffer, which is empty again when all of it is back."""

    def __init__(self, start, size):
        self.start, self.size, self.used, self.count = start, size, 0, 0

    def allocate(self, nbytes):
        need = -(-nbytes // 256) * 256
        if self.used + need > self.size:
            raise MemoryError(f"the buffer of {self.size} bytes is full")
        self.used += need
        self.count += 1
        return self.start + self.used - need

    def deallocate(self, address, nbytes):
        self.count -= 1
        if self.count == 0:
            self.used = 0


# ---- who gives the memory -----------------------------------------------------------------------


def test_arrays_stand_on_memory_of_the_allocator_and_give_it_back():
    allocator = Recorded()
    with using_allocator(allocator):
        assert get_allocator() is allocator
        array = cuda.to_device(np.arange(6.0))
        assert allocator.live == {array.device_pointer: 48}
        add_one[1, 32](array)
        view = array[2:]
    assert get_allocator() is None
    outside = cuda.to_device(np.arange(6.0))
    assert len(allocator.live) == 1
    del array
    assert allocator.freed == []
    np.testing.assert_array_equal(view.copy_to_host(), np.arange(3.0, 7.0))
    del view, outside
    assert (allocator.live, allocator.freed) == ({}, [48])


def test_a_buffer_of_the_host_is_memory_of_the_cpu(device):
    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"{device} does not reach all memory of the host")
    buffer = bytearray(10_000)
    start = -(-ctypes.addressof(ctypes.c_char.from_buffer(buffer)) // 256) * 256
    set_allocator(Bump(start, 9_000))
    first = cuda.to_device(np.arange(100, dtype=np.int32))
    second = cuda.to_device(np.full(100, 7, np.int32))
    add_one[4, 32](first)
    assert second.device_pointer - first.device_pointer == 512
    np.testing.assert_array_equal(first.copy_to_host(), np.arange(100) + 1)
    offset = first.device_pointer - ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    assert np.frombuffer(buffer, np.int32, 100, offset)[99] == 100
    with pytest.raises(MemoryError, match="the buffer of 9000 bytes is full") as raised:
        cuda.device_array(9_000, np.int8)
    named, told = raised.value.__notes__
    assert named == f"raised by allocate(9000) of the allocator Bump for {device}"
    assert f"no room for 9,000 bytes of device memory, asked for at {__file__}" in told
    np.testing.assert_array_equal(second.copy_to_host(), np.full(100, 7))


def test_memory_comes_back_once_the_streams_that_use_it_are_done(hold_up):
    allocator = Recorded()
    set_allocator(allocator)
    stream = cuda.stream()
    array = cuda.to_device(np.zeros(100, np.int64))
    with hold_up(stream):
        add_one[2, 64, stream](array)
        array.close()
        array.close()
        del array
        assert allocator.freed == []
    stream.synchronize()
    other = cuda.device_array(1, np.int8)
    assert allocator.freed == [800]
    del other


def test_a_closed_array_gives_its_memory_back_once():
    allocator = Recorded()
    set_allocator(allocator)
    with cuda.to_device(np.arange(3)) as array:
        view = array[1:]
    assert allocator.freed == [24]
    with pytest.raises(ValueError, match="clos"):
        view.copy_to_host()
    del array, view
    gc.collect()
    assert allocator.freed == [24]


def test_what_an_allocator_gave_comes_back_to_it_whatever_is_set():
    first, second = Recorded(), Recorded()
    set_allocator(first)
    one = cuda.to_device(np.arange(3))
    set_allocator(second)
    two = cuda.to_device(np.arange(3))
    set_allocator(None)
    three = cuda.to_device(np.arange(3))
    del one, three
    assert (first.freed, second.freed) == ([24], [])
    cuda.current_context().reset()
    assert (first.freed, second.freed) == ([24], [24])
    del two
    assert second.freed == [24]


def test_uses_nest_and_end_also_with_an_error():
    first, second = Recorded(), Recorded()
    set_allocator(first)
    with using_allocator(second):
        assert get_allocator() is second
        with using_allocator(None):
            assert get_allocator() is None
        assert get_allocator() is second
    with pytest.raises(KeyError), using_allocator(second):
        raise KeyError
    assert get_allocator() is first


def test_host_memory_and_empty_arrays_are_not_asked_of_it():
    allocator = Recorded()
    set_allocator(allocator)
    arrays = [cuda.pinned_array(4), cuda.mapped_array(4), cuda.managed_array(4)]
    for array in arrays:
        array[:] = 3
    assert cuda.device_array(0).size == 0
    host = np.arange(3)
    with cuda.pinned(host):
        pass
    assert (allocator.live, allocator.freed) == ({}, [])


def test_a_plug_in_gives_what_an_allocator_does_not():
    asked = []

    class Plugin(haulage.cuda.cudadrv.driver.NumbaCUDAMemoryManager):
        def memalloc(self, size):
            asked.append(size)
            return super().memalloc(size)

        def memhostalloc(self, size, mapped=False, portable=False, wc=False):
            asked.append(-size)
            return super().memhostalloc(size, mapped, portable, wc)

    allocator = Recorded()
    cuda.set_memory_manager(Plugin)
    try:
        with using_allocator(allocator):
            array, pinned = cuda.device_array(3, np.int8), cuda.pinned_array(4, np.int8)
        other = cuda.device_array(5, np.int8)
    finally:
        cuda.cudadrv.driver._memory_manager = None
    assert (asked, list(allocator.live.values())) == ([-4, 5], [3])
    del array, pinned, other


def test_a_device_can_be_named(device):
    allocator = Recorded()
    set_allocator(allocator, device)
    assert get_allocator(str(device)) is allocator
    set_allocator(None, str(device))
    with pytest.raises(haulage.errors.DeviceNotFound):
        set_allocator(allocator, "nowhere")
    with pytest.raises(haulage.errors.DeviceNotFound):
        get_allocator("nowhere")


def test_a_stream_is_given_where_a_method_needs_one(device):
    class WithStream(Recorded):
        def allocate(self, nbytes, stream):
            self.streams = [stream]
            return super().allocate(nbytes)

        def deallocate(self, address, nbytes, *, stream):
            self.streams.append(stream)
            super().deallocate(address, nbytes)

    class OwnDefault(Recorded):
        def allocate(self, nbytes, stream="my own"):
            self.stream = stream
            return super().allocate(nbytes)

    needing, having = WithStream(), OwnDefault()
    with using_allocator(Statistics(needing)):
        cuda.device_array(3)
    assert needing.streams == [device.default_stream] * 2
    with using_allocator(having):
        cuda.device_array(3)
    assert having.stream == "my own"


def test_the_device_is_current_when_the_allocator_is_called(device):
    current = []

    class Asking(Recorded):
        def allocate(self, nbytes):
            current.append(cuda.current_context().device)
            return super().allocate(nbytes)

        def deallocate(self, address, nbytes):
            current.append(cuda.current_context().device)
            super().deallocate(address, nbytes)

    set_allocator(Asking())
    cuda.device_array(3)
    assert current == [device, device]


@pytest.mark.parametrize("make", [Recorded, Pool, Driver, lambda: Statistics(Pool())])
def test_memory_is_counted_and_reported_as_that_of_the_line_that_asked(make, device):
    before = haulage.memory.stats(device).in_use
    with using_allocator(make()):
        array = cuda.device_array(123_457, np.int8)
    during = haulage.memory.stats(device)
    assert during.in_use - before == 123_457
    assert during.reserved >= during.in_use
    (held,) = [held for held in haulage.memory.report(device).holdings if held.nbytes == 123_457]
    assert held.sites[0].filename == __file__
    assert held.sites[0].function == (
        "test_memory_is_counted_and_reported_as_that_of_the_line_that_asked"
    )
    with (
        pytest.raises(AssertionError, match="123,457 bytes"),
        haulage.memory.leaks(),
        using_allocator(make()),
    ):
        second = cuda.device_array(123_457, np.int8)
    array.close()
    second.close()
    assert haulage.memory.stats(device).in_use == before


def test_the_limit_of_the_device_holds_for_allocators(device):
    allocator = Recorded()
    set_allocator(allocator)
    haulage.memory.limit(haulage.memory.stats(device).in_use + 100, device)
    try:
        array = cuda.device_array(60, np.int8)
        with pytest.raises(
            MemoryError, match=r"by haulage\.memory\.limit\(\); 40 of them are left"
        ):
            cuda.device_array(41, np.int8)
        assert allocator.live == {array.device_pointer: 60}
    finally:
        haulage.memory.limit(None, device)


def test_what_an_allocator_is_giving_to_another_thread_counts_for_the_limit(device):
    asked, goes_on = threading.Event(), threading.Event()

    class Slow(Recorded):
        def allocate(self, nbytes):
            asked.set()
            goes_on.wait(2)
            return super().allocate(nbytes)

    def work():
        with device:
            made.append(cuda.device_array(60, np.int8))

    made = []
    set_allocator(Slow())
    haulage.memory.limit(haulage.memory.stats(device).in_use + 100, device)
    thread = threading.Thread(target=work)
    try:
        thread.start()
        assert asked.wait(10)
        with pytest.raises(MemoryError, match="40 of them are left"):
            cuda.device_array(60, np.int8)
        goes_on.set()
        thread.join()
        cuda.device_array(40, np.int8)
    finally:
        goes_on.set()
        thread.join()
        haulage.memory.limit(None, device)
    assert made[0].size == 60


def test_a_function_of_the_program_can_make_room():
    kept = []

    class Small(Recorded):
        def allocate(self, nbytes):
            if self.live:
                raise MemoryError("one at a time")
            return super().allocate(nbytes)

    def drop(device, nbytes):
        asked.append(nbytes)
        found = bool(kept)
        kept.clear()
        return found

    asked = []
    set_allocator(Small())
    kept.append(cuda.device_array(3))
    with haulage.memory.on_out_of_memory(drop):
        array = cuda.device_array(5)
        with pytest.raises(MemoryError, match="one at a time"):
            cuda.device_array(6)
    assert asked == [40, 48]
    assert array.size == 5


def test_nothing_is_given_back_at_the_end_of_the_process():
    program = """
        import numpy as np
        import haulage
        from haulage import cuda

        class Loud(haulage.memory.Driver):
            def deallocate(self, address, nbytes):
                print("back", nbytes)
                super().deallocate(address, nbytes)

        haulage.memory.set_allocator(Loud())
        kept = cuda.to_device(np.arange(5))
        cuda.to_device(np.arange(2))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("back 16\n", "", 0)


# ---- allocators that do everything wrong --------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        (None, TypeError, "gave None for 32 bytes; expected an address, or a MemoryError"),
        ("here", TypeError, "gave here for 32 bytes; expected an address, an int"),
        (4096.0, TypeError, "gave 4096.0 for 32 bytes; expected an address, an int"),
        (True, TypeError, "gave True for 32 bytes; expected an address, an int"),
        (b"buffer", TypeError, "expected an address, an int"),
        (0, ValueError, "gave 0 for 32 bytes; expected the address of some memory"),
        (ctypes.c_void_p(), ValueError, "expected the address of some memory"),
        (-4096, ValueError, "gave -4096 for 32 bytes; expected the address"),
    ],
)
def test_an_answer_that_is_no_address_is_refused(address, error, said):
    class Nonsense(Recorded):
        def allocate(self, nbytes):
            return address

    allocator = Nonsense()
    set_allocator(allocator)
    with pytest.raises(error, match=said) as raised:
        cuda.device_array(4)
    assert "the allocator Nonsense of " in str(raised.value)
    assert allocator.freed == []
    allocator.allocate = Recorded().allocate
    set_allocator(None)
    assert cuda.to_device(np.arange(2)).copy_to_host().tolist() == [0, 1]


def test_an_address_that_kernels_cannot_use_is_refused_and_given_back():
    class Askew(Recorded):
        def allocate(self, nbytes):
            return super().allocate(nbytes + 8) + 8

        def deallocate(self, address, nbytes):
            super().deallocate(address - 8, nbytes + 8)

    allocator = Askew()
    set_allocator(allocator)
    with pytest.raises(ValueError, match=r"Askew .* gave 0x.*8 for 32 bytes; .*multiple of 16"):
        cuda.device_array(4)
    assert (allocator.live, allocator.freed) == ({}, [40])


def test_an_address_that_the_device_does_not_reach_is_refused(device):
    if device.kind != "cpu" or sys.platform == "win32":
        pytest.skip(f"{device} is not asked which addresses it reaches")

    class Lost(Recorded):
        def allocate(self, nbytes):
            self.live[64] = nbytes
            return 64

        def deallocate(self, address, nbytes):
            del self.live[address]

    allocator = Lost()
    set_allocator(allocator)
    with pytest.raises(DeviceError, match=r"Lost .* gave 0x40 for 32 bytes: .*cannot reach"):
        cuda.device_array(4)
    assert allocator.live == {}


def test_memory_that_is_in_use_is_refused():
    class Again(Recorded):
        def allocate(self, nbytes):
            self.kept = getattr(self, "kept", None) or super().allocate(1024)
            return self.kept + self.shift

        def deallocate(self, address, nbytes):
            self.freed.append(nbytes)

    allocator = Again()
    allocator.shift = 0
    set_allocator(allocator)
    array = cuda.to_device(np.arange(8))
    for allocator.shift in (0, 16, 48):
        with pytest.raises(ValueError, match=r"overlaps the 64 bytes at .* still in use"):
            cuda.device_array(4)
    allocator.shift = 64
    assert cuda.to_device(np.arange(3)).copy_to_host().tolist() == [0, 1, 2]
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(8))
    assert allocator.freed == [24]
    del array
    allocator.shift = 0
    assert cuda.to_device(np.arange(3)).copy_to_host().tolist() == [0, 1, 2]
    assert allocator.freed == [24, 64, 24]
    allocator.driver.deallocate(allocator.kept, 1024)


def test_an_allocator_that_raises_is_named(device):
    class Broken(Recorded):
        def allocate(self, nbytes):
            raise ZeroDivisionError("a bug")

    set_allocator(Limit(Broken(), 100))
    with pytest.raises(ZeroDivisionError, match="a bug") as raised:
        cuda.device_array(4)
    assert raised.value.__notes__ == [
        f"raised by allocate(32) of the allocator Limit(Broken) for {device}"
    ]


def test_a_deallocate_that_raises_is_reported_and_harms_no_other(monkeypatch):
    said = []

    def note(report):
        said.append((str(report.exc_value), str(report.object).partition("(")[0]))

    class Broken(Recorded):
        def deallocate(self, address, nbytes):
            super().deallocate(address, nbytes)
            raise LookupError(f"no {nbytes}")

    monkeypatch.setattr(sys, "unraisablehook", note)
    allocator = Broken()
    set_allocator(allocator)
    array = cuda.device_array(4)
    with cuda.defer_cleanup():
        del array
    other = cuda.device_array(5)
    del other
    assert said == [("no 32", "deallocate"), ("no 40", "deallocate")]
    assert allocator.freed == [32, 40]


class Thing:
    """What a frame holds."""


@pytest.mark.parametrize("error", [ValueError, MemoryError, OutOfMemory])
def test_an_error_is_all_that_holds_the_frames_that_it_went_by(error):
    class Broken(Recorded):
        def allocate(self, nbytes):
            raise error("no")

    held = []

    def work():
        thing = Thing()
        held.append(weakref.ref(thing))
        cuda.device_array(3)

    gc.collect()
    gc.disable()
    try:
        for allocator in (Broken(), Limit(Broken(), 100), Failing(Recorded(), nth=1, error=error)):
            set_allocator(allocator)
            with pytest.raises(error):
                work()
            assert held.pop()() is None
    finally:
        gc.enable()


def test_what_is_no_allocator_is_refused():
    class Half:
        def allocate(self, nbytes):
            return 0

    for wrong in (3, "rmm", Half(), Recorded, {"allocate": print}):
        with pytest.raises(TypeError, match=r"is no allocator: expected an object with the method"):
            set_allocator(wrong)
        with pytest.raises(TypeError, match="is no allocator"):
            Limit(wrong, 3)
    assert get_allocator() is None


def test_a_full_allocator_is_asked_again_once_there_is_room():
    class One(Recorded):
        asked = 0

        def allocate(self, nbytes):
            self.asked += 1
            if self.live:
                raise MemoryError("one at a time")
            return super().allocate(nbytes)

    allocator = One()
    set_allocator(allocator)
    cycle = [cuda.device_array(3)]
    cycle.append(cycle)
    del cycle
    array = cuda.device_array(5)
    assert (allocator.freed, allocator.asked) == ([24], 3)
    with pytest.raises(MemoryError, match="one at a time"):
        cuda.device_array(3)
    assert allocator.asked == 5
    del array


# ---- those that come along ----------------------------------------------------------------------


@pytest.mark.parametrize("end", [Driver, Pool])
def test_the_ends_give_memory_of_the_device(end, device):
    for allocator in (end(), end(device), end(str(device))):
        with using_allocator(allocator):
            array = cuda.to_device(np.arange(100))
            add_one[4, 32](array)
            np.testing.assert_array_equal(array.copy_to_host(), np.arange(100) + 1)
        address = array.device_pointer
        del array
        with pytest.raises(ValueError, match=rf"deallocate\({address:#x}\): expected an address"):
            allocator.deallocate(address, 800)


def test_a_limit_holds_and_says_what_it_was():
    allocator = Limit(Recorded(), 100)
    set_allocator(allocator)
    first = cuda.device_array(60, np.int8)
    with pytest.raises(
        OutOfMemory, match=r"41 bytes asked of <Limit\(Recorded\)>: 60 of the 100"
    ) as e:
        cuda.device_array(41, np.int8)
    assert "largest holders:" in str(e.value)
    assert "allocate(41) of the allocator Limit(Recorded)" in e.value.__notes__[0]
    second = cuda.device_array(40, np.int8)
    assert allocator.in_use == 100
    del first
    assert allocator.in_use == 40
    third = cuda.device_array(60, np.int8)
    del second, third
    assert allocator.in_use == 0
    allocator.nbytes = 10
    with pytest.raises(MemoryError):
        cuda.device_array(11, np.int8)


def test_statistics_count_what_goes_through():
    allocator = Statistics(Limit(Recorded(), 100))
    set_allocator(allocator)
    first, second = cuda.device_array(30, np.int8), cuda.device_array(50, np.int8)
    with pytest.raises(MemoryError):
        cuda.device_array(30, np.int8)
    assert allocator.counts == Counts(80, 2, 80, 2, 80, 2)
    del first
    third = cuda.device_array(10, np.int8)
    assert allocator.counts == Counts(60, 2, 80, 2, 90, 3)
    allocator.reset_peak()
    assert allocator.counts == (60, 2, 60, 2, 90, 3)
    del second, third
    assert allocator.counts == (0, 0, 60, 2, 90, 3)


def test_a_log_has_a_line_for_each_call():
    text = io.StringIO()
    set_allocator(Log(Limit(Recorded(), 100), text))
    array = cuda.device_array(24, np.int8)
    address = array.device_pointer
    with pytest.raises(MemoryError):
        cuda.device_array(90, np.int8)
    del array
    rows = [line.split(",") for line in text.getvalue().splitlines()]
    assert [row[2:] for row in rows] == [
        ["allocate", hex(address), "24"],
        ["failed", "0x0", "90"],
        ["failed", "0x0", "90"],
        ["deallocate", hex(address), "24"],
    ]
    assert {int(row[1]) for row in rows} == {threading.get_ident()}
    assert sorted(float(row[0]) for row in rows) == [float(row[0]) for row in rows]


def test_a_log_can_be_a_logger(caplog):
    caplog.set_level(logging.INFO, "of.memory")
    set_allocator(Log(Limit(None, 100), logging.getLogger("of.memory")))
    array = cuda.device_array(24, np.int8)
    address = array.device_pointer
    del array
    with pytest.raises(MemoryError):
        cuda.device_array(101, np.int8)
    assert caplog.record_tuples[:3] == [
        ("of.memory", logging.INFO, f"allocate 24 bytes at {address:#x}"),
        ("of.memory", logging.INFO, f"deallocate 24 bytes at {address:#x}"),
        ("of.memory", logging.WARNING, "failed 101 bytes at 0x0"),
    ]


def test_a_log_that_cannot_be_written_loses_no_memory():
    text, allocator = io.StringIO(), Recorded()
    set_allocator(Log(allocator, text))
    text.close()
    with pytest.raises(ValueError, match="closed file"):
        cuda.device_array(3, np.int8)
    assert (allocator.live, allocator.freed) == ({}, [3])


def test_a_log_goes_to_stderr_where_nothing_is_said(capfd):
    with using_allocator(Log(Recorded())):
        cuda.device_array(3, np.int8)
    assert capfd.readouterr().err.count("allocate,") == 2


def attempts(allocator, count):
    """Which of `count` arrays could not be made, by number from 1."""
    failed = []
    with using_allocator(allocator):
        for number in range(1, count + 1):
            try:
                cuda.device_array(3)
            except MemoryError:
                failed.append(number)
    assert (allocator.calls, allocator.failures) == (count, len(failed))
    return failed


def test_failures_come_when_they_were_ordered():
    allocator = Recorded()
    assert attempts(Failing(allocator, nth=3), 6) == [3]
    assert attempts(Failing(allocator, nth=(2, 5)), 6) == [2, 5]
    assert attempts(Failing(allocator, every=2), 7) == [2, 4, 6]
    assert attempts(Failing(allocator, every=4, nth=[1]), 9) == [1, 4, 8]
    assert attempts(Failing(allocator), 3) == []
    assert attempts(Failing(allocator, probability=1), 3) == [1, 2, 3]
    first, again, other = (
        attempts(Failing(allocator, probability=0.3, seed=seed), 60) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert 5 < len(first) < 35
    assert allocator.live == {}


def test_a_failure_can_be_any_error():
    set_allocator(Failing(Recorded(), nth=1, error=DeviceError))
    with pytest.raises(DeviceError, match=r"call 1 of <Failing\(Recorded\)>, for 24 bytes, was ma"):
        cuda.device_array(3)
    set_allocator(Failing(Recorded(), nth=1, error=lambda text: KeyboardInterrupt("Ctrl-C")))
    with pytest.raises(KeyboardInterrupt, match="Ctrl-C"):
        cuda.device_array(3)
    assert cuda.device_array(3).size == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"nth": 0}, ValueError),
        ({"nth": 1.5}, TypeError),
        ({"nth": ["one"]}, TypeError),
        ({"every": 0}, ValueError),
        ({"every": True}, TypeError),
        ({"probability": 1.5}, ValueError),
        ({"probability": -0.1}, ValueError),
        ({"error": 3}, TypeError),
    ],
)
def test_orders_that_make_no_sense_are_refused(options, error):
    with pytest.raises(error, match=r"Failing.*: expected"):
        Failing(Recorded(), **options)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="Limit: nbytes -1: expected"):
        Limit(Recorded(), -1)
    with pytest.raises(TypeError, match="Limit: nbytes '1 GB': expected"):
        Limit(Recorded(), "1 GB")
    with pytest.raises(TypeError, match=r"Log\(to=3\): expected a text file"):
        Log(Recorded(), 3)


def test_all_adaptors_stand_on_each_other_in_any_order():
    text, end = io.StringIO(), Recorded()
    inner = Statistics(end)
    outer = Statistics(Log(Failing(Limit(inner, 1000), nth=2), text))
    assert repr(outer) == "<Statistics(Log(Failing(Limit(Statistics(Recorded)))))>"
    assert outer.upstream.upstream.upstream.upstream is inner
    with using_allocator(outer):
        made = []
        for _ in range(4):
            try:
                made.append(cuda.to_device(np.arange(50)))
            except MemoryError:
                made.append(None)
    assert [array is not None for array in made] == [True, False, True, False]
    assert inner.counts == outer.counts == (800, 2, 800, 2, 800, 2)
    for array in (made[0], made[2]):
        np.testing.assert_array_equal(array.copy_to_host(), np.arange(50))
    del array
    made.clear()
    assert inner.counts == outer.counts == (0, 0, 800, 2, 800, 2)
    assert end.live == {}


def test_threads_share_adaptors_and_allocators_that_know_no_threads(device):
    driver = Driver()
    slab = driver.allocate(1 << 20)
    counting = Statistics(Limit(Bump(slab, 1 << 20), 1 << 20))
    set_allocator(counting)
    wrong = []

    def work(number):
        with device:
            for turn in range(50):
                array = cuda.to_device(np.full(10 * turn + 1, number))
                if not (array.copy_to_host() == number).all():
                    wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory.stats()
    total = 4 * sum(8 * (10 * turn + 1) for turn in range(50))
    assert wrong == []
    assert counting.counts[:2] + counting.counts[4:] == (0, 0, total, 200)
    assert counting.upstream.in_use == counting.upstream.upstream.count == 0
    driver.deallocate(slab, 1 << 20)


# ---- ranges -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12), st.booleans()), max_size=40))
def test_ranges_agree_with_a_list_of_all_addresses(steps):
    ranges, held = AddressRanges(), {}
    for start, size, removes in steps:
        if removes and held:
            start = min(held, key=lambda other: abs(other - start))
            ranges.remove(start)
            del held[start]
            continue
        meets = {
            other: length
            for other, length in held.items()
            if other < start + size and start < other + length
        }
        other = ranges.add(start, size)
        if meets:
            assert other in meets.items()
        else:
            assert other is None
            held[start] = size
