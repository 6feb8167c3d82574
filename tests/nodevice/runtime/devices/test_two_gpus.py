"""Two GPUs of one maker in one process, where the driver is a stand-in."""

import textwrap

import pytest

from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

_START = """
import threading
import numpy as np
import haulage
from haulage import cuda, memory
from haulage.runtime.devices import pending

raised = []
sys.unraisablehook = raised.append
first, second = [device for device in haulage.devices() if device.kind != "cpu"]
"""


DOUBLES = pytest.mark.parametrize("double", ["libcuda", "libamdhip64"])


@DOUBLES
def test_a_thread_without_a_context_gives_back_what_both_devices_have(double):
    program = """
    kept = []
    for device in (first, second):
        with haulage.use(device):
            for nbytes in (1000, 300_000):
                stream, mark = cuda.stream(), cuda.event()
                array = cuda.to_device(np.full(nbytes, 7, np.uint8), stream=stream)
                other = cuda.device_array(nbytes, np.uint8)
                other.copy_to_device(array, stream=stream)
                mark.record(stream)
                assert (other.copy_to_host() == 7).all() and other.device is device
                kept.append([array, other, stream, mark, cuda.mapped_array(9)])
    del array, other, stream, mark
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    for device in (first, second):
        device.synchronize()
        pending.flush(device)
        memory.trim(device)
        stats = memory.stats(device)
        assert (stats.in_use, stats.reserved) == (0, 0), stats
    assert not raised, raised
    """
    run(_START + textwrap.dedent(program), "devices=2", double=double)


@DOUBLES
def test_streams_wait_for_events_of_the_other_and_pinned_memory_is_for_both(double):
    program = """
    with haulage.use(first):
        earlier, mark, pinned = cuda.stream(), cuda.event(), cuda.pinned_array(1000, np.uint8)
        managed = cuda.managed_array(1000, np.uint8)
    pinned[:] = managed[:] = 5
    go_on = threading.Event()
    earlier.add_callback(lambda *_: go_on.wait(60))
    mark.record(earlier)
    with haulage.use(second):
        later, target = cuda.stream(), cuda.device_array(1000, np.uint8)
    mark.wait(later)
    target.copy_to_device(pinned, stream=later)  # does not wait
    assert not later.query()
    del pinned
    assert memory.stats(first).by_kind["pinned"].in_use == 1000
    go_on.set()
    later.synchronize()
    assert (target.copy_to_host() == 5).all()
    pending.flush(first)
    assert memory.stats(first).by_kind["pinned"].in_use == 0
    assert not managed.block.is_pinned_for(second)
    assert not raised, raised
    """
    run(_START + textwrap.dedent(program), "devices=2", double=double)


def test_memory_of_the_other_is_used_where_an_nvidia_device_reaches_it():
    program = """
    class Theirs:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    @cuda.jit
    def twice(x, y):
        i = cuda.grid(1)
        y[i] = 2 * x[i]

    with haulage.use(second):
        there = cuda.to_device(np.arange(4.0))
        second.synchronize()
    with haulage.use(first):
        here = cuda.to_device(np.zeros(4))
        for use in (
            lambda: cuda.as_cuda_array(Theirs(there)),
            lambda: twice[1, 4](Theirs(there), here),
        ):
            try:
                use()
            except haulage.errors.DeviceError as error:
                assert error.code == 705 and "enable_peer_access(1)" in str(error), error
            else:
                raise AssertionError("memory out of reach was taken")
        cuda.current_context().enable_peer_access(1)
        twice[1, 4](Theirs(there), here)
        assert here.copy_to_host().tolist() == [0, 2, 4, 6]
        twice[1, 4](here, cuda.as_cuda_array(Theirs(there)))
        first.synchronize()
        assert there.copy_to_host().tolist() == [0, 4, 8, 12]
    """
    reading = "from doubles.libcuda.reading import Reading\ndouble.interpret(Reading())\n"
    run(reading + _START + textwrap.dedent(program), "devices=2")


@pytest.mark.parametrize("memory", ["pool", "driver"])
def test_copies_go_between_devices_that_do_not_reach_each_other(memory):
    program = """
    with haulage.use(second):
        there, stream = cuda.to_device(np.arange(12.0)), cuda.stream()
    with haulage.use(first):
        here = cuda.to_device(np.zeros(12))
        here.copy_to_device(there)
        assert here.copy_to_host().tolist() == list(range(12))
        here[::2].copy_to_device(there[::-2])
        assert here[::2].copy_to_host().tolist() == [11, 9, 7, 5, 3, 1]
    with haulage.use(second):
        there[:] = here
        there[6:].copy_to_device(here[:6], stream=stream)
        stream.synchronize()
        assert there.copy_to_host()[4:8].tolist() == [7, 5, 11, 1]
        try:
            second.activate()
            second.backend.copy_nd(
                there.device_pointer, (16,), here.device_pointer, (16,), (6,), 8, 0
            )
        except haulage.errors.DeviceError as error:
            assert error.code == 705 and "enable_peer_access(0)" in str(error), error
        else:
            raise AssertionError("a kernel was given memory out of reach")
    assert not raised, raised
    """
    reading = "from doubles.libcuda.reading import Reading\ndouble.interpret(Reading())\n"
    run(reading + _START + textwrap.dedent(program), "devices=2", HAULAGE_MEMORY=memory)


def test_launches_take_arrays_of_devices_that_reach_each_other():
    program = """
    @cuda.jit
    def add(x, y):
        i = cuda.grid(1)
        y[i] += x[i]

    with haulage.use(second):
        there = cuda.to_device(np.arange(4.0))
        second.synchronize()
    with haulage.use(first):
        here = cuda.to_device(np.ones(4))
        try:
            add[1, 4](there, here)
        except haulage.errors.DeviceMismatch as error:
            assert "enable_peer_access" in str(error), error
        else:
            raise AssertionError("memory out of reach was taken")
        cuda.current_context().enable_peer_access(1)
        stream = cuda.stream()
        add[1, 4](there, here)
        add[1, 4](here, there)
        first.synchronize()
        add[1, 4, stream]((there, here)[0], here)
        stream.synchronize()
        assert here.copy_to_host().tolist() == [2, 5, 8, 11]
    with haulage.use(second):
        assert there.copy_to_host().tolist() == [1, 3, 5, 7]
        add[1, 4](there, here)  # on the first one, which alone reaches both
        first.synchronize()
        assert here.copy_to_host().tolist() == [3, 8, 13, 18]
        here.copy_to_device(there)
        assert here[::-1].copy_to_host().tolist() == [7, 5, 3, 1]
        there[::2].copy_to_device(here[1::2])
        assert there.copy_to_host().tolist() == [3, 3, 7, 7]
    assert not raised, raised
    """
    reading = "from doubles.libcuda.reading import Reading\ndouble.interpret(Reading())\n"
    run(reading + _START + textwrap.dedent(program), "devices=2")


def test_kernels_of_both_nvidia_devices_reach_mapped_and_managed_arrays():
    program = """
    @cuda.jit
    def add(x, y):
        i = cuda.grid(1)
        y[i] += x[i]

    with haulage.use(first):
        mapped, managed = cuda.mapped_array(4, portable=True), cuda.managed_array(4)
        wc = cuda.mapped_array(4, wc=True)
        registered = np.arange(4.0)
    mapped[:] = managed[:] = wc[:] = range(4)
    as_a_global = mapped.device_view()

    @cuda.jit
    def add_global(y):
        i = cuda.grid(1)
        y[i] += as_a_global[i]

    with haulage.use(second):
        out, stream = cuda.to_device(np.zeros(4)), cuda.stream()
        for shared in (mapped, managed, wc):
            for _ in range(2):
                add[1, 4](shared, out)
                add[1, 4, stream](shared, out)
                second.synchronize()
        assert out.copy_to_host().tolist() == [0, 12, 24, 36]
        add[1, 4](out, mapped)
        second.synchronize()
        assert mapped.tolist() == [0, 13, 26, 39]
        assert stream in mapped.block.users() and second.default_stream in mapped.block.users()
        add_global[1, 4](out)
        assert out.copy_to_host().tolist() == [0, 25, 50, 75]
        with cuda.mapped(registered) as of_first:  # registered for this device alone
            pass
    with haulage.use(first):
        own, other = cuda.to_device(np.zeros(4)), cuda.stream()
        add_global[1, 4](own)
        assert own.copy_to_host().tolist() == [0, 13, 26, 39]
        with cuda.mapped(registered) as here:
            try:
                with haulage.use(second):
                    add[1, 4](here, out)
            except haulage.errors.DeviceMismatch as error:
                assert "0" in str(error) and "1" in str(error), error
            else:
                raise AssertionError("memory that was registered for another device was taken")
        try:
            add[1, 4, other](mapped, out)
        except haulage.errors.DeviceMismatch as error:
            assert "enable_peer_access" in str(error), error
        else:
            raise AssertionError("memory out of reach was taken")
    del mapped, managed, wc, as_a_global
    assert not raised, raised
    """
    reading = "from doubles.libcuda.reading import Reading\ndouble.interpret(Reading())\n"
    run(reading + _START + textwrap.dedent(program), "devices=2")


def test_kernels_of_both_amd_devices_are_given_mapped_arrays():
    program = """
    @cuda.jit
    def add(x, y):
        i = cuda.grid(1)
        y[i] += x[i]

    with haulage.use(first):
        mapped, managed = cuda.mapped_array(4), cuda.managed_array(4)
    with haulage.use(second):
        out, stream = cuda.to_device(np.zeros(4)), cuda.stream()
        for shared in (mapped, managed):
            add[1, 4](shared, out)
            add[1, 4, stream](shared, out)
            second.synchronize()
            assert {stream, second.default_stream} < set(shared.block.users())
    del mapped, managed, shared
    assert not raised, raised
    """
    run(_START + textwrap.dedent(program), "devices=2", double="libamdhip64")
