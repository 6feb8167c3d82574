"""Memory goes back once, and not too early, whatever comes in between."""

import gc
import threading

import numpy as np
import pytest

from doubles.interrupts import at_each_place
from haulage import cuda, memory
from haulage.errors import DeviceError
from haulage.runtime.devices import pending
from haulage.runtime.memory import allocation
from haulage.runtime.process import finalize

pytestmark = pytest.mark.usefixtures("device")

pooled = pytest.mark.skipif(
    not allocation.is_pooling(), reason="all memory is taken from the driver in this mode"
)


@pytest.fixture(autouse=True)
def settled(device):
    """Nothing of an earlier test is given back while one counts."""
    gc.collect()
    device.synchronize()
    pending.flush(device)


@pooled
def test_two_threads_give_the_same_large_memory_back_once(device, monkeypatch):
    """The second comes while the first looks whether the stream is idle."""
    user = cuda.stream()
    array = cuda.device_array(300_000, np.uint8)
    array.block.use(user)  # so that Python gives it back
    user.synchronize()
    before = memory.stats(device).in_use
    mine, ways = array.block.pool.heap, []
    give, query = mine.give, device.backend.stream_query

    def noted(*args):
        ways.append(args)
        monkeypatch.setattr(device.backend, "stream_query", second_comes)
        give(*args)

    def second_comes(stream):
        monkeypatch.undo()
        give(*ways[0])
        return query(stream)

    monkeypatch.setattr(mine, "give", noted)
    array.close()
    assert len(ways) == 1
    assert memory.stats(device).in_use == before - 300_000
    new = [cuda.device_array(300_000, np.uint8) for _ in range(3)]
    assert len({each.device_pointer for each in new}) == 3


def test_after_ctrl_c_anywhere_what_waits_to_be_given_back_is_still_given_back():
    done = []

    def work():
        for number in range(3):
            finalize.later(done.append, number)
        finalize.drain()

    for _ in at_each_place(work, {"haulage.runtime.process.finalize"}):
        finalize.drain()
        assert not finalize.waiting()


def test_after_ctrl_c_anywhere_nothing_is_deferred_any_more(device):
    def work():
        with cuda.defer_cleanup():
            pass

    modules = {"haulage.runtime.process.finalize", "haulage.runtime.context", "contextlib"}
    for _ in at_each_place(work, modules):
        assert not finalize.deferring()


@pytest.mark.parametrize("nbytes", [1000, 300_000])
def test_after_ctrl_c_anywhere_memory_that_waited_for_a_stream_comes_back(device, nbytes):
    stream = cuda.stream()
    before = memory.stats(device).in_use

    def work():
        array = cuda.device_array(nbytes, np.uint8)
        array.block.use(stream)
        try:
            with held(device, stream):
                array.close()
            stream.synchronize()
        finally:
            del array
        pending.reap()

    for _ in at_each_place(work, {"haulage.runtime.devices.pending"}):
        waiter = threading.Thread(target=pending.wait, args=(device,))
        waiter.start()
        waiter.join(20)
        assert not waiter.is_alive()
        pending.flush(device)
        assert memory.stats(device).in_use == before


@pooled
@pytest.mark.parametrize("nbytes", [1000, 300_000])
def test_after_ctrl_c_anywhere_memory_that_was_put_aside_comes_back(device, nbytes):
    """As what a collector's pass finds is, and what goes inside of `defer_cleanup`."""
    stream = cuda.stream()
    cuda.device_array(nbytes, np.uint8)
    before = memory.stats(device).in_use

    def work():
        with cuda.defer_cleanup():
            array = cuda.device_array(nbytes, np.uint8)
            array.block.use(stream)
            del array

    for _ in at_each_place(
        work, {"haulage.runtime.process.finalize", "haulage.runtime.memory.block"}
    ):
        pending.flush(device)
        assert memory.stats(device).in_use == before


class held:
    """The stream stops at its present end until the `with` ends."""

    def __init__(self, device, stream):
        self.opened = threading.Event()
        device.activate()
        device.backend.stream_callback(stream.handle, lambda: self.opened.wait(60))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.opened.set()


def two_in_the_same_pages():
    """Two small arrays; of two that are made one after the other each may fill another gap."""
    made = {}
    while True:
        array = cuda.to_device(np.arange(10))
        earlier = made.setdefault(array.block.unit, array)
        if earlier is not array:
            return earlier, array


@pooled
@pytest.mark.parametrize("error", [KeyboardInterrupt, DeviceError])
def test_memory_that_others_have_open_is_not_taken_for_free_when_it_is_withdrawn_again(
    device, monkeypatch, error
):
    """Asked once more, the driver does not know it any more, and would say that it is free."""
    one, other = two_in_the_same_pages()
    try:
        one.get_ipc_handle()
    except DeviceError as refused:
        pytest.skip(f"{device}: {refused}")
    other.get_ipc_handle()
    real, address = device.backend.ipc_withdraw, one.device_pointer

    def interrupted(pointer):
        monkeypatch.undo()
        assert real(pointer) == ()  # as `other` is exported
        raise error("in the midst")

    monkeypatch.setattr(device.backend, "ipc_withdraw", interrupted)
    with pytest.raises(error, match="in the midst"):
        one.close()
    arrays = [cuda.to_device(np.arange(10)) for _ in range(200)]
    assert address not in {array.device_pointer for array in arrays}
